/**
 * What was said and may have to be said again: frames of audio wait here until the server has them.
 *
 * Nothing here knows sockets or clocks; time comes as an argument, in milliseconds.
 */

const MOST_FRAMES = 3000;
const MOST_BYTES = 10 * 2 ** 20;
const BURST_FRAMES = 300; // the server closes connections that send faster than its limits
const FRAMES_PER_S = 80;

/** Frames in the order of their numbers: first those sent and not acknowledged, then those to be sent. */
export class Outbox {
  #frames = [];
  #sent = 0; // how many of them were sent on this connection
  #bytes = 0;
  #nextSeq = 0;
  #credit = BURST_FRAMES;
  #creditAtMs = 0;

  constructor({ mostFrames = MOST_FRAMES, mostBytes = MOST_BYTES } = {}) {
    this.mostFrames = mostFrames;
    this.mostBytes = mostBytes;
  }

  /** How many frames wait to be sent. */
  get unsent() {
    return this.#frames.length - this.#sent;
  }

  /** Keep one more frame; tells how many unsent ones had to go to make room. */
  put(audio, final, atMs) {
    this.#frames.push({ seq: this.#nextSeq++, final, audio, atMs });
    this.#bytes += audio.length;
    let lost = 0;
    while (this.#frames.length > this.mostFrames || this.#bytes > this.mostBytes) {
      if (!this.#sent) lost += 1;
      this.#drop(1);
    }
    return lost;
  }

  /** Give the frames that may be sent now. */
  take(nowMs) {
    const earned = ((nowMs - this.#creditAtMs) / 1000) * FRAMES_PER_S;
    this.#credit = Math.min(BURST_FRAMES, this.#credit + Math.max(0, earned));
    this.#creditAtMs = nowMs;
    const count = Math.min(this.unsent, Math.floor(this.#credit));
    this.#credit -= count;
    this.#sent += count;
    return this.#frames.slice(this.#sent - count, this.#sent);
  }

  /** The server has every frame up to this number. */
  acknowledge(seq) {
    const kept = this.#frames.findIndex((frame) => frame.seq > seq);
    this.#drop(kept < 0 ? this.#frames.length : kept);
  }

  /** A new connection: what is still here has to be sent again. */
  rewind() {
    this.#sent = 0;
    this.#credit = BURST_FRAMES;
  }

  /** The server keeps nothing for a later connection: what was sent is not needed any more. */
  forgetSent() {
    this.#drop(this.#sent);
  }

  #drop(count) {
    for (const frame of this.#frames.splice(0, count)) this.#bytes -= frame.audio.length;
    this.#sent = Math.max(0, this.#sent - count);
  }
}
