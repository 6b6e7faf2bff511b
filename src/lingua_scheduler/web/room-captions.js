/** What everybody in a room says, in one person's language, with the words as they were spoken below it. */

import { CaptionList, write } from "./caption-list.js";

const MOST_LINES = 200;
const GHOST_LASTS_MS = 8000; // nothing may have been heard in it
const STEP = 1 / 1024; // between lines of one speaker that came out of order

/** The lines of a room; `say` gives a sentence by its key, `nameOf(id)` a name and `langOf(id)` a language. */
export class RoomCaptions {
  /** The language in which everything is to be read. */
  lang = "";

  #list;
  #of;
  #lines = new Map(); // by speaker and index
  #ghost = null; // what the person itself says and has no number yet
  #ghostTimer = null;
  #speaking = false; // or the id of the person itself
  #last = 0;

  constructor(list, announcer, { say, nameOf, langOf }) {
    this.#list = new CaptionList(list, announcer);
    this.#of = { say, nameOf, langOf };
  }

  /** Give the place of an utterance among all; of one speaker, later ones have higher numbers. */
  order(about) {
    return this.#lines.get(keyOf(about))?.order ?? ++this.#last;
  }

  /** The person itself speaks, or has ended. */
  speaking(speaking, id) {
    this.#speaking = speaking && id;
    clearTimeout(this.#ghostTimer);
    if (speaking) this.#raise();
    if (!this.#ghost) return;
    this.#note(this.#ghost.meant, speaking ? "listening" : "translating");
    if (!speaking) this.#ghostTimer = setTimeout(() => this.#dropGhost(), GHOST_LASTS_MS);
  }

  /** The person's own words are on their way. */
  waiting(about) {
    this.#line(about, true);
    if (this.#speaking) this.#raise();
  }

  /** What was understood so far. */
  partial({ text, ...about }, own) {
    const line = this.#line(about, own);
    const late = own && line.meant.dataset.note === "sent"; // better late than never
    if (!text || (line.settled && !late)) return;
    if (!line.settled) line.item.dataset.state = "live";
    if (own) {
      write(line.meant, text, this.lang);
    } else {
      write(line.said, text, this.#of.langOf(about.speaker));
      this.#note(line.meant, "translating");
    }
    this.#list.follow();
  }

  /** The person's own words have been translated for the others. */
  done(about) {
    const line = this.#lines.get(keyOf(about));
    if (!line || line.settled) return;
    if (line.meant.dataset.note) this.#note(line.meant, "sent", "");
    this.#settle(line, "done");
  }

  /** What an utterance means; the person's own words are shown as they were spoken. */
  result(result, own) {
    this.#settleBefore(result);
    if (!result.said && !result.meant) {
      this.remove(result);
      return;
    }
    const line = this.#line(result, own);
    const text = own ? result.said || result.meant : result.meant || result.said;
    write(line.who, this.#name(result));
    write(line.meant, text, this.lang);
    write(line.said, own || result.said === text ? "" : result.said, this.#of.langOf(result.speaker));
    this.#settle(line, "done");
    if (!own) this.#list.announce(`${line.who.textContent}: ${text}`, this.lang);
    this.#list.follow();
  }

  /** An utterance will not be translated, for this reason in the page's own language. */
  missing(about, sentence, own) {
    this.#settleBefore(about);
    const line = this.#line(about, own);
    write(line.meant, sentence, document.documentElement.lang, "missing");
    this.#settle(line, "missing");
    this.#list.announce(sentence, document.documentElement.lang);
    this.#list.follow();
  }

  /** Nothing was heard in an utterance. */
  remove(about) {
    this.#lines.get(keyOf(about))?.item.remove();
    this.#lines.delete(keyOf(about));
  }

  /** A session of the person itself was lost: what it still owed will not come. */
  lost(speaker, sentence) {
    for (const line of [...this.#lines.values()]) {
      if (!line.settled && line.about.speaker === speaker) this.missing(line.about, sentence, true);
    }
  }

  /** Say in a line of its own, to everybody who looks or listens, what has happened in the room. */
  tell(sentence) {
    const item = document.createElement("li");
    item.className = "event";
    write(item, sentence, document.documentElement.lang);
    this.#list.insert(item, this.#ghost?.item ?? null);
    this.#list.announce(sentence, document.documentElement.lang);
  }

  #line(about, own) {
    let line = this.#lines.get(keyOf(about));
    if (line) return line;
    if (own && this.#ghost) {
      line = this.#ghost;
      this.#ghost = null;
      clearTimeout(this.#ghostTimer);
      this.#note(line.meant, "translating");
      line.about = about;
      line.order = ++this.#last;
    } else {
      line = this.#insert(this.#make(about, this.#place(about), own));
      this.#note(line.meant, "translating");
    }
    this.#lines.set(keyOf(about), line);
    this.#trim();
    return line;
  }

  /** Find the place of a new line: the last, unless a later one of the same speaker is there. */
  #place({ speaker, index }) {
    const later = [...this.#lines.values()].filter(({ about }) => about.speaker === speaker && about.index > index);
    const next = later.sort((one, other) => one.about.index - other.about.index)[0];
    return next ? next.order - STEP * (next.about.index - index) : ++this.#last;
  }

  #make(about, order, own) {
    const item = document.createElement("li");
    const [who, meant, said] = ["who", "cell meant", "cell said"].map((name) => {
      const part = document.createElement("p");
      part.className = name;
      return part;
    });
    item.className = own ? "heard own" : "heard";
    item.dataset.state = "live";
    write(who, this.#name(about));
    item.append(who, meant, said);
    return { item, who, meant, said, order, settled: false, about };
  }

  #insert(line) {
    const after = [...this.#lines.values(), this.#ghost].filter((other) => other && other.order > line.order);
    const next = after.sort((one, other) => one.order - other.order)[0];
    this.#list.insert(line.item, next?.item ?? null);
    return line;
  }

  #name({ speaker, speakerName }) {
    return this.#of.nameOf(speaker, speakerName);
  }

  #note(cell, key, more = " …") {
    write(cell, this.#of.say(key) + more, document.documentElement.lang, key);
  }

  #settle(line, state) {
    line.settled = true;
    line.item.dataset.state = state;
  }

  /** Results of one speaker come in order: what is still open before one has ended without a word. */
  #settleBefore({ speaker, index }) {
    for (const { settled, about } of [...this.#lines.values()]) {
      if (!settled && about.speaker === speaker && about.index < index) this.remove(about);
    }
  }

  #raise() {
    this.#ghost ??= this.#insert(this.#make({ speaker: this.#speaking }, Infinity, true));
    this.#note(this.#ghost.meant, "listening");
  }

  #dropGhost() {
    this.#ghost?.item.remove();
    this.#ghost = null;
  }

  #trim() {
    while (this.#lines.size > MOST_LINES) {
      const [key, line] = this.#lines.entries().next().value;
      line.item.remove();
      this.#lines.delete(key);
    }
  }
}

function keyOf({ speaker, index }) {
  return `${speaker} ${index}`;
}
