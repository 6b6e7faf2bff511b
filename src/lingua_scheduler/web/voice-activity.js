/** Does somebody speak? Loudness against the noise of the room, block by block. */

const BLOCK_MS = 20;
const STARTS_AFTER_MS = 60;
const ENDS_AFTER_MS = 400;
const ABOVE_NOISE_DB = 9;
const QUIETEST_DB = -55; // nothing below is ever speech
const FIRST_NOISE_DB = -50;
const NOISE_RISES_DB = 0.06; // per block: 3 dB per second

/** Follows one microphone. */
export class VoiceActivity {
  /** Somebody speaks, or did a moment ago. */
  speaking = false;
  /** Loudness of the last block, from 0 (quiet) to 1 (loud). */
  level = 0;

  #noiseDb = FIRST_NOISE_DB;
  #voicedMs = 0;
  #quietMs = 0;

  /** Follow one block; gives "began", "ended" or null. */
  hear(block) {
    const db = loudness(block);
    this.level = Math.min(1, Math.max(0, (db + 60) / 50));
    const voiced = db > QUIETEST_DB && db > this.#noiseDb + ABOVE_NOISE_DB;
    this.#noiseDb = Math.min(db, this.#noiseDb + NOISE_RISES_DB);
    this.#noiseDb = Math.max(this.#noiseDb, -90);
    this.#voicedMs = voiced ? this.#voicedMs + BLOCK_MS : 0;
    this.#quietMs = voiced ? 0 : this.#quietMs + BLOCK_MS;
    if (!this.speaking && this.#voicedMs >= STARTS_AFTER_MS) return this.#turn(true);
    if (this.speaking && this.#quietMs >= ENDS_AFTER_MS) return this.#turn(false);
    return null;
  }

  /** How long ago the last voice was, in milliseconds. */
  get quietMs() {
    return this.#quietMs;
  }

  #turn(speaking) {
    this.speaking = speaking;
    return speaking ? "began" : "ended";
  }
}

function loudness(block) {
  let sum = 0;
  for (const sample of block) sum += sample * sample;
  return 10 * Math.log10(sum / block.length + 1e-10);
}
