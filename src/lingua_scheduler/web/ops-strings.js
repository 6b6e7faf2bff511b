/** Every sentence of the pages for operators, in English and in Chinese. */

import { EN } from "./ops-strings-en.js";
import { ZH } from "./ops-strings-zh.js";
import { TROUBLES_EN, TROUBLES_ZH } from "./ops-trouble-strings.js";

const STRINGS = { en: { ...EN, ...TROUBLES_EN }, zh: { ...ZH, ...TROUBLES_ZH } };
const TAGS = { en: "en", zh: "zh-Hans" };

/** The sentences of one language. */
export class Words {
  constructor(ui) {
    this.ui = ui;
    this.tag = TAGS[ui];
  }

  /** Give a sentence by its key, with values filled in; the key itself when there is none. */
  say(key, values = {}) {
    const text = STRINGS[this.ui][key] ?? key;
    return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  }

  /** Give the sentence for a word that came from elsewhere; the word itself when there is none. */
  known(prefix, word) {
    const key = `${prefix}_${word}`;
    return Object.hasOwn(STRINGS[this.ui], key) ? this.say(key) : word;
  }

  /** What levels are called. */
  get levels() {
    return { warn: this.say("warn"), bad: this.say("bad") };
  }
}

/** Choose the language of the page: what was chosen before, else what the browser prefers. */
export function chosenUi(before, languages) {
  if (before in STRINGS) return before;
  return languages.map((lang) => lang.toLowerCase().split("-")[0]).find((lang) => lang in STRINGS) ?? "en";
}

/** The keys of each language, to compare them. */
export function keysOf(ui) {
  return Object.keys(STRINGS[ui]);
}
