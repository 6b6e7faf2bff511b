/** Bytes and texts of `/ws/session`: framed Opus, binary audio frames, base64. */

const AUDIO = 0x01;
const FINAL = 0x02;
const LENGTH_BYTES = 2;
const LONGEST_PACKET_BYTES = 0xffff;

/** Join Opus packets as the wire wants them: each behind its length. */
export function packPackets(packets) {
  const framed = new Uint8Array(packets.reduce((sum, packet) => sum + LENGTH_BYTES + packet.length, 0));
  let at = 0;
  for (const packet of packets) {
    if (!packet.length || packet.length > LONGEST_PACKET_BYTES) throw new RangeError("not an Opus packet");
    framed[at] = packet.length & 0xff;
    framed[at + 1] = packet.length >> 8;
    framed.set(packet, at + LENGTH_BYTES);
    at += LENGTH_BYTES + packet.length;
  }
  return framed;
}

/** Give the Opus packets of framed bytes; null when the bytes are not framed like that. */
export function unpackPackets(framed) {
  const packets = [];
  for (let at = 0; at < framed.length; ) {
    if (at + LENGTH_BYTES > framed.length) return null;
    const size = framed[at] | (framed[at + 1] << 8);
    at += LENGTH_BYTES;
    if (!size || at + size > framed.length) return null;
    packets.push(framed.subarray(at, at + size));
    at += size;
  }
  return packets;
}

/** Write one frame of audio in the binary form; a final without audio is shorter. */
export function binaryFrame(sessionId, { seq, final, audio, atMs }) {
  const id = new TextEncoder().encode(sessionId);
  const short = final && !audio.length;
  const header = short ? 10 : 12;
  const bytes = new Uint8Array(header + id.length + audio.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, short ? FINAL : AUDIO);
  view.setUint8(1, id.length);
  view.setUint32(2, seq >>> 0, true);
  view.setUint32(6, Math.floor(atMs) % 2 ** 32, true);
  if (!short) view.setUint8(10, final ? 1 : 0);
  bytes.set(id, header);
  bytes.set(audio, header + id.length);
  return bytes.buffer;
}

/** Write one frame of audio as the message `audio_chunk`. */
export function textFrame(sessionId, { seq, final, audio, atMs }) {
  return JSON.stringify({
    type: "audio_chunk",
    session_id: sessionId,
    seq,
    is_final: final,
    payload: toBase64(audio),
    client_timestamp_ms: Math.floor(atMs),
  });
}

/** Write bytes as base64. */
export function toBase64(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; at += 0x8000) {
    parts.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
  }
  return btoa(parts.join(""));
}

/** Read base64; nothing when it is none. */
export function fromBase64(text) {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** Read one message; an empty one when the text is none. */
export function parseMessage(text) {
  try {
    const message = JSON.parse(text);
    return message !== null && typeof message === "object" ? message : {};
  } catch {
    return {};
  }
}
