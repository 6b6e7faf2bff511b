import { Format } from "/web/ops-format.js";
import { h, levelOf } from "/web/ops-dom.js";
import { Pager } from "/web/ops-parts.js";
import { Course } from "/web/ops-chart.js";
import { chosenUi, keysOf, Words } from "/web/ops-strings.js";
import { Table } from "/web/ops-table.js";
import { AdminToken } from "/web/ops-token.js";
import { TroubleList } from "/web/ops-troubles.js";
import { equal, ok } from "/unit/expect.js";

const words = new Words("en");
const format = new Format(words);

export function both_languages_of_the_operators_pages_have_every_sentence() {
  equal(keysOf("zh").sort(), keysOf("en").sort());
  const names = (ui, key) => [...new Words(ui).say(key, new Proxy({}, { get: (_, name) => `{${name}}` })).matchAll(/\{\w+\}/g)].join().split(",").sort();
  for (const key of keysOf("en")) equal(names("zh", key), names("en", key), key);
}

export function the_language_is_the_chosen_one_or_the_browsers() {
  equal([chosenUi("zh", ["en"]), chosenUi("", ["fr", "zh-CN"]), chosenUi("xx", ["fr"])], ["zh", "zh", "en"]);
}

export function words_from_elsewhere_are_shown_as_they_are_when_nobody_knows_them() {
  equal([words.known("status", "ready"), words.known("status", "<b>"), words.known("why", "constructor")], ["ready", "<b>", "constructor"]);
}

export function numbers_are_written_for_people() {
  equal([format.ms(0.42), format.ms(42.4), format.ms(4200), format.ms(null)], ["0.4 ms", "42 ms", "4.2 s", "–"]);
  equal([format.bytes(0), format.bytes(999), format.bytes(1_500_000), format.bytes(undefined)], ["0 B", "999 B", "1.5 MB", "–"]);
  equal([format.duration(5), format.duration(125), format.duration(3 * 3600 + 240), format.duration(90_000)], ["5 s", "2 min", "3 h 4 min", "1 d 1 h"]);
  equal([format.ago(0, 10_000), format.ago(4000, 10_000)], ["never", "6 s ago"]);
  equal([format.percent(12.34), format.percent(null), format.pair("zh:en+en:zh")], ["12.3 %", "–", "zh → en, en → zh"]);
}

export function levels_begin_above_their_limits() {
  equal([levelOf(10, 10, 100), levelOf(11, 10, 100), levelOf(101, 10, 100)], ["", "warn", "bad"]);
}

export function text_is_never_markup() {
  const made = h("p", { title: '"><img src=x>' }, "<img src=x onerror=1>", null, false);
  equal([made.childNodes.length, made.textContent, made.children.length], [1, "<img src=x onerror=1>", 0]);
}

export function a_row_that_is_still_there_keeps_its_element_and_only_what_changed_is_made_again() {
  let made = 0;
  const table = new Table({
    caption: "c",
    empty: "nothing",
    keyOf: (row) => row.id,
    columns: [
      { label: "id", kind: "name", value: (row) => row.id },
      { label: "n", kind: "number", value: (row) => row.n, show: (value) => ((made += 1), String(value)) },
    ],
  });
  const texts = () => [...table.element.querySelectorAll("tbody tr")].map((row) => row.textContent);
  table.show([{ id: "a", n: 1 }, { id: "b", n: 2 }]);
  const [first] = table.element.querySelectorAll("tbody tr");
  table.show([{ id: "c", n: 3 }, { id: "a", n: 1 }]);
  equal(texts(), ["c3", "a1"]);
  ok(table.element.querySelectorAll("tbody tr")[1] === first);
  equal(made, 3);
  table.show([]);
  equal([table.scroller.hidden, texts().length, table.element.textContent.includes("nothing")], [true, 0, true]);
}

export function pages_are_turned_by_cursors_and_back_again() {
  let turns = 0;
  const pager = new Pager(2, words, () => (turns += 1));
  const [back, on] = pager.element.querySelectorAll("button");
  pager.show({ rows: 2, total: 3, next: "b" });
  equal([pager.cursor, back.disabled, pager.element.textContent], ["", true, "Previous1 to 2 of 3Next"]);
  on.click();
  equal(pager.cursor, "b");
  pager.show({ rows: 1, total: 3, next: null });
  equal([on.disabled, pager.element.textContent.includes("3 to 3 of 3")], [true, true]);
  back.click();
  equal([pager.cursor, turns], ["", 2]);
}

export function a_token_is_taken_from_the_address_and_does_not_stay_there() {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), removeItem: (key) => kept.delete(key) };
  const shown = [];
  const history = { state: null, replaceState: (_state, _title, address) => shown.push(address) };
  const token = new AdminToken(storage);
  token.takeFrom({ hash: "#nodes", pathname: "/cluster", search: "" }, history);
  equal([token.value, shown], ["", []]);
  token.takeFrom({ hash: "#token=a%2Bb", pathname: "/cluster", search: "?find=x" }, history);
  equal([token.value, shown, new AdminToken(storage).value], ["a+b", ["/cluster?find=x"], "a+b"]);
  token.set("");
  equal([token.value, kept.size], ["", 0]);
}

export function a_course_is_drawn_from_a_quarter_of_an_hour_ago_to_now() {
  const course = new Course({ title: "t", about: "", series: ["Sessions"] }, words, format);
  course.show([1_000_000, 1_450_000], [[5, 10]]);
  const line = course.element.querySelector(".plot .line").getAttribute("d");
  equal(line, "M300.0 60.0L600.0 0.0");
  equal(course.element.querySelector("svg[role=img]").getAttribute("aria-label"), "Sessions: 10 now, 10 at most");
  course.show([], [[]]);
  equal(course.element.querySelector(".plot .line").getAttribute("d"), "");
}

export function every_trouble_has_its_sentence() {
  const list = new TroubleList(words, format);
  const of = (kind, members) => list.sentence({ kind, where: "", why: "", count: 1, of: 2, names: [], ...members });
  equal(of("nodes_excluded", { why: "offline" }).includes("cannot be reached"), true);
  equal(of("service_gap", { where: "0/tts", why: "oom" }), "Pool 0: tts is not ready on 1 of the 2 nodes that have it: oom");
  equal(of("service_gap", { where: "0/tts" }), "Pool 0: tts is not ready on 1 of the 2 nodes that have it");
  equal(of("pair_unserved", { where: "zh:en" }), "No node serves zh → en; sessions that ask for it: 1");
  equal(of("unheard_of"), "trouble_unheard_of");
}
