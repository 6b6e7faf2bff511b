/** Whether and when to connect again. */

const FIRST_MS = 400;
const LONGEST_MS = 15_000;
const PROVEN_MS = 5000; // a connection that lasted so long was a good one
const LOST_FOR_GOOD = [1002, 1003, 1007, 1008, 1009];
const GIVE_UP_FROM = 4500;

/** Whether a client may connect again after a connection closed with this code. */
export function reconnects(code) {
  return code < GIVE_UP_FROM && !LOST_FOR_GOOD.includes(code);
}

/** Pauses that grow with each failure, up to a limit, and differ between clients. */
export class Retry {
  /** How many tries have failed in a row. */
  failures = 0;

  #random;
  #openedMs = Infinity;
  #interruption = "";
  #attempt = 0;

  constructor(random) {
    this.#random = random;
  }

  /** A try has worked, for now. */
  opened(nowMs) {
    this.#openedMs = nowMs;
  }

  /** Give the pause before the next try. */
  failed(nowMs) {
    if (nowMs - this.#openedMs >= PROVEN_MS) this.failures = 0;
    if (this.#openedMs < Infinity) this.#interrupted();
    this.#openedMs = Infinity;
    const longestMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.failures);
    this.failures += 1;
    return longestMs * (0.5 + this.#random() / 2);
  }

  /** Name the interruption and the next attempt, so that a resume token whose answer was lost works once more. */
  attempt() {
    this.#attempt += 1;
    return { resume_try: this.#interruption, resume_attempt: this.#attempt };
  }

  #interrupted() {
    this.#interruption = `try-${[1, 2].map(() => this.#random().toString(36).slice(2)).join("")}`;
    this.#attempt = 0;
  }
}
