/** Tables that are brought up to date in place: a row that is still there keeps its element, focus and selection. */

import { h } from "./ops-dom.js";

/**
 * A table. A column has a `label`, `value(row, about)` that everything in its cell depends on, and `show(value, row, about)`
 * that makes the cell's children; `kind` is `number`, `name` or nothing.
 */
export class Table {
  #columns;
  #keyOf;
  #body;
  #empty;
  #rows = new Map();

  constructor({ caption, columns, keyOf, empty, kind = "" }) {
    this.#columns = columns;
    this.#keyOf = keyOf;
    this.#body = h("tbody", { role: "rowgroup" });
    this.#empty = h("p", { class: "note" }, empty);
    const heads = columns.map((column) =>
      h("th", { scope: "col", role: "columnheader", class: column.kind, title: column.about }, column.label),
    );
    const head = h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads));
    const table = h("table", { role: "table", class: kind }, h("caption", { class: "unseen" }, caption), head, this.#body);
    this.scroller = h("div", { class: "scroller", role: "region", "aria-label": caption, tabindex: "0" }, table);
    this.element = h("div", { class: "table" }, this.scroller, this.#empty);
  }

  /** Say from now on what it means that there are no rows. */
  set empty(text) {
    if (this.#empty.textContent !== text) this.#empty.textContent = text;
  }

  /** Show these rows and no others; `about` is what cells need besides their row. */
  show(rows, about = {}) {
    const wanted = rows.map((row) => this.#row(row, about));
    const kept = new Set(wanted);
    for (const [key, row] of this.#rows) {
      if (!kept.has(row)) {
        row.element.remove();
        this.#rows.delete(key);
      }
    }
    wanted.forEach((row, place) => {
      if (this.#body.children[place] !== row.element) this.#body.insertBefore(row.element, this.#body.children[place] ?? null);
    });
    this.scroller.hidden = rows.length === 0;
    this.#empty.hidden = rows.length > 0;
  }

  #row(data, about) {
    const key = this.#keyOf(data);
    let row = this.#rows.get(key);
    if (!row) {
      const cells = this.#columns.map((column) => cellOf(column));
      row = { element: h("tr", { role: "row" }, cells), cells, signs: [] };
      this.#rows.set(key, row);
    }
    this.#columns.forEach((column, place) => {
      const value = column.value(data, about);
      const sign = JSON.stringify(value) ?? "";
      if (row.signs[place] === sign) return;
      row.signs[place] = sign;
      row.cells[place].replaceChildren(...[column.show ? column.show(value, data, about) : String(value ?? "–")].flat(Infinity));
    });
    return row;
  }
}

function cellOf(column) {
  if (column.kind === "name") return h("th", { scope: "row", role: "rowheader", class: "name", "data-label": column.label });
  return h("td", { role: "cell", class: column.kind, "data-label": column.label });
}
