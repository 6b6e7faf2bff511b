/** What the pages for operators share: navigation, state of the connection, language, token, and the watch behind them. */

import { Asker, Refused } from "./ops-ask.js";
import { h } from "./ops-dom.js";
import { Format } from "./ops-format.js";
import { chosenUi, Words } from "./ops-strings.js";
import { AdminToken } from "./ops-token.js";
import { Watch } from "./ops-watch.js";
import { Settings } from "./settings.js";

const PAGES = ["dashboard", "cluster", "compute-power", "models", "languages"];
const UNAUTHORISED = 401;
const FORBIDDEN = 403;

/**
 * Open a page: `addresses()` names what to ask for, `build(main, tools)` makes the page and gives the function that shows the
 * answers. Tools are the words, the formats and `look`, which asks again at once.
 */
export function openPage({ name, addresses, build }) {
  const shell = new Shell(name, addresses, build);
  shell.open();
  return shell;
}

class Shell {
  #name;
  #build;
  #settings = new Settings();
  #token = new AdminToken();
  #watch;
  #words;
  #format;
  #parts;
  #nav;
  #show = null;
  #last = null; // the last answer
  #lastMs = 0; // when it came, by this machine's clock
  #refused = false; // a token was shown and not accepted

  constructor(name, addresses, build) {
    this.#name = name;
    this.#build = build;
    this.#token.takeFrom(location, history);
    addEventListener("hashchange", () => this.#tokenSaid());
    this.#watch = new Watch(new Asker(this.#token), {
      addresses,
      onAnswer: (answer) => this.#answered(answer),
      onFailure: (error) => this.#failed(error),
    });
  }

  open() {
    this.#draw();
    this.#watch.look();
  }

  #draw() {
    this.#words = new Words(chosenUi(this.#settings.ui, navigator.languages ?? ["en"]));
    this.#format = new Format(this.#words);
    const say = (key) => this.#words.say(key);
    document.documentElement.lang = this.#words.tag;
    document.title = `${say(this.#name)} · ${say("brand")}`;
    this.#parts = {
      banner: h("div", { class: "banner", role: "status", "aria-live": "polite" }),
      updated: h("p", { class: "updated soft" }),
      forget: this.#button("tokenForget", () => this.#forget(), "quiet"),
      gate: h("div", {}),
      main: h("main", { "aria-busy": "true" }, h("p", { class: "note" }, say("loading"))),
    };
    this.#show = null;
    document.body.replaceChildren(this.#header(), this.#parts.banner, this.#parts.gate, this.#parts.main);
    this.#parts.forget.hidden = !this.#token.value;
    this.#nav.querySelector("[aria-current]").scrollIntoView({ inline: "center", block: "nearest" });
    if (this.#last) this.#render();
  }

  #header() {
    const say = (key) => this.#words.say(key);
    const links = PAGES.map((page) =>
      h("a", { href: `/${page}`, "aria-current": page === this.#name && "page" }, say(page)),
    );
    const otherUi = () => {
      this.#settings.set({ ui: this.#words.ui === "en" ? "zh" : "en" });
      this.#draw();
      this.#watch.look();
    };
    const language = this.#button("otherUi", otherUi, "quiet");
    language.id = "ui";
    language.setAttribute("aria-label", say("otherUiLabel"));
    return h(
      "header",
      { class: "top" },
      h("p", { class: "brand" }, say("brand")),
      (this.#nav = h("nav", { "aria-label": say("pages") }, links)),
      h("div", { class: "tools" }, this.#parts.updated, this.#parts.forget, language),
    );
  }

  #button(key, onClick, kind = "") {
    return h("button", { type: "button", class: kind, on: { click: onClick } }, this.#words.say(key));
  }

  #answered(answer) {
    const first = !this.#last || !this.#show;
    const again = document.body.dataset.state !== "fresh";
    const { data, serverMs } = answer;
    this.#last = { data, serverMs };
    this.#lastMs = Date.now();
    this.#refused = false;
    this.#parts.gate.replaceChildren();
    if (again) this.#parts.banner.replaceChildren();
    this.#parts.forget.hidden = !this.#token.value;
    document.body.dataset.state = "fresh";
    if (first || answer.changed || again) this.#render();
    this.#parts.updated.textContent = this.#words.say("updated", { time: this.#format.time(this.#lastMs) });
  }

  #render() {
    const { main, updated } = this.#parts;
    if (!this.#show) {
      main.replaceChildren(h("h1", {}, this.#words.say(this.#name)));
      const tools = { words: this.#words, format: this.#format, look: () => this.#watch.look() };
      this.#show = this.#build(main, tools);
      main.removeAttribute("aria-busy");
    }
    this.#show(this.#last.data, this.#last.serverMs);
    updated.textContent = this.#words.say("updated", { time: this.#format.time(this.#lastMs) });
  }

  #failed(error) {
    const status = error instanceof Refused ? error.status : 0;
    document.body.dataset.state = "gone";
    if (status === UNAUTHORISED) {
      this.#askForToken();
      return;
    }
    const time = this.#format.time(this.#lastMs);
    let text = this.#words.say(this.#last ? "gone" : "goneAtOnce", { time });
    if (status === FORBIDDEN) text = this.#words.say("forbidden", { detail: error.message });
    else if (status) text = this.#words.say("failing", { status, time: this.#last ? time : "–" });
    this.#warn(text);
  }

  #warn(text) {
    const { banner } = this.#parts;
    if (banner.firstElementChild?.textContent === text) return; // said already
    banner.replaceChildren(h("p", {}, text), this.#button("tryNow", () => this.#watch.look()));
  }

  #askForToken() {
    this.#watch.rest();
    const say = (key) => this.#words.say(key);
    this.#refused = Boolean(this.#token.value);
    this.#useToken("", false);
    const box = h("input", { type: "password", id: "token", name: "token", autocomplete: "off", required: true, spellcheck: "false" });
    const sent = (event) => {
      event.preventDefault();
      this.#useToken(box.value);
    };
    const form = h(
      "form",
      { class: "card token", on: { submit: sent } },
      h("h2", {}, say("tokenTitle")),
      h("p", { class: "soft" }, say("tokenAbout")),
      h("label", { for: "token" }, say("tokenLabel")),
      h("div", { class: "row" }, box, h("button", { type: "submit", class: "main" }, say("tokenUse"))),
    );
    this.#parts.gate.replaceChildren(form);
    if (!this.#last) this.#parts.main.replaceChildren();
    this.#parts.banner.replaceChildren(...(this.#refused ? [h("p", {}, say("tokenWrong"))] : []));
    box.focus();
  }

  #tokenSaid() {
    const before = this.#token.value;
    this.#token.takeFrom(location, history);
    if (this.#token.value !== before) this.#watch.look();
  }

  #forget() {
    this.#last = null;
    this.#token.set("");
    this.#draw();
    this.#watch.look();
  }

  #useToken(value, look = true) {
    this.#token.set(value);
    this.#parts.forget.hidden = !this.#token.value;
    if (look) this.#watch.look();
  }
}
