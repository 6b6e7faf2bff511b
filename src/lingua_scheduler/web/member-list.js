/** Who is in the room, in which language, who speaks now, and whose own voice is not to be heard. */

import { write } from "./caption-list.js";
import { nameIn } from "./languages.js";

const ICON = "http://www.w3.org/2000/svg";
const LOUD = "M4 9v6h4l5 4V5L8 9zM16.5 8.5a5 5 0 0 1 0 7M19 6a9 9 0 0 1 0 12";
const MUTED = "M4 9v6h4l5 4V5L8 9zM17 9.5l5 5M22 9.5l-5 5";

/** A list of people; `say` gives a sentence by its key, `nameOf(member)` a name, `onMute(id, muted)` is a wish. */
export class MemberList {
  #list;
  #of;
  #items = new Map(); // by id

  constructor(list, { say, nameOf, onMute }) {
    this.#list = list;
    this.#of = { say, nameOf, onMute };
  }

  /** Show everybody; `uiLang` names languages, and own voices can be muted only where they are `audible`. */
  show(members, { uiLang, audible }) {
    const ids = new Set(members.map(({ id }) => id));
    for (const [id, { item }] of this.#items) if (!ids.has(id)) item.remove();
    for (const id of [...this.#items.keys()]) if (!ids.has(id)) this.#items.delete(id);
    for (const member of members) this.#show(member, uiLang, audible);
  }

  /** Show who speaks, and whose translation is played; null: nobody's. */
  mark(speaking, played) {
    for (const [id, { item, state }] of this.#items) {
      const now = speaking.has(id) ? "speaking" : id === played ? "played" : "";
      if (item.dataset.now === now) continue;
      item.dataset.now = now;
      state.textContent = now && this.#of.say(now === "speaking" ? "isSpeaking" : "isTranslated");
    }
  }

  #show(member, uiLang, audible) {
    const { say, nameOf } = this.#of;
    if (!this.#items.has(member.id)) this.#items.set(member.id, this.#make(member));
    const { item, face, name, lang, mute, icon } = this.#items.get(member.id);
    const called = nameOf(member);
    write(name, member.me && member.name ? say("youNamed", { name: member.name }) : called);
    write(face, [...(member.name || called)][0]?.toLocaleUpperCase() ?? "");
    write(lang, this.#language(member, uiLang), uiLang);
    mute.hidden = member.me || !audible;
    mute.setAttribute("aria-pressed", member.muted);
    mute.ariaLabel = mute.title = say(member.muted ? "hearVoice" : "muteVoice", { name: called });
    icon.setAttribute("d", member.muted ? MUTED : LOUD);
    item.dataset.muted = member.muted;
  }

  #language({ lang, mode }, uiLang) {
    const { say } = this.#of;
    const named = lang ? nameIn(lang, uiLang) : say("noLanguage");
    return mode === "voice" ? named : `${named} · ${say("readsOnly")}`;
  }

  #make({ id, me }) {
    const item = document.createElement("li");
    item.className = me ? "member me" : "member";
    const part = (tag, className, parent = item) => {
      const made = document.createElement(tag);
      made.className = className;
      parent.append(made);
      return made;
    };
    const face = part("span", "face");
    face.ariaHidden = "true";
    const about = part("span", "about");
    const [name, lang, state] = ["name", "lang", "now"].map((className) => part("span", className, about));
    const mute = part("button", "mute");
    mute.type = "button";
    mute.addEventListener("click", () => this.#of.onMute(id, mute.getAttribute("aria-pressed") !== "true"));
    const svg = document.createElementNS(ICON, "svg");
    const icon = document.createElementNS(ICON, "path");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.ariaHidden = "true";
    svg.append(icon);
    mute.append(svg);
    this.#list.append(item);
    return { item, face, name, lang, state, mute, icon };
  }
}
