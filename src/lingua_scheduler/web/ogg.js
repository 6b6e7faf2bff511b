/** Opus packets as an Ogg file (RFC 7845), for browsers that decode files and not packets. */

const RATE = 48_000;
const PACKETS_PER_PAGE = 50;
const FIRST = 2;
const LAST = 4;
const SERIAL = 0x4c696e67;

/** Write packets of mono speech as one file. */
export function oggOpus(packets) {
  const pages = [page([head()], 0, 0, FIRST), page([tags()], 0, 1, 0)];
  let played = 0;
  for (let at = 0; at < packets.length; at += PACKETS_PER_PAGE) {
    const some = packets.slice(at, at + PACKETS_PER_PAGE);
    played += some.reduce((sum, packet) => sum + packetSamples(packet), 0);
    pages.push(page(some, played, pages.length, at + PACKETS_PER_PAGE >= packets.length ? LAST : 0));
  }
  const file = new Uint8Array(pages.reduce((sum, bytes) => sum + bytes.length, 0));
  pages.reduce((at, bytes) => (file.set(bytes, at), at + bytes.length), 0);
  return file;
}

/** Tell how many samples at 48 kHz an Opus packet plays (RFC 6716, section 3.1). */
export function packetSamples(packet) {
  const mode = packet[0] >> 3;
  const frameMs = mode < 12 ? [10, 20, 40, 60][mode & 3] : mode < 16 ? [10, 20][mode & 1] : [2.5, 5, 10, 20][mode & 3];
  const frames = [1, 2, 2, packet[1] & 0x3f][packet[0] & 3];
  return (frameMs * frames * RATE) / 1000;
}

function head() {
  const bytes = new Uint8Array(19);
  bytes.set(letters("OpusHead"));
  bytes.set([1, 1], 8); // version, channels
  new DataView(bytes.buffer).setUint32(12, RATE, true);
  return bytes;
}

function tags() {
  const vendor = letters("lingua");
  const bytes = new Uint8Array(16 + vendor.length);
  bytes.set(letters("OpusTags"));
  new DataView(bytes.buffer).setUint32(8, vendor.length, true);
  bytes.set(vendor, 12);
  return bytes;
}

function page(packets, played, number, flags) {
  const lacing = packets.flatMap(({ length }) => [...Array(Math.floor(length / 255)).fill(255), length % 255]);
  const bytes = new Uint8Array(27 + lacing.length + packets.reduce((sum, packet) => sum + packet.length, 0));
  const view = new DataView(bytes.buffer);
  bytes.set(letters("OggS"));
  view.setUint8(5, flags);
  view.setBigUint64(6, BigInt(played), true);
  view.setUint32(14, SERIAL, true);
  view.setUint32(18, number, true);
  view.setUint8(26, lacing.length);
  bytes.set(lacing, 27);
  packets.reduce((at, packet) => (bytes.set(packet, at), at + packet.length), 27 + lacing.length);
  view.setUint32(22, checksum(bytes), true);
  return bytes;
}

function checksum(bytes) {
  let sum = 0;
  for (const byte of bytes) {
    sum ^= byte << 24;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 0x80000000 ? (sum << 1) ^ 0x04c11db7 : sum << 1;
  }
  return sum >>> 0;
}

function letters(text) {
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}
