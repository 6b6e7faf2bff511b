/** Small drawings: a course over time, and bars; every number in them is also there as text. */

import { h, s } from "./ops-dom.js";

const WIDTH = 600;
const HEIGHT = 120;
const SPAN_MS = 15 * 60_000;

/** A course over time: one or two lines that end now. */
export class Course {
  #words;
  #format;
  #series;
  #drawing;
  #top;
  #start;
  #legend;
  #paths;

  constructor({ title, about, series }, words, format) {
    this.#words = words;
    this.#format = format;
    this.#series = series;
    this.#paths = series.map((_, place) => ({
      area: s("path", { class: `area s${place}` }),
      line: s("path", { class: `line s${place}`, "vector-effect": "non-scaling-stroke" }),
    }));
    this.#drawing = s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      [0, 0.5, 1].map((part) => s("path", { class: "grid", d: `M0 ${HEIGHT * (1 - part)}H${WIDTH}`, "vector-effect": "non-scaling-stroke" })),
      this.#paths.map(({ area, line }) => [area, line]),
    );
    this.#top = h("span", { class: "top" });
    this.#start = h("span", {});
    this.#legend = h("dl", { class: "legend" });
    const axis = h("div", { class: "axis", "aria-hidden": "true" }, this.#start, h("span", {}, words.say("now")));
    this.element = h(
      "figure",
      { class: "card course" },
      h("figcaption", {}, h("h3", {}, title), h("p", { class: "soft" }, about)),
      this.#legend,
      h("div", { class: "plot" }, this.#top, this.#drawing),
      axis,
    );
  }

  /** Draw columns of numbers over their times. */
  show(atMs, columns) {
    const highest = Math.max(1, ...columns.flat());
    const first = (atMs.at(-1) ?? 0) - SPAN_MS;
    this.#paths.forEach(({ area, line }, place) => {
      const points = atMs.map((at, index) => {
        const [x, y] = [((at - first) / SPAN_MS) * WIDTH, HEIGHT * (1 - columns[place][index] / highest)];
        return `${x.toFixed(1)} ${y.toFixed(1)}`;
      });
      line.setAttribute("d", points.length ? `M${points.join("L")}` : "");
      area.setAttribute("d", points.length ? `M${points[0].split(" ")[0]} ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z` : "");
    });
    this.#top.textContent = this.#format.number(highest);
    this.#start.textContent = this.#words.say("before", { time: this.#format.duration(SPAN_MS / 1000) });
    this.#describe(columns);
  }

  #describe(columns) {
    const texts = this.#series.map((name, place) => {
      const [now, highest] = [columns[place].at(-1) ?? 0, Math.max(0, ...columns[place])];
      return { name, text: this.#words.say("nowHighest", { now: this.#format.number(now), highest: this.#format.number(highest) }) };
    });
    this.#legend.replaceChildren(
      ...texts.map(({ name, text }, place) =>
        h("div", {}, h("dt", {}, key(place), name), h("dd", {}, text)),
      ),
    );
    this.#drawing.setAttribute("aria-label", texts.map(({ name, text }) => `${name}: ${text}`).join("; "));
  }
}

/** A bar as wide as its part of a whole; a second, lighter one reaches further. */
export function bar(part, further = 0) {
  const [solid, light] = [part, further].map((share) => Math.max(0, Math.min(1, share || 0)) * 100);
  return s(
    "svg",
    { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "ground", width: 100, height: 10 }),
    s("rect", { class: "light", width: light.toFixed(2), height: 10 }),
    s("rect", { class: "solid", width: solid.toFixed(2), height: 10 }),
  );
}

function key(place) {
  return s(
    "svg",
    { class: "key", viewBox: "0 0 20 8", "aria-hidden": "true" },
    s("path", { class: `line s${place}`, d: "M0 4H20", "vector-effect": "non-scaling-stroke" }),
  );
}
