import { binaryFrame, fromBase64, packPackets, parseMessage, textFrame, toBase64, unpackPackets } from "/web/wire.js";
import { bytes, equal, ok } from "/unit/expect.js";

export function packets_are_framed_behind_their_lengths_and_come_back() {
  const long = new Uint8Array(300).fill(7);
  const framed = packPackets([bytes(1, 2, 3), long]);
  equal([...framed.subarray(0, 7)], [3, 0, 1, 2, 3, 44, 1]);
  equal(unpackPackets(framed).map((packet) => packet.length), [3, 300]);
}

export function bytes_that_are_not_framed_are_told_apart() {
  equal(unpackPackets(bytes(5, 0, 1)), null);
  equal(unpackPackets(bytes(0, 0)), null);
  equal(unpackPackets(bytes(1)), null);
}

export function a_binary_frame_has_the_layout_of_the_protocol() {
  const frame = new Uint8Array(binaryFrame("s-1", { seq: 258, final: false, audio: bytes(9, 8), atMs: 2 ** 32 + 5 }));
  equal([...frame], [1, 3, 2, 1, 0, 0, 5, 0, 0, 0, 0, 0, 115, 45, 49, 9, 8]);
}

export function a_final_without_audio_takes_the_short_form() {
  const frame = new Uint8Array(binaryFrame("s-1", { seq: 1, final: true, audio: bytes(), atMs: 0 }));
  equal([...frame], [2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 115, 45, 49]);
}

export function a_text_frame_carries_the_audio_as_base64() {
  const message = JSON.parse(textFrame("s-1", { seq: 3, final: false, audio: bytes(255, 0, 7), atMs: 12.7 }));
  equal(message.payload, "/wAH");
  equal([message.type, message.seq, message.is_final, message.client_timestamp_ms], ["audio_chunk", 3, false, 12]);
}

export function base64_comes_back_whatever_its_size() {
  const large = Uint8Array.from({ length: 100_000 }, (_, at) => at % 251);
  ok(fromBase64(toBase64(large)).every((value, at) => value === at % 251), "differs");
  equal(fromBase64("?!").length, 0);
}

export function what_is_no_message_reads_as_an_empty_one() {
  equal([parseMessage("?"), parseMessage("3"), parseMessage("null")], [{}, {}, {}]);
}
