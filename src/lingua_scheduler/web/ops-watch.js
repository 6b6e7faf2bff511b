/** Looks again and again while somebody looks at the page; patient when the server is gone. */

import { Refused } from "./ops-ask.js";
import { Retry } from "./retry.js";

const EVERY_MS = 3000;
const SPREAD_MS = 500; // so that many pages do not ask at the same moment

/** Asks for what `addresses` names now; calls `onAnswer` with every answer and `onFailure` with every failure. */
export class Watch {
  #asker;
  #addresses;
  #onAnswer;
  #onFailure;
  #retry = new Retry(Math.random);
  #timer = null;
  #look = 0;
  #answering = false;

  constructor(asker, { addresses, onAnswer, onFailure }) {
    this.#asker = asker;
    this.#addresses = addresses;
    this.#onAnswer = onAnswer;
    this.#onFailure = onFailure;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#pause() : this.look()));
    addEventListener("online", () => this.look());
    addEventListener("pageshow", (event) => event.persisted && this.look());
  }

  /** Look now, and from now on; what an earlier look finds later is not taken. */
  async look() {
    this.#pause();
    const look = ++this.#look;
    let pauseMs;
    try {
      const answer = await this.#asker.ask(this.#addresses());
      if (look !== this.#look) return;
      pauseMs = this.#answered();
      this.#onAnswer(answer);
    } catch (error) {
      if (look !== this.#look) return;
      if (error instanceof Refused && error.status < 500) pauseMs = EVERY_MS;
      else pauseMs = this.#failed();
      this.#onFailure(error);
    }
    if (!document.hidden && look === this.#look) this.#timer = setTimeout(() => this.look(), pauseMs);
  }

  /** Look no more until somebody asks for it. */
  rest() {
    this.#pause();
    this.#look += 1;
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  #answered() {
    if (!this.#answering) this.#retry.opened(performance.now());
    this.#answering = true;
    return EVERY_MS + Math.random() * SPREAD_MS;
  }

  #failed() {
    this.#answering = false;
    return this.#retry.failed(performance.now());
  }
}
