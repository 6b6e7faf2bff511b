/**
 * Which results have arrived: each is taken once, and the server is told up to where there is no gap.
 *
 * An utterance in which nothing was heard ends without a message. A gap below a result therefore counts as
 * such an utterance after a while, when nothing can come late any more.
 */

const GAP_SETTLES_MS = 40_000;

/** The results of one speaker. */
export class Receipts {
  #through = -1;
  #above = new Map(); // index: when it came
  #missing = new Set();

  /** Note a result; false when it was here before. A result may still replace the report that it is missing. */
  take(index, missing, nowMs) {
    if (this.#missing.has(index)) {
      if (missing) return false;
      this.#missing.delete(index);
      return true;
    }
    if (index <= this.#through || this.#above.has(index)) return false;
    if (missing) this.#missing.add(index);
    this.#above.set(index, nowMs);
    return true;
  }

  /** The highest index up to which nothing is awaited any more; -1 when there is none. */
  through(nowMs) {
    for (const index of [...this.#above.keys()].sort((one, other) => one - other)) {
      const settled = nowMs - this.#above.get(index) >= GAP_SETTLES_MS;
      if (index > this.#through + 1 && !settled) break;
      for (let gap = this.#through + 1; gap < index; gap += 1) this.#missing.add(gap);
      this.#through = index;
      this.#above.delete(index);
    }
    return this.#through;
  }
}

/** The results of everybody in one session, and what the server was told of them. */
export class ReceiptBook {
  #receipts = new Map(); // by speaker
  #told = new Map(); // by speaker

  /** The results of one speaker. */
  of(speaker) {
    if (!this.#receipts.has(speaker)) this.#receipts.set(speaker, new Receipts());
    return this.#receipts.get(speaker);
  }

  /** Give what the server has not been told yet, as pairs of speaker and index. */
  untold(nowMs) {
    const found = [];
    for (const [speaker, receipts] of this.#receipts) {
      const through = receipts.through(nowMs);
      if (through <= (this.#told.get(speaker) ?? -1)) continue;
      this.#told.set(speaker, through);
      found.push([speaker, through]);
    }
    return found;
  }

  /** Begin anew, in another session. */
  clear() {
    this.#receipts.clear();
    this.#told.clear();
  }
}
