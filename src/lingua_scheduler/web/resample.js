/** From the sound card's rate to the rate of speech, without aliases: a windowed-sinc filter, phase by phase. */

const HALF_WIDTH = 24; // of the filter, in samples of the lower rate
const PASSED = 0.46; // of the lower rate: 7.4 kHz of 16 kHz

/** Turns one stream of samples into another rate, whatever the blocks it comes in. */
export class Resampler {
  #step; // input samples per output sample, as #step / #phases
  #phases;
  #taps; // one filter per phase
  #width;
  #held; // input that later output still needs
  #at = 0; // position of the next output in #held, in units of 1 / #phases

  constructor(fromRate, toRate) {
    const shared = gcd(fromRate, toRate);
    this.#step = fromRate / shared;
    this.#phases = toRate / shared;
    const lower = Math.min(fromRate, toRate);
    this.#width = 2 * Math.ceil((HALF_WIDTH * fromRate) / lower);
    this.#taps = Array.from({ length: this.#phases }, (_, phase) =>
      filter(this.#width, phase / this.#phases, (PASSED * lower) / fromRate),
    );
    this.#held = new Float32Array(this.#width / 2);
  }

  /** Give the samples that this block completes. */
  push(block) {
    const input = new Float32Array(this.#held.length + block.length);
    input.set(this.#held);
    input.set(block, this.#held.length);
    const out = [];
    let start = Math.floor(this.#at / this.#phases);
    while (start + this.#width <= input.length) {
      out.push(weigh(input, start, this.#taps[this.#at % this.#phases]));
      this.#at += this.#step;
      start = Math.floor(this.#at / this.#phases);
    }
    const used = Math.min(start, input.length);
    this.#held = input.slice(used);
    this.#at -= used * this.#phases;
    return Float32Array.from(out);
  }
}

function weigh(input, start, taps) {
  let sum = 0;
  for (let tap = 0; tap < taps.length; tap += 1) sum += input[start + tap] * taps[tap];
  return sum;
}

function filter(width, fraction, cutoff) {
  const centre = width / 2 - 1 + fraction;
  const taps = Float64Array.from({ length: width }, (_, tap) => {
    const x = tap - centre;
    const window = 0.5 + 0.5 * Math.cos((2 * Math.PI * x) / (width + 1));
    return window * (x === 0 ? 2 * cutoff : Math.sin(2 * Math.PI * cutoff * x) / (Math.PI * x));
  });
  const sum = taps.reduce((total, value) => total + value, 0);
  return taps.map((value) => value / sum);
}

function gcd(one, other) {
  return other ? gcd(other, one % other) : one;
}
