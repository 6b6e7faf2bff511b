/** Speech as bytes for the wire, and back: Opus where the browser has an encoder, plain samples otherwise. */

import { oggOpus } from "./ogg.js";
import { packPackets, unpackPackets } from "./wire.js";

const SPEECH_RATE = 16_000;
const FRAME_MS = 100;
const PACKET_US = 20_000;
const CONFIG = {
  codec: "opus",
  sampleRate: SPEECH_RATE,
  numberOfChannels: 1,
  bitrate: 24_000,
  opus: { application: "voip", frameDuration: PACKET_US, format: "opus" },
};
const DECODED_RATE = 48_000;

/** Choose how speech is sent: `opus`, or `pcm16` where the browser cannot encode. */
export async function speechFormat() {
  try {
    return (await AudioEncoder.isConfigSupported(CONFIG)).supported ? "opus" : "pcm16";
  } catch {
    return "pcm16";
  }
}

/** Make the encoder of a format; `onFrame` gets the bytes of every 100 ms. */
export function speechEncoder(format, onFrame) {
  return format === "opus" ? new OpusSpeech(onFrame) : new PcmSpeech(onFrame);
}

/** Gathers pieces into frames of 100 ms. */
class Framing {
  #pieces = [];
  #ms = 0;

  constructor(join, onFrame) {
    this.join = join;
    this.onFrame = onFrame;
  }

  add(piece, ms) {
    this.#pieces.push(piece);
    this.#ms += ms;
    if (this.#ms >= FRAME_MS) this.flush();
  }

  flush() {
    if (!this.#pieces.length) return;
    const frame = this.join(this.#pieces);
    this.#pieces = [];
    this.#ms = 0;
    this.onFrame(frame);
  }
}

class OpusSpeech {
  #framing;
  #encoder = null; // browsers close encoders that were idle for long
  #atUs = 0;

  constructor(onFrame) {
    this.#framing = new Framing(packPackets, onFrame);
  }

  /** Take one block of samples. */
  push(samples) {
    if (this.#encoder?.state !== "configured") this.#start();
    const data = new AudioData({
      format: "f32-planar",
      sampleRate: SPEECH_RATE,
      numberOfFrames: samples.length,
      numberOfChannels: 1,
      timestamp: this.#atUs,
      data: samples,
    });
    this.#atUs += (samples.length * 1e6) / SPEECH_RATE;
    this.#encoder.encode(data);
    data.close();
  }

  /** Give everything that was taken. */
  async flush() {
    if (this.#encoder?.state === "configured") await this.#encoder.flush().catch(() => {});
    this.#framing.flush();
  }

  /** Let the encoder go. */
  close() {
    if (this.#encoder?.state === "configured") this.#encoder.close();
  }

  #start() {
    this.#encoder = new AudioEncoder({
      output: (chunk) => {
        const packet = new Uint8Array(chunk.byteLength);
        chunk.copyTo(packet);
        this.#framing.add(packet, (chunk.duration ?? PACKET_US) / 1000);
      },
      error: () => {},
    });
    this.#encoder.configure(CONFIG);
  }
}

class PcmSpeech {
  #framing;

  constructor(onFrame) {
    this.#framing = new Framing(joinBytes, onFrame);
  }

  push(samples) {
    this.#framing.add(toPcm16(samples), (samples.length * 1000) / SPEECH_RATE);
  }

  async flush() {
    this.#framing.flush();
  }

  close() {}
}

/** Write samples as signed 16-bit little-endian integers. */
export function toPcm16(samples) {
  const bytes = new Uint8Array(samples.length * 2);
  const view = new DataView(bytes.buffer);
  samples.forEach((sample, at) => view.setInt16(at * 2, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true));
  return bytes;
}

/** Read signed 16-bit little-endian integers. */
export function fromPcm16(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float32Array.from({ length: bytes.byteLength >> 1 }, (_, at) => view.getInt16(at * 2, true) / 32768);
}

/** Turn a voice from the wire into samples: `{samples, rate}`; null when this browser cannot. */
export async function decodeVoice(bytes, format) {
  if (format !== "opus") return { samples: fromPcm16(bytes), rate: SPEECH_RATE };
  const packets = unpackPackets(bytes);
  if (!packets?.length) return null;
  try {
    return globalThis.AudioDecoder ? await decodePackets(packets) : await decodeFile(oggOpus(packets));
  } catch {
    return null;
  }
}

async function decodePackets(packets) {
  const pieces = [];
  let rate = DECODED_RATE;
  const decoder = new AudioDecoder({
    output: (data) => {
      const piece = new Float32Array(data.numberOfFrames);
      data.copyTo(piece, { planeIndex: 0, format: "f32-planar" });
      rate = data.sampleRate;
      pieces.push(piece);
      data.close();
    },
    error: () => {},
  });
  decoder.configure({ codec: "opus", sampleRate: DECODED_RATE, numberOfChannels: 1 });
  packets.forEach((data, at) => {
    decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: at * PACKET_US, data }));
  });
  await decoder.flush();
  decoder.close();
  return { samples: join(Float32Array, pieces), rate };
}

async function decodeFile(file) {
  const context = new OfflineAudioContext(1, 1, DECODED_RATE);
  const buffer = await context.decodeAudioData(file.buffer);
  return { samples: buffer.getChannelData(0), rate: buffer.sampleRate };
}

function joinBytes(pieces) {
  return join(Uint8Array, pieces);
}

function join(Type, pieces) {
  const whole = new Type(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
