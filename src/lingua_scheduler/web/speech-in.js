/**
 * What of the microphone is speech: from press to release, or, hands-free, whenever somebody speaks.
 *
 * A little from before the press or the first sound goes along, so that no syllable is lost.
 */

import { VoiceActivity } from "./voice-activity.js";

const BLOCK_MS = 20;
const LEAD_BLOCKS = 300 / BLOCK_MS;
const TAIL_BLOCKS = 160 / BLOCK_MS; // people let go a little early
const QUIET_ENDS_MS = 1200; // hands-free; the server's own pause after clear speech is shorter

/**
 * Sorts the blocks of one microphone.
 *
 * `encoder` takes the blocks of speech; `onFinish` is called behind the last of an utterance, `onSpeaking(bool,
 * quietMs)` when somebody begins to speak and when that has ended, `onLevel(0 to 1)` for every block.
 */
export class SpeechInput {
  /** "press" or "free". */
  mode = "press";

  #encoder;
  #on;
  #activity = new VoiceActivity();
  #lead = [];
  #open = false;
  #tail = 0; // blocks to take after the release
  #muted = false;
  #speaking = false;

  constructor(encoder, { onFinish, onSpeaking, onLevel }) {
    this.#encoder = encoder;
    this.#on = { onFinish, onSpeaking, onLevel };
  }

  /** Somebody presses the button. */
  press() {
    this.#tail = 0;
    this.#begin();
    this.#speak(true);
  }

  /** The button is let go. */
  release() {
    if (!this.#open || this.mode !== "press") return;
    this.#tail = TAIL_BLOCKS;
    this.#speak(false, 0);
  }

  /** Do not listen hands-free for a while, because a voice is being played or the person wants a break. */
  mute(muted) {
    if (this.#muted === muted) return;
    this.#muted = muted;
    this.#lead = []; // what was heard meanwhile may be that voice
    this.#activity = new VoiceActivity();
    if (muted && this.mode === "free") this.stop();
  }

  /** End what is being said; resolves when all of it has left. */
  async stop() {
    this.#speak(false, this.#activity.quietMs);
    if (this.#open) await this.#finish();
  }

  /** Take one block of the microphone. */
  take(block) {
    const turn = this.#activity.hear(block);
    if (this.mode === "free" && !this.#muted) this.#follow(turn);
    if (this.#open) this.#encoder.push(block);
    else this.#remember(block);
    if (this.#tail && --this.#tail === 0) this.#finish();
    this.#on.onLevel(this.#open ? this.#activity.level : 0);
  }

  #follow(turn) {
    const quietMs = this.#activity.quietMs;
    if (turn === "began") {
      this.#begin();
      this.#speak(true);
    } else if (turn === "ended") {
      this.#speak(false, quietMs);
    }
    if (this.#open && !this.#activity.speaking && quietMs >= QUIET_ENDS_MS) this.#finish();
  }

  #begin() {
    if (this.#open) return;
    this.#open = true;
    for (const block of this.#lead.splice(0)) this.#encoder.push(block);
  }

  async #finish() {
    this.#open = false;
    this.#tail = 0;
    await this.#encoder.flush();
    this.#on.onFinish();
  }

  #remember(block) {
    this.#lead.push(block);
    if (this.#lead.length > LEAD_BLOCKS) this.#lead.shift();
  }

  #speak(speaking, quietMs = 0) {
    if (this.#speaking === speaking) return;
    this.#speaking = speaking;
    this.#on.onSpeaking(speaking, quietMs);
  }
}
