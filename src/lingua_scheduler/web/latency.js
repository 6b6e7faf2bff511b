/** How long people wait: from the end of speech to the result of each utterance. */

const MOST = 100;

/** Remembers when the speech of each utterance ended. Times are in milliseconds. */
export class SpeechEnds {
  #fellSilentMs = null; // null while somebody speaks
  #ends = new Map(); // by index

  /** Somebody speaks. */
  began() {
    this.#fellSilentMs = null;
  }

  /** Nobody speaks any more. */
  ended(nowMs) {
    this.#fellSilentMs = nowMs;
  }

  /** Follow a `ui_event`. What is dispatched ended when the person fell silent, or else when it was cut. */
  follow({ event, utterance_index: index, elapsed_ms: elapsedMs }, nowMs) {
    if (event !== "DISPATCHED" || this.#ends.has(index)) return;
    const cutMs = nowMs - (elapsedMs ?? 0);
    this.#ends.set(index, Math.min(cutMs, this.#fellSilentMs ?? cutMs));
    if (this.#ends.size > MOST) this.#ends.delete(this.#ends.keys().next().value);
  }

  /** Give the time since the end of an utterance; undefined when it is not known. */
  since(index, nowMs) {
    return this.#ends.has(index) ? nowMs - this.#ends.get(index) : undefined;
  }

  /** Forget every utterance. */
  clear() {
    this.#ends.clear();
  }
}
