/** Which languages can be translated now, and how people call them. */

const ADDRESS = "/api/v1/languages";
const LOOK_AGAIN_MS = 30_000;
const LOOK_SOON_MS = 3000;

/** Ask the scheduler; an empty list when no node is ready, null when it cannot be reached. */
export async function servedLanguages() {
  try {
    const answer = await fetch(ADDRESS, { cache: "no-store" });
    if (!answer.ok) return null;
    return new Served((await answer.json()).languages ?? []);
  } catch {
    return null;
  }
}

/** The directed pairs that some node serves. */
export class Served {
  #into = new Map();

  constructor(languages) {
    for (const { lang, into, voiced } of languages) this.#into.set(lang, { into, voiced });
  }

  /** Every language that is understood. */
  get spoken() {
    return [...this.#into.keys()];
  }

  /** The languages that this one is translated into. */
  into(lang) {
    return this.#into.get(lang)?.into ?? [];
  }

  /** Whether this pair is served. */
  has(lang, other) {
    return this.into(lang).includes(other);
  }

  /** Whether the translation of this pair is spoken, too. */
  voiced(lang, other) {
    return this.#into.get(lang)?.voiced.includes(other) ?? false;
  }
}

/** Knows what is served: looks now and from time to time, and calls `onServed` after every look. */
export class ServedWatch {
  /** What the server said last: null when it could not be reached. */
  served = null;

  #onServed;
  #timer = null;

  constructor(onServed) {
    this.#onServed = onServed;
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
  }

  /** Whether anything is served. */
  get ready() {
    return Boolean(this.served?.spoken.length);
  }

  /** Ask the server. */
  async look() {
    clearTimeout(this.#timer);
    this.served = await servedLanguages();
    this.#onServed(this.served);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.look(), this.ready ? LOOK_AGAIN_MS : LOOK_SOON_MS);
  }
}

/** Show languages in a box by their names; the box stays as it is when nothing is new. */
export function offer(select, langs, chosen, uiLang) {
  const wanted = langs.map((lang) => ({ lang, name: languageName(lang, uiLang) }));
  wanted.sort((one, another) => one.name.localeCompare(another.name, uiLang));
  const shown = [...select.options].map((option) => option.value + option.text).join();
  if (shown !== wanted.map(({ lang, name }) => lang + name).join()) {
    select.replaceChildren(...wanted.map(({ lang, name }) => new Option(name, lang)));
  }
  select.value = chosen;
}

/** Name a language in itself and, if that differs, in the language of the page. */
export function languageName(lang, uiLang) {
  const own = nameIn(lang, lang);
  const known = nameIn(lang, uiLang);
  return own.toLowerCase() === known.toLowerCase() ? own : `${own} · ${known}`;
}

/** Name a language in another one. */
export function nameIn(lang, inLang) {
  try {
    const name = new Intl.DisplayNames([inLang], { type: "language" }).of(lang);
    return name[0].toLocaleUpperCase(inLang) + name.slice(1);
  } catch {
    return lang;
  }
}

/** Choose from a list what fits the wishes best, in their order; the first of the list when none does. */
export function closest(list, wishes) {
  for (const wish of wishes) {
    const lower = wish.toLowerCase();
    const found = list.find((lang) => lang === lower) ?? list.find((lang) => lang === lower.split("-")[0]);
    if (found) return found;
  }
  return list[0] ?? "";
}
