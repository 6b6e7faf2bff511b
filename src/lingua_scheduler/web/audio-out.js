/** Translated voices, heard one after the other in the order of what was said, faster when they fall behind. */

import { decodeVoice } from "./opus.js";
import { stretch } from "./stretch.js";

const CALM_S = 3; // up to so much may wait without any hurry
const HURRIED_S = 12; // from here on as fast as it gets
const FASTEST = 1.5;

/** Choose the tempo for so many seconds of voice that wait. */
export function tempoFor(backlogS) {
  const hurry = (backlogS - CALM_S) / (HURRIED_S - CALM_S);
  return 1 + (FASTEST - 1) * Math.min(1, Math.max(0, hurry));
}

/**
 * A queue of voices.
 *
 * `onAudible(result, audible)` tells when sound begins and when it stops; `onQueue(waiting, result)` how many
 * voices wait and which one is heard, or null; `onUnplayable(result)` that a voice could not be decoded.
 */
export class VoiceQueue {
  #context = null;
  #waiting = []; // {result, order, sound: {samples, rate, atS}}
  #current = null; // the one being heard, or held in the middle
  #held = false;
  #audible = null; // the result that was last reported
  #on;

  constructor({ onAudible, onQueue, onUnplayable }) {
    this.#on = { onAudible, onQueue, onUnplayable };
  }

  /** Make sound possible; to be called while a person presses something. */
  async unlock() {
    this.#context ??= new AudioContext();
    await this.#context.resume();
  }

  /** Seconds of voice that are still to be heard. */
  get backlogS() {
    const entries = this.#current ? [this.#current, ...this.#waiting] : this.#waiting;
    return entries.reduce((sum, { sound }) => sum + (sound ? sound.samples.length / sound.rate - sound.atS : 0), 0);
  }

  /** Add the voice of a result. Its place follows from `order`, however long decoding takes. */
  async add(result, order) {
    const entry = { result, order, sound: null };
    const before = this.#waiting.findIndex((other) => other.order > order);
    this.#waiting.splice(before < 0 ? this.#waiting.length : before, 0, entry);
    const decoded = await decodeVoice(result.voice, result.voiceFormat);
    if (decoded) entry.sound = { ...decoded, atS: 0 };
    else this.#forget(entry);
    this.#next();
  }

  /** Be quiet for a while, such as while a person speaks; the voice goes on where it was. */
  hold(held) {
    if (this.#held === held) return;
    this.#held = held;
    if (held) this.#pause();
    this.#next();
  }

  /** Leave out the rest of the voice that is heard, or the next one when none is. */
  skip() {
    if (this.#current) this.#stop();
    else this.#waiting.shift();
    this.#next();
  }

  /** Forget all voices. */
  clear() {
    this.#waiting = [];
    if (this.#current) this.#stop();
    this.#next();
  }

  #forget(entry) {
    this.#waiting = this.#waiting.filter((other) => other !== entry);
    this.#on.onUnplayable(entry.result);
  }

  #next() {
    if (!this.#held && this.#context) {
      if (!this.#current && this.#waiting[0]?.sound) {
        const backlogS = this.backlogS;
        this.#current = this.#waiting.shift();
        this.#hurry(tempoFor(backlogS));
      }
      if (this.#current && !this.#current.source) this.#play();
    }
    this.#report();
  }

  #hurry(tempo) {
    const { sound } = this.#current;
    sound.samples = stretch(sound.samples, sound.rate, tempo);
  }

  #play() {
    const entry = this.#current;
    const { samples, rate, atS } = entry.sound;
    const buffer = this.#context.createBuffer(1, Math.max(1, samples.length), rate);
    buffer.copyToChannel(samples, 0);
    entry.source = new AudioBufferSourceNode(this.#context, { buffer });
    entry.source.connect(this.#context.destination);
    entry.source.onended = () => {
      this.#current = null;
      this.#next();
    };
    entry.startedS = this.#context.currentTime - atS;
    entry.source.start(0, atS);
  }

  #pause() {
    const entry = this.#current;
    if (!entry?.source) return;
    entry.sound.atS = this.#context.currentTime - entry.startedS;
    this.#silence(entry);
  }

  #stop() {
    if (this.#current.source) this.#silence(this.#current);
    this.#current = null;
  }

  #silence(entry) {
    entry.source.onended = null;
    entry.source.stop();
    entry.source = null;
  }

  #report() {
    const heard = this.#current?.source ? this.#current.result : null;
    if (heard && !this.#audible) this.#on.onAudible(heard, true);
    else if (!heard && this.#audible) this.#on.onAudible(this.#audible, false);
    this.#audible = heard;
    this.#on.onQueue(this.#waiting.length, heard);
  }
}
