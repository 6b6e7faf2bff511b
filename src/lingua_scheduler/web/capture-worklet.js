/** Runs beside the sound card: microphone in, blocks of 20 ms at 16 kHz out. */

import { Resampler } from "./resample.js";

const SPEECH_RATE = 16_000;
const BLOCK_SAMPLES = 320;

class Capture extends AudioWorkletProcessor {
  #resampler = new Resampler(sampleRate, SPEECH_RATE);
  #block = new Float32Array(BLOCK_SAMPLES);
  #filled = 0;

  process([channels]) {
    if (!channels.length) return true;
    for (const sample of this.#resampler.push(mono(channels))) {
      this.#block[this.#filled++] = sample;
      if (this.#filled < BLOCK_SAMPLES) continue;
      this.port.postMessage(this.#block, [this.#block.buffer]);
      this.#block = new Float32Array(BLOCK_SAMPLES);
      this.#filled = 0;
    }
    return true;
  }
}

function mono(channels) {
  if (channels.length === 1) return channels[0];
  return channels[0].map((_, at) => channels.reduce((sum, channel) => sum + channel[at], 0) / channels.length);
}

registerProcessor("capture", Capture);
