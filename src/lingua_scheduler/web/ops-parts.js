/** Parts that several pages for operators are made of: sections, tiles, and a way through many rows. */

import { h, marked } from "./ops-dom.js";

/** Make a section with a heading; what follows are its children. */
export function section(title, about, ...children) {
  const id = `h-${title.replace(/\W+/gu, "-").toLowerCase()}-${(section.count = (section.count ?? 0) + 1)}`;
  return h(
    "section",
    { "aria-labelledby": id },
    h("h2", { id }, title),
    about && h("p", { class: "soft about" }, about),
    children,
  );
}

/** Numbers that are seen at a glance. */
export class Tiles {
  #values = new Map();

  constructor(label, tiles, words) {
    this.words = words;
    this.element = h(
      "dl",
      { class: "tiles", "aria-label": label },
      tiles.map(({ key, label: name, about }) => {
        const [value, more] = [h("b", {}), h("small", { class: "soft" }, about ?? "")];
        this.#values.set(key, { value, more, sign: "" });
        return h("div", { class: "tile", "data-tile": key }, h("dt", {}, name), h("dd", {}, value, more));
      }),
    );
  }

  /** Show a number, how bad it is, and what else there is to say. */
  show(key, text, { level = "", more = null } = {}) {
    const tile = this.#values.get(key);
    const sign = JSON.stringify([text, level, more]);
    if (tile.sign === sign) return;
    tile.sign = sign;
    tile.value.replaceChildren(marked(text, level, this.words.levels));
    if (more !== null) tile.more.textContent = more;
  }
}

/** Goes through many rows a page at a time, by the cursors that the API gives. */
export class Pager {
  #cursors = [""];
  #next = null;
  #size;
  #back;
  #on;
  #text;

  constructor(size, words, onTurn) {
    this.#size = size;
    const turn = (step) => () => {
      if (step > 0 && this.#next !== null) this.#cursors.push(this.#next);
      if (step < 0 && this.#cursors.length > 1) this.#cursors.pop();
      onTurn();
    };
    this.words = words;
    this.#back = h("button", { type: "button", on: { click: turn(-1) } }, words.say("previous"));
    this.#on = h("button", { type: "button", on: { click: turn(1) } }, words.say("next"));
    this.#text = h("span", { role: "status" });
    this.element = h("div", { class: "pager" }, this.#back, this.#text, this.#on);
  }

  /** Where the page that is shown begins. */
  get cursor() {
    return this.#cursors.at(-1);
  }

  /** Begin at the first page again. */
  restart() {
    this.#cursors = [""];
  }

  /** Take in what the API said of this page. */
  show({ rows, total, next }) {
    this.#next = next;
    const before = (this.#cursors.length - 1) * this.#size;
    this.#back.disabled = this.#cursors.length === 1;
    this.#on.disabled = next === null;
    const text = rows ? this.words.say("pageOf", { from: before + 1, to: before + rows, total }) : "";
    if (this.#text.textContent !== text) this.#text.textContent = text;
    this.element.hidden = this.#cursors.length === 1 && next === null;
  }
}

/** Do something once somebody has stopped typing. */
export function settled(action, pauseMs = 250) {
  let timer = null;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, pauseMs);
  };
}
