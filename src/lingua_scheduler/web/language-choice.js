/** The two language boxes: what can be chosen follows what can be served now. */

import { closest, languageName, servedLanguages } from "./languages.js";

const LOOK_AGAIN_MS = 30_000;
const LOOK_SOON_MS = 3000;

/** Fills the boxes, keeps them fresh, and tells what was chosen. */
export class LanguageChoice {
  #mine;
  #other;
  #swap;
  #settings;
  #on;
  #served = null;
  #timer = null;
  #uiLang = "en";

  /** `onChange()` is called when another pair is chosen, `onServed(served)` after every look at the server. */
  constructor({ mine, other, swap }, settings, { onChange, onServed }) {
    [this.#mine, this.#other, this.#swap] = [mine, other, swap];
    this.#settings = settings;
    this.#on = { onChange, onServed };
    mine.addEventListener("change", () => this.#choose(mine.value, other.value));
    other.addEventListener("change", () => this.#choose(mine.value, other.value));
    swap.addEventListener("click", () => this.#choose(other.value, mine.value));
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
  }

  /** What the server said last: null when it could not be reached. */
  get served() {
    return this.#served;
  }

  /** Whether the chosen pair is served in both directions. */
  get twoWay() {
    const { mine, other } = this.#settings;
    return Boolean(this.#served?.has(mine, other) && this.#served.has(other, mine));
  }

  /** Ask the server, now and from time to time. */
  async look() {
    clearTimeout(this.#timer);
    this.#served = await servedLanguages();
    if (this.#served?.spoken.length) this.#settle(this.#settings.mine, this.#settings.other);
    this.render();
    this.#on.onServed(this.#served);
    clearTimeout(this.#timer);
    const soon = !this.#served?.spoken.length;
    this.#timer = setTimeout(() => this.look(), soon ? LOOK_SOON_MS : LOOK_AGAIN_MS);
  }

  /** Show the names in the language of the page. */
  relabel(uiLang) {
    this.#uiLang = uiLang;
    this.render();
  }

  /** Show what can be chosen, and what is. */
  render() {
    const served = this.#served;
    const { mine, other } = this.#settings;
    const ready = Boolean(served?.spoken.length);
    this.#mine.disabled = this.#other.disabled = !ready;
    if (ready) {
      this.#offer(this.#mine, served.spoken, mine);
      this.#offer(this.#other, served.into(mine), other);
    }
    this.#swap.disabled = !served?.has(other, mine);
  }

  #offer(select, langs, chosen) {
    const wanted = langs.map((lang) => ({ lang, name: languageName(lang, this.#uiLang) }));
    wanted.sort((one, another) => one.name.localeCompare(another.name, this.#uiLang));
    const shown = [...select.options].map((option) => option.value + option.text).join();
    if (shown !== wanted.map(({ lang, name }) => lang + name).join()) {
      select.replaceChildren(...wanted.map(({ lang, name }) => new Option(name, lang)));
    }
    select.value = chosen;
  }

  /** Make of wishes a pair that is served. */
  #settle(mine, other) {
    const served = this.#served;
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
    this.#on.onChange();
  }
}

