/** The way into a room: a name, a language, how to follow the others, and a code or a new room. */

import { ServedWatch, closest, offer } from "./languages.js";
import { codeIn } from "./room-membership.js";
import { $ } from "./talk-view.js";

const takeButtons = () => document.querySelectorAll("[data-take]");

/** The form; `onEnter(code)` is called with a code, empty for a new room; `onTake(take)` also when already inside. */
export class RoomLobby {
  #settings;
  #onEnter;
  #watch;
  #uiLang = "en";

  constructor(settings, { onEnter, onTake, onServed }) {
    this.#settings = settings;
    this.#onEnter = onEnter;
    this.#watch = new ServedWatch((served) => {
      this.#settle();
      onServed(served);
    });
    $("lobby").addEventListener("submit", (event) => this.#submit(event));
    $("create").addEventListener("click", () => {
      this.#choose({ name: $("name").value.trim() });
      onEnter("");
    });
    $("name").addEventListener("change", () => this.#choose({ name: $("name").value.trim() }));
    $("mine").addEventListener("change", () => this.#choose({ mine: $("mine").value }));
    for (const button of takeButtons()) {
      button.addEventListener("click", () => {
        this.#choose({ take: button.dataset.take });
        onTake(button.dataset.take);
      });
    }
    $("code").addEventListener("input", () => this.#typed());
    $("name").value = settings.name;
  }

  /** Whether anything can be translated. */
  get ready() {
    return this.#watch.ready;
  }

  /** The language that is translated into when nobody else is there: any that is served. */
  get fallback() {
    const { mine, other } = this.#settings;
    const into = this.#watch.served?.into(mine) ?? [];
    return into.includes(other) ? other : closest(into, ["en", "zh"]) || other || "en";
  }

  /** Ask which languages are served, now and from time to time. */
  look() {
    return this.#watch.look();
  }

  /** Show the names of languages in the language of the page. */
  relabel(uiLang) {
    this.#uiLang = uiLang;
    this.render();
  }

  /** Fill in a code. */
  fill(code) {
    if (code) $("code").value = code;
    this.render();
  }

  /** Show what can be chosen, and what is. */
  render() {
    const { mine, take } = this.#settings;
    $("mine").disabled = !this.ready;
    if (this.ready) offer($("mine"), this.#watch.served.spoken, mine, this.#uiLang);
    for (const button of takeButtons()) button.setAttribute("aria-pressed", button.dataset.take === take);
    const code = codeIn($("code").value);
    $("join").disabled = !this.ready || !code;
    $("create").disabled = !this.ready;
    $("lobby").dataset.invited = Boolean(code);
  }

  #settle() {
    const { served, ready } = this.#watch;
    const { mine } = this.#settings;
    if (ready && !served.spoken.includes(mine)) {
      this.#settings.set({ mine: closest(served.spoken, [mine, ...(navigator.languages ?? [])]) });
    }
    this.render();
  }

  #typed() {
    const code = codeIn($("code").value);
    if (code) $("code").value = code;
    this.render();
  }

  #choose(changes) {
    this.#settings.set(changes);
    this.render();
  }

  #submit(event) {
    event.preventDefault();
    this.#settings.set({ name: $("name").value.trim() });
    const code = codeIn($("code").value);
    if (code && this.ready) this.#onEnter(code);
  }
}
