/** Is anybody there? Heartbeats of one connection, their round trip, and how long an answer may take. */

const HEARTBEAT_MS = 10_000;
const ANSWER_MS = 10_000; // for a connection, a session_init_ack, or a heartbeat's answer

/** Waits for one answer at a time; times are in milliseconds. */
export class Pulse {
  #sentMs = null;
  #answerByMs = Infinity;
  #beatAtMs = Infinity;

  /** When something is due; Infinity when nothing is. */
  get dueAtMs() {
    return Math.min(this.#answerByMs, this.#beatAtMs);
  }

  /** Whether an answer has taken too long. */
  silent(nowMs) {
    return nowMs >= this.#answerByMs;
  }

  /** Whether it is time for a heartbeat. */
  wantsBeat(nowMs) {
    return nowMs >= this.#beatAtMs;
  }

  /** Wait for an answer of another kind, without heartbeats. */
  expect(nowMs) {
    this.stop();
    this.#answerByMs = nowMs + ANSWER_MS;
  }

  /** A heartbeat is sent. */
  beat(nowMs) {
    this.#sentMs ??= nowMs;
    this.#answerByMs = this.#sentMs + ANSWER_MS;
    this.#beatAtMs = nowMs + HEARTBEAT_MS;
  }

  /** A heartbeat was answered; gives the round trip in a list, which is empty when none was awaited. */
  answered(nowMs) {
    const sentMs = this.#sentMs;
    this.#sentMs = null;
    this.#answerByMs = Infinity;
    return sentMs === null ? [] : [nowMs - sentMs];
  }

  /** Expect nothing any more. */
  stop() {
    this.#sentMs = null;
    this.#answerByMs = this.#beatAtMs = Infinity;
  }
}
