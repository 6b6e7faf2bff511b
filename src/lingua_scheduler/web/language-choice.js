/** The two language boxes: what can be chosen follows what can be served now. */

import { ServedWatch, closest, offer } from "./languages.js";

/** Fills the boxes, keeps them fresh, and tells what was chosen. */
export class LanguageChoice {
  #mine;
  #other;
  #swap;
  #settings;
  #onChange;
  #watch;
  #uiLang = "en";

  /** `onChange()` is called when another pair is chosen, `onServed(served)` after every look at the server. */
  constructor({ mine, other, swap }, settings, { onChange, onServed }) {
    [this.#mine, this.#other, this.#swap] = [mine, other, swap];
    this.#settings = settings;
    this.#onChange = onChange;
    this.#watch = new ServedWatch((served) => {
      if (this.#watch.ready) this.#settle(settings.mine, settings.other);
      this.render();
      onServed(served);
    });
    mine.addEventListener("change", () => this.#choose(mine.value, other.value));
    other.addEventListener("change", () => this.#choose(mine.value, other.value));
    swap.addEventListener("click", () => this.#choose(other.value, mine.value));
  }

  /** What the server said last: null when it could not be reached. */
  get served() {
    return this.#watch.served;
  }

  /** Whether the chosen pair is served in both directions. */
  get twoWay() {
    const { mine, other } = this.#settings;
    return Boolean(this.served?.has(mine, other) && this.served.has(other, mine));
  }

  /** Ask the server, now and from time to time. */
  look() {
    return this.#watch.look();
  }

  /** Show the names in the language of the page. */
  relabel(uiLang) {
    this.#uiLang = uiLang;
    this.render();
  }

  /** Show what can be chosen, and what is. */
  render() {
    const { served } = this;
    const { mine, other } = this.#settings;
    this.#mine.disabled = this.#other.disabled = !this.#watch.ready;
    if (this.#watch.ready) {
      offer(this.#mine, served.spoken, mine, this.#uiLang);
      offer(this.#other, served.into(mine), other, this.#uiLang);
    }
    this.#swap.disabled = !served?.has(other, mine);
  }

  /** Make of wishes a pair that is served. */
  #settle(mine, other) {
    const { served } = this;
    const nears = navigator.languages ?? [];
    const mineNow = served.spoken.includes(mine) ? mine : closest(served.spoken, [mine, ...nears]);
    const into = served.into(mineNow);
    const otherNow = into.includes(other) ? other : closest(into, [this.#settings.mine, "en", "zh"]);
    if (mineNow !== this.#settings.mine || otherNow !== this.#settings.other) {
      this.#settings.set({ mine: mineNow, other: otherNow });
    }
  }

  #choose(mine, other) {
    this.#settle(mine, other);
    this.render();
    this.#onChange();
  }
}
