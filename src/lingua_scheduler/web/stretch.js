/** Speech faster without a higher voice: pieces of it overlap where they look alike (WSOLA). */

const PIECE_MS = 30;
const SEARCH_MS = 10;
const LOOK_RATE = 8000; // so many samples per second are enough to see a likeness

/** Shorten samples by a tempo above 1; at 1 they come back as they are. */
export function stretch(samples, rate, tempo) {
  const piece = 2 * Math.round((PIECE_MS * rate) / 2000);
  if (tempo <= 1 || samples.length < 3 * piece) return samples;
  const hop = piece / 2;
  const search = Math.round((SEARCH_MS * rate) / 1000);
  const reach = { search, length: hop, stride: Math.max(1, Math.round(rate / LOOK_RATE)) };
  const fade = Float32Array.from({ length: hop }, (_, at) => 0.5 - 0.5 * Math.cos((Math.PI * (at + 0.5)) / hop));
  const out = new Float32Array(samples.length + piece);
  out.set(samples.subarray(0, hop));
  let written = hop; // the first half of every piece; its second half is faded into the next one
  let last = 0; // where the last piece was taken
  for (let wanted = hop * tempo; wanted + piece + search < samples.length; wanted += hop * tempo) {
    const next = likest(samples, last + hop, Math.round(wanted), reach);
    for (let at = 0; at < hop; at += 1) {
      out[written + at] = samples[last + hop + at] * (1 - fade[at]) + samples[next + at] * fade[at];
    }
    written += hop;
    last = next;
  }
  const rest = samples.subarray(last + hop);
  out.set(rest, written);
  return out.subarray(0, written + rest.length);
}

/** Find the place near `wanted` that goes on most like what follows at `after`. */
function likest(samples, after, wanted, { search, length, stride }) {
  let best = wanted;
  let most = -Infinity;
  for (let at = Math.max(0, wanted - search); at <= wanted + search; at += stride) {
    let product = 0;
    let energy = 1e-9;
    for (let step = 0; step < length; step += stride) {
      product += samples[after + step] * samples[at + step];
      energy += samples[at + step] * samples[at + step];
    }
    const likeness = product / Math.sqrt(energy);
    if (likeness > most) [most, best] = [likeness, at];
  }
  return best;
}
