import { tempoFor } from "/web/audio-out.js";
import { oggOpus, packetSamples } from "/web/ogg.js";
import { decodeVoice, fromPcm16, speechEncoder, speechFormat, toPcm16 } from "/web/opus.js";
import { Resampler } from "/web/resample.js";
import { stretch } from "/web/stretch.js";
import { VoiceActivity } from "/web/voice-activity.js";
import { unpackPackets } from "/web/wire.js";
import { bytes, equal, ok, pitch, rms, tone } from "/unit/expect.js";

function resample(samples, from, to, block = 128) {
  const resampler = new Resampler(from, to);
  const out = [];
  for (let at = 0; at < samples.length; at += block) out.push(...resampler.push(samples.subarray(at, at + block)));
  return Float32Array.from(out);
}

export function resampling_keeps_speech_and_its_length() {
  for (const rate of [8000, 22_050, 44_100, 48_000, 96_000]) {
    const out = resample(tone(1000, 1, rate), rate, 16_000);
    ok(Math.abs(out.length - 16_000) < 60, `${rate}: ${out.length} samples`);
    const middle = out.subarray(1000, 15_000);
    ok(Math.abs(rms(middle) - 0.3535) < 0.005, `${rate}: loudness ${rms(middle)}`);
    ok(Math.abs(pitch(middle, 16_000) - 1000) < 3, `${rate}: pitch ${pitch(middle, 16_000)}`);
  }
}

export function what_cannot_be_heard_at_the_lower_rate_does_not_come_back_as_something_else() {
  for (const hertz of [9000, 12_000, 20_000]) {
    const out = resample(tone(hertz, 0.5, 48_000), 48_000, 16_000).subarray(500, 7000);
    ok(rms(out) < 0.003, `${hertz} Hz: ${rms(out)}`);
  }
}

export function resampling_does_not_depend_on_the_blocks() {
  const sound = tone(440, 0.2, 44_100);
  const [one, other] = [resample(sound, 44_100, 16_000, 128), resample(sound, 44_100, 16_000, 1000)];
  ok(one.every((value, at) => Math.abs(value - other[at]) < 1e-6), "differs");
}

export function faster_speech_is_shorter_and_not_higher() {
  for (const tempo of [1.1, 1.3, 1.5]) {
    const out = stretch(tone(200, 3, 16_000), 16_000, tempo);
    ok(Math.abs(out.length / 16_000 - 3 / tempo) < 0.08, `${tempo}: ${out.length / 16_000} s`);
    ok(Math.abs(pitch(out, 16_000) - 200) < 4, `${tempo}: ${pitch(out, 16_000)} Hz`);
    ok(Math.abs(rms(out) - 0.3535) < 0.02, `${tempo}: loudness ${rms(out)}`);
  }
}

export function speech_at_its_own_tempo_is_left_alone() {
  const sound = tone(200, 1, 16_000);
  ok(stretch(sound, 16_000, 1) === sound, "changed");
}

export function the_tempo_rises_with_what_waits_and_has_a_limit() {
  equal([0, 3, 7.5, 12, 60].map(tempoFor), [1, 1, 1.25, 1.5, 1.5]);
}

export function samples_survive_pcm16() {
  equal([...toPcm16(Float32Array.of(0, 1, -1, 2))], [0, 0, 255, 127, 1, 128, 255, 127]);
  equal([...fromPcm16(bytes(0, 64, 0, 192))], [0.5, -0.5]);
}

async function encoded(format, blocks) {
  const frames = [];
  const encoder = speechEncoder(format, (frame) => frames.push(frame));
  const sound = tone(300, (blocks * 320) / 16_000, 16_000);
  for (let at = 0; at < blocks; at += 1) encoder.push(sound.slice(at * 320, (at + 1) * 320));
  await encoder.flush();
  encoder.close();
  return frames;
}

export async function pcm_leaves_in_frames_of_100_ms_and_the_rest_at_the_end() {
  equal((await encoded("pcm16", 12)).map((frame) => frame.length), [3200, 3200, 1280]);
}

export async function opus_leaves_in_frames_of_five_packets_of_20_ms() {
  equal(await speechFormat(), "opus");
  const frames = await encoded("opus", 12);
  const counts = frames.map((frame) => unpackPackets(frame).length);
  equal(counts.slice(0, 2), [5, 5]);
  ok(counts[2] === 2 || counts[2] === 3, `${counts[2]} packets at the end`); // an encoder may look ahead
  equal(unpackPackets(frames[0]).map(packetSamples), [960, 960, 960, 960, 960]);
}

export async function opus_is_heard_again_by_packets_and_as_a_file() {
  const frames = await encoded("opus", 50);
  const framed = Uint8Array.from(frames.flatMap((frame) => [...frame]));
  const whole = await decodeVoice(framed, "opus");
  const decoder = globalThis.AudioDecoder;
  globalThis.AudioDecoder = undefined;
  const file = await decodeVoice(framed, "opus");
  globalThis.AudioDecoder = decoder;
  for (const { samples, rate } of [whole, file]) {
    ok(Math.abs(samples.length / rate - 1) < 0.05, `${samples.length / rate} s`);
    const middle = samples.subarray(rate / 4, (rate * 3) / 4);
    ok(Math.abs(pitch(middle, rate) - 300) < 6, `${pitch(middle, rate)} Hz`);
    ok(rms(middle) > 0.2, `loudness ${rms(middle)}`);
  }
}

export async function a_voice_that_is_none_is_told() {
  equal(await decodeVoice(bytes(9, 9, 9), "opus"), null);
  equal(await decodeVoice(bytes(), "opus"), null);
}

export function an_ogg_file_of_many_packets_has_several_pages() {
  const packet = bytes(0x48, 1, 2, 3);
  const text = String.fromCharCode(...oggOpus(Array(120).fill(packet)));
  equal(text.split("OggS").length - 1, 5);
}

export function voice_is_told_from_the_noise_of_the_room() {
  const activity = new VoiceActivity();
  const noise = (loudness) => Float32Array.from({ length: 320 }, (_, at) => loudness * Math.sin(at * at));
  const turns = [];
  const hear = (loudness, blocks) => {
    for (let at = 0; at < blocks; at += 1) turns.push(activity.hear(noise(loudness)));
  };
  hear(0.004, 100);
  equal(turns.filter(Boolean), []);
  hear(0.1, 1); // a click
  hear(0.004, 50);
  equal(turns.filter(Boolean), []);
  hear(0.1, 25);
  equal(turns.filter(Boolean), ["began"]);
  hear(0.004, 50);
  equal(turns.filter(Boolean), ["began", "ended"]);
  ok(activity.quietMs === 1000, `${activity.quietMs} ms`);
}
