/** What was said and what it means, side by side, as it becomes known. */

import { CaptionList, write } from "./caption-list.js";

const MOST_LINES = 200;
const GHOST_LASTS_MS = 8000; // nothing may have been heard in it

/** The lines of a talk in two columns, one per language. */
export class Captions {
  #list;
  #say; // gives a sentence of the page's own language by its key
  #columns = { mine: "", other: "" };
  #lines = new Map(); // by session and index
  #sessions = new Map(); // session id: its place among all sessions
  #ghost = null; // what is being said and has no number yet
  #ghostTimer = null;
  #speaking = false;

  constructor(list, announcer, say) {
    this.#list = new CaptionList(list, announcer);
    this.#say = say;
  }

  /** The languages of the two columns, from now on. */
  setLanguages(mine, other) {
    this.#columns = { mine, other };
  }

  /** Give the place of an utterance among all that were shown; later ones have higher numbers. */
  order({ sessionId, index }) {
    if (!this.#sessions.has(sessionId)) this.#sessions.set(sessionId, this.#sessions.size);
    return this.#sessions.get(sessionId) * 1e9 + index;
  }

  /** Somebody speaks now, or has ended. */
  speaking(speaking) {
    this.#speaking = speaking;
    clearTimeout(this.#ghostTimer);
    if (speaking) this.#ghost ??= this.#insert(this.#make(Infinity, "live"));
    if (!this.#ghost) return;
    this.#noteGhost();
    if (!speaking) this.#ghostTimer = setTimeout(() => this.#dropGhost(), GHOST_LASTS_MS);
  }

  /** An utterance is on its way. */
  waiting(about) {
    this.#line(about);
  }

  /** What was understood so far. */
  partial({ text, ...about }) {
    const line = this.#line(about);
    if (line.settled || !text) return;
    write(line.mine, text, this.#columns.mine);
    line.item.dataset.state = "live";
    this.#note(line.other, "translating");
    this.#list.follow();
  }

  /** What an utterance means. */
  result(result) {
    this.#settleBefore(result);
    if (!result.said && !result.meant) {
      this.remove(result);
      return;
    }
    const line = this.#line(result);
    const { mine, other } = this.#columns;
    const reverse = Boolean(result.spokenLang) && primary(result.spokenLang) === primary(other) && mine !== other;
    const [said, meant] = reverse ? [line.other, line.mine] : [line.mine, line.other];
    write(said, result.said, reverse ? other : mine);
    write(meant, result.meant || "–", reverse ? mine : other);
    said.className = "cell said";
    meant.className = "cell meant";
    line.item.classList.toggle("reverse", reverse);
    this.#settle(line, "done");
    this.#list.announce(result.meant || result.said, meant.lang);
    this.#list.follow();
  }

  /** An utterance will not be translated, for this reason in the page's own language. */
  missing(about, sentence) {
    this.#settleBefore(about);
    const line = this.#line(about);
    write(line.other, sentence, document.documentElement.lang, "missing");
    this.#settle(line, "missing");
    this.#list.announce(sentence, document.documentElement.lang);
    this.#list.follow();
  }

  /** Nothing was heard in an utterance. */
  remove(about) {
    const line = this.#lines.get(this.order(about));
    line?.item.remove();
    this.#lines.delete(this.order(about));
  }

  /** A session was lost: what it still owed will not come. */
  lost(sessionId, sentence) {
    for (const [order, line] of this.#lines) {
      if (!line.settled && line.about.sessionId === sessionId) this.missing(this.#lines.get(order).about, sentence);
    }
  }

  /** The page's own language has changed. */
  relabel() {
    if (this.#ghost) this.#noteGhost();
  }

  #line(about) {
    const order = this.order(about);
    let line = this.#lines.get(order);
    if (line) return line;
    if (this.#ghost && !this.#speaking) {
      line = this.#ghost;
      this.#ghost = null;
      clearTimeout(this.#ghostTimer);
      line.order = order;
      line.item.dataset.state = "wait";
    } else {
      line = this.#make(order, "wait");
      this.#note(line.other, "translating");
      this.#insert(line);
    }
    line.about = about;
    this.#lines.set(order, line);
    this.#trim();
    return line;
  }

  #make(order, state) {
    const item = document.createElement("li");
    const [mine, other] = [document.createElement("p"), document.createElement("p")];
    mine.className = "cell said";
    other.className = "cell meant";
    item.className = "line";
    item.dataset.state = state;
    item.append(mine, other);
    return { item, mine, other, order, settled: false, about: null };
  }

  #insert(line) {
    const after = [...this.#lines.values(), this.#ghost].filter((other) => other && other.order > line.order);
    const next = after.sort((one, other) => one.order - other.order)[0];
    this.#list.insert(line.item, next?.item ?? null);
    return line;
  }

  #noteGhost() {
    const { mine, other } = this.#ghost;
    this.#note(mine, this.#speaking ? "listening" : "");
    this.#note(other, this.#speaking ? "" : "translating");
  }

  #note(cell, key) {
    write(cell, key && `${this.#say(key)} …`, document.documentElement.lang, key || "empty");
  }

  #settle(line, state) {
    line.settled = true;
    line.item.dataset.state = state;
  }

  /** Results come in order: what is still open before one has ended without a word. */
  #settleBefore(about) {
    const order = this.order(about);
    for (const [other, line] of this.#lines) {
      if (other < order && !line.settled && line.about.sessionId === about.sessionId) this.remove(line.about);
    }
  }

  #dropGhost() {
    this.#ghost?.item.remove();
    this.#ghost = null;
  }

  #trim() {
    while (this.#lines.size > MOST_LINES) {
      const [order, line] = this.#lines.entries().next().value;
      line.item.remove();
      this.#lines.delete(order);
    }
  }
}

function primary(lang) {
  return lang.toLowerCase().split(/[-_]/)[0];
}
