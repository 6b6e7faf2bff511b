import { ReceiptBook, Receipts } from "/web/receipts.js";
import { equal } from "/unit/expect.js";

export function results_are_taken_once_and_counted_without_gaps() {
  const receipts = new Receipts();
  equal([0, 1, 3].map((index) => receipts.take(index, false, 0)), [true, true, true]);
  equal(receipts.take(1, false, 0), false);
  equal(receipts.through(0), 1);
  receipts.take(2, true, 0);
  equal(receipts.through(0), 3);
  equal(receipts.take(3, false, 0), false);
}

export function a_late_result_replaces_the_report_that_it_is_missing_once() {
  const receipts = new Receipts();
  receipts.take(0, true, 0);
  equal(receipts.through(0), 0);
  equal([receipts.take(0, true, 0), receipts.take(0, false, 0), receipts.take(0, false, 0)], [false, true, false]);
}

export function a_gap_counts_as_silence_after_a_while_and_may_still_be_filled() {
  const receipts = new Receipts();
  receipts.take(2, false, 1000);
  equal(receipts.through(20_000), -1);
  equal(receipts.through(41_000), 2);
  equal([receipts.take(1, false, 42_000), receipts.take(1, false, 42_000)], [true, false]);
}

export function the_server_is_told_news_only_and_per_speaker() {
  const book = new ReceiptBook();
  book.of("s-1").take(0, false, 0);
  book.of("s-2").take(0, false, 0);
  book.of("s-2").take(1, false, 0);
  equal(book.untold(0), [["s-1", 0], ["s-2", 1]]);
  equal(book.untold(0), []);
}
