/** The few words that unit tests need. */

export function equal(got, wanted, what = "") {
  const [one, other] = [got, wanted].map((value) => JSON.stringify(value));
  if (one !== other) throw new Error(`${what} got ${one}, wanted ${other}`);
}

export function ok(fact, what) {
  if (!fact) throw new Error(what);
}

export function bytes(...values) {
  return Uint8Array.from(values);
}

export function tone(hertz, seconds, rate, loudness = 0.5) {
  return Float32Array.from(
    { length: Math.round(seconds * rate) },
    (_, at) => loudness * Math.sin((2 * Math.PI * hertz * at) / rate),
  );
}

export function rms(samples) {
  return Math.sqrt(samples.reduce((sum, value) => sum + value * value, 0) / samples.length);
}

/** Count how often a wave goes up through zero each second. */
export function pitch(samples, rate) {
  let count = 0;
  for (let at = 1; at < samples.length; at += 1) count += samples[at - 1] < 0 && samples[at] >= 0;
  return (count * rate) / samples.length;
}
