import { Outbox } from "/web/outbox.js";
import { bytes, equal } from "/unit/expect.js";

const seqs = (frames) => frames.map(({ seq }) => seq);

function filled(count, options) {
  const outbox = new Outbox(options);
  for (let at = 0; at < count; at += 1) outbox.put(bytes(at), false, 0);
  return outbox;
}

export function frames_leave_once_and_in_order() {
  const outbox = filled(3);
  equal(seqs(outbox.take(0)), [0, 1, 2]);
  equal(seqs(outbox.take(0)), []);
}

export function what_is_not_acknowledged_is_sent_again_on_a_new_connection() {
  const outbox = filled(4);
  outbox.take(0);
  outbox.acknowledge(1);
  outbox.put(bytes(4), true, 0);
  outbox.rewind();
  equal(seqs(outbox.take(0)), [2, 3, 4]);
}

export function an_acknowledgement_of_everything_leaves_nothing() {
  const outbox = filled(2);
  outbox.take(0);
  outbox.acknowledge(9);
  outbox.rewind();
  equal([outbox.unsent, seqs(outbox.take(0))], [0, []]);
}

export function a_server_that_keeps_nothing_gets_nothing_twice() {
  const outbox = filled(2);
  outbox.take(0);
  outbox.forgetSent();
  outbox.put(bytes(2), false, 0);
  outbox.rewind();
  equal(seqs(outbox.take(0)), [2]);
}

export function a_long_absence_is_caught_up_at_a_pace_the_server_accepts() {
  const outbox = filled(1000);
  equal(outbox.take(0).length, 300);
  equal(outbox.take(0).length, 0);
  equal(outbox.take(1000).length, 80);
}

export function what_had_to_go_to_make_room_is_counted_unless_it_was_sent() {
  const outbox = filled(3, { mostFrames: 3 });
  equal(outbox.put(bytes(3), false, 0), 1);
  outbox.take(0);
  equal(outbox.put(bytes(4), false, 0), 0);
}

export function the_bound_in_bytes_counts_too() {
  const outbox = new Outbox({ mostBytes: 10 });
  equal(outbox.put(new Uint8Array(8), false, 0), 0);
  equal(outbox.put(new Uint8Array(8), false, 0), 1);
  equal(seqs(outbox.take(0)), [1]);
}
