/** Numbers, times and names as people read them, in the language of the page. */

import { languageName } from "./languages.js";

const NOTHING = "–";
const UNITS = ["B", "KB", "MB", "GB", "TB"];
const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86_400;

/** Writes values for one language of the page. */
export class Format {
  constructor(words) {
    this.words = words;
    this.tag = words.tag;
    this.numbers = new Intl.NumberFormat(this.tag, { maximumFractionDigits: 1 });
    this.times = new Intl.DateTimeFormat(this.tag, { timeStyle: "medium" });
    this.moments = new Intl.DateTimeFormat(this.tag, { dateStyle: "medium", timeStyle: "medium" });
  }

  /** A number; a dash for none. */
  number(value) {
    return Number.isFinite(value) ? this.numbers.format(value) : NOTHING;
  }

  /** A share in percent. */
  percent(value) {
    return Number.isFinite(value) ? `${this.numbers.format(value)} %` : NOTHING;
  }

  /** Milliseconds, or seconds when they are many. */
  ms(value) {
    if (!Number.isFinite(value)) return NOTHING;
    if (value < 1000) return this.words.say("ms", { value: this.numbers.format(value < 10 ? value : Math.round(value)) });
    return this.words.say("seconds", { value: this.numbers.format(value / 1000) });
  }

  /** A size. */
  bytes(value) {
    if (!Number.isFinite(value) || value < 0) return NOTHING;
    const step = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log(value || 1) / Math.log(1000))));
    return `${this.numbers.format(value / 1000 ** step)} ${UNITS[step]}`;
  }

  /** A length of time, roughly. */
  duration(seconds) {
    if (!Number.isFinite(seconds)) return NOTHING;
    const whole = Math.max(0, Math.round(seconds));
    if (whole < MINUTE_S) return this.words.say("seconds", { value: whole });
    if (whole < HOUR_S) return this.words.say("minutes", { value: Math.floor(whole / MINUTE_S) });
    if (whole < DAY_S) {
      return this.words.say("hours", { value: Math.floor(whole / HOUR_S), rest: Math.floor((whole % HOUR_S) / MINUTE_S) });
    }
    return this.words.say("days", { value: Math.floor(whole / DAY_S), rest: Math.floor((whole % DAY_S) / HOUR_S) });
  }

  /** How long ago something was, by the server's clock; nothing when it never was. */
  ago(atMs, serverMs) {
    if (!atMs) return this.words.say("never");
    return this.words.say("ago", { time: this.duration((serverMs - atMs) / 1000) });
  }

  /** A time of today. */
  time(atMs) {
    return this.times.format(atMs);
  }

  /** A moment of any day. */
  moment(atMs) {
    return atMs ? this.moments.format(atMs) : NOTHING;
  }

  /** A language by its names, with its tag. */
  language(tag) {
    const name = languageName(tag, this.tag);
    return name === tag ? tag : `${name} (${tag})`;
  }

  /** A pair, or several of them. */
  pair(label) {
    return label.split("+").map((pair) => pair.replace(":", " → ")).join(", ");
  }
}
