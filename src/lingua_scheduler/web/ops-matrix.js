/** The matrix of languages: rows are spoken, columns are wanted, cells say how many slots are free and who asks. */

import { h, unseen } from "./ops-dom.js";

/** One table that is drawn anew when something in it has changed. */
export class Matrix {
  #words;
  #format;
  #holder = h("div", { class: "scroller", role: "region", tabindex: "0" });
  #note = h("p", { class: "soft" });
  #sign = "";

  constructor(words, format) {
    this.#words = words;
    this.#format = format;
    this.#holder.setAttribute("aria-label", words.say("matrix"));
    const key = (kind, name) => h("li", {}, h("span", { class: `cell ${kind}`, "aria-hidden": "true" }, SAMPLE[kind]), " ", words.say(name));
    this.legend = h("ul", { class: "legend matrix-legend" }, key("free", "legendFree"), key("full", "legendFull"), key("unserved", "legendUnserved"));
    this.element = h("div", {}, this.legend, this.#holder, this.#note);
  }

  /** Show the pairs of the languages that the API chose. */
  show(pairs) {
    const sign = JSON.stringify([pairs.languages, pairs.cells, pairs.total_languages]);
    if (sign === this.#sign) return;
    this.#sign = sign;
    const { languages, total_languages: total } = pairs;
    const left = total - languages.length;
    this.#note.textContent = left > 0 ? this.#words.say("matrixMore", { shown: languages.length, total }) : "";
    this.legend.hidden = languages.length === 0;
    const place = this.#holder.scrollLeft;
    this.#holder.replaceChildren(languages.length ? this.#table(pairs) : h("p", { class: "note" }, this.#words.say("matrixEmpty")));
    this.#holder.scrollLeft = place;
  }

  #table({ languages, cells }) {
    const known = new Map(cells.map((cell) => [`${cell.src}:${cell.tgt}`, cell]));
    const name = (lang, scope) => h("th", { scope, title: this.#format.language(lang) }, lang);
    const corner = h("td", { class: "corner soft" }, this.#words.say("spokenWanted"));
    const head = h("thead", {}, h("tr", {}, corner, languages.map((tgt) => name(tgt, "col"))));
    const body = languages.map((src) =>
      h("tr", {}, name(src, "row"), languages.map((tgt) => this.#cell(src === tgt ? null : (known.get(`${src}:${tgt}`) ?? {}), `${src} → ${tgt}`))),
    );
    return h("table", { class: "matrix" }, h("caption", { class: "unseen" }, this.#words.say("matrix")), head, h("tbody", {}, body));
  }

  #cell(cell, pair) {
    if (cell === null) return h("td", { class: "cell same" });
    const { total_slots: total = 0, free_slots: free = 0, ready_nodes: nodes = 0, sessions = 0 } = cell;
    if (!total && !sessions) return h("td", { class: "cell none" }, h("span", { "aria-hidden": "true" }, "·"), unseen(this.#words.say("matrixNone")));
    const kind = !total ? "unserved" : free ? "free" : "full";
    const full = this.#words.say(total ? "matrixCell" : "matrixUnserved", { pair, free, total, nodes, sessions });
    const slots = total ? `${MARKS[kind]}${free}/${total}` : SAMPLE.unserved;
    return h(
      "td",
      { class: `cell ${kind}`, title: full },
      h("span", { "aria-hidden": "true" }, slots, sessions > 0 && h("small", {}, this.#format.number(sessions))),
      unseen(full),
    );
  }
}

const MARKS = { free: "", full: "▲ " };
const SAMPLE = { free: "3/4", full: "▲ 0/4", unserved: "■ 0" };
