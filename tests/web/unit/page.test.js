import { Captions } from "/web/captions.js";
import { Served, closest, languageName } from "/web/languages.js";
import { Notices } from "/web/notices.js";
import { Settings } from "/web/settings.js";
import { SpeechInput } from "/web/speech-in.js";
import { keysOf, preferredUi, sentence } from "/web/strings.js";
import { sessionWish } from "/web/wish.js";
import { equal, ok } from "/unit/expect.js";

export function both_languages_of_the_page_have_every_sentence() {
  equal(keysOf("zh").sort(), keysOf("en").sort());
  for (const key of keysOf("en")) {
    const names = (ui) => (sentence(ui, key, {}).match(/\{/g) ?? []).length;
    equal(names("en"), names("zh"), key);
    ok(sentence("zh", key).length > 0, key);
  }
}

export function the_page_speaks_what_the_browser_prefers() {
  equal([preferredUi(["fr", "zh-TW", "en"]), preferredUi(["de"]), preferredUi(["en-GB", "zh"])], ["zh", "en", "en"]);
}

export function languages_are_named_in_themselves_and_for_the_reader() {
  equal([languageName("en", "en"), languageName("zh", "en")], ["English", "中文 · Chinese"]);
  equal(languageName("not a language", "en"), "not a language");
}

export function what_is_served_is_directed() {
  const served = new Served([{ lang: "en", into: ["pt", "zh"], voiced: ["pt"] }]);
  equal([served.has("en", "zh"), served.has("zh", "en")], [true, false]);
  equal([served.voiced("en", "pt"), served.voiced("en", "zh"), served.voiced("x", "en")], [true, false, false]);
}

export function the_closest_language_is_found_by_tag_then_by_its_beginning() {
  equal([closest(["en", "pt"], ["fr", "pt-BR"]), closest(["en", "pt"], ["xx"]), closest([], ["en"])], ["pt", "en", ""]);
}

export function settings_last_and_nonsense_in_the_storage_is_passed_over() {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  new Settings(storage).set({ mine: "pt", size: 3 });
  equal([new Settings(storage).mine, new Settings(storage).size], ["pt", 3]);
  kept.set("lingua-talk", '{"size": "huge", "mine": "zh"}');
  equal([new Settings(storage).size, new Settings(storage).mine], [1, "zh"]);
  kept.set("lingua-talk", "{");
  equal(new Settings(storage).mode, "press");
}

export function a_wish_says_what_was_chosen() {
  const chosen = { mine: "en", other: "zh", mode: "press", both: false, voice: true };
  const wish = sessionWish(chosen, { hintLang: "zh", voiced: true });
  equal([wish.src_lang, wish.tgt_lang, wish.endpointing, wish.pipeline.use_tts], ["en", "zh", "fixed", true]);
  const two = sessionWish({ ...chosen, both: true, mode: "free" }, { hintLang: "en", voiced: false });
  equal([two.src_lang, two.lang_a, two.lang_b, two.tgt_lang], ["auto", "en", "zh", "zh"]);
  equal([two.endpointing, two.pipeline.use_tts], ["adaptive", false]);
}

function captions() {
  const [list, announcer] = [document.createElement("ol"), document.createElement("div")];
  document.body.replaceChildren(list, announcer);
  const made = new Captions(list, announcer, (key) => key);
  made.setLanguages("en", "zh");
  const shown = () =>
    [...list.children].map((item) => [item.dataset.state, ...[...item.children].map((cell) => cell.textContent)]);
  return { made, list, announcer, shown };
}

const of = (index, members = {}) => ({ sessionId: "s", index, said: "", meant: "", ...members });

export function a_sentence_grows_from_listening_to_its_translation_in_one_line() {
  const { made, shown, announcer } = captions();
  made.speaking(true);
  equal(shown(), [["live", "listening …", ""]]);
  made.speaking(false);
  equal(shown(), [["live", "", "translating …"]]);
  made.waiting(of(0));
  made.partial({ ...of(0), text: "good" });
  equal(shown(), [["live", "good", "translating …"]]);
  made.result(of(0, { said: "good morning", meant: "早上好" }));
  equal(shown(), [["done", "good morning", "早上好"]]);
  equal([announcer.textContent, announcer.firstChild.lang], ["早上好", "zh"]);
}

export function lines_stand_in_the_order_of_what_was_said() {
  const { made, shown } = captions();
  made.result(of(1, { said: "b", meant: "B" }));
  made.result(of(0, { said: "a", meant: "A" }));
  made.result({ ...of(0, { said: "c", meant: "C" }), sessionId: "later" });
  equal(shown().map(([, said]) => said), ["a", "b", "c"]);
}

export function a_sentence_in_the_other_language_stands_in_its_own_column() {
  const { made, shown, list } = captions();
  made.result(of(0, { said: "你好", meant: "hello", spokenLang: "zh" }));
  equal(shown(), [["done", "hello", "你好"]]);
  equal([list.firstChild.firstChild.lang, list.firstChild.firstChild.className], ["en", "cell meant"]);
}

export function utterances_without_words_leave_no_line() {
  const { made, shown } = captions();
  made.waiting(of(0));
  made.waiting(of(1));
  made.result(of(1, { said: "a", meant: "A" }));
  made.result(of(2));
  equal(shown().map(([, said]) => said), ["a"]);
}

export function a_late_result_replaces_the_sentence_that_it_is_missing() {
  const { made, shown } = captions();
  made.missing(of(0), "not translated");
  equal(shown(), [["missing", "", "not translated"]]);
  made.result(of(0, { said: "a", meant: "A" }));
  equal(shown(), [["done", "a", "A"]]);
}

export function what_a_lost_session_owed_is_said_to_be_lost() {
  const { made, shown } = captions();
  made.result(of(0, { said: "a", meant: "A" }));
  made.partial({ ...of(1), text: "b" });
  made.lost("s", "lost");
  equal(shown(), [["done", "a", "A"], ["missing", "b", "lost"]]);
}

export function texts_are_never_read_as_markup() {
  const { made, list } = captions();
  made.result(of(0, { said: "<img src=x onerror=alert(1)>", meant: "<b>x</b>" }));
  equal([list.querySelector("img"), list.querySelector("b")], [null, null]);
}

export function the_gravest_notice_is_shown_and_can_be_taken_back() {
  const box = document.createElement("div");
  for (const part of ["text", "action", "dismiss"]) {
    const child = document.createElement(part === "text" ? "p" : "button");
    child.dataset.part = part;
    box.append(child);
  }
  const notices = new Notices(box, (key) => key);
  notices.show("one", { level: "error", key: "bad" });
  notices.show("two", { level: "info", key: "fine" });
  equal([box.firstChild.textContent, box.getAttribute("role")], ["bad", "alert"]);
  box.querySelector("[data-part=dismiss]").click();
  equal([box.firstChild.textContent, box.getAttribute("role"), box.hidden], ["fine", "status", false]);
  notices.clear("two");
  equal(box.hidden, true);
}

function input() {
  const log = [];
  const encoder = { push: () => log.push("+"), flush: async () => {} };
  const made = new SpeechInput(encoder, {
    onFinish: () => log.push("."),
    onSpeaking: (speaking) => log.push(speaking ? "(" : ")"),
    onLevel: () => {},
  });
  const take = (loudness, blocks) => {
    for (let at = 0; at < blocks; at += 1) {
      made.take(Float32Array.from({ length: 320 }, (_, place) => loudness * Math.sin(place * place)));
    }
  };
  return { made, take, said: async () => (await null, log.join("").replace(/\++/g, (run) => run.length)) };
}

export async function from_press_to_release_with_a_little_before_and_after() {
  const { made, take, said } = input();
  take(0, 40);
  made.press();
  take(0, 10);
  made.release();
  take(0, 40);
  equal(await said(), "15(10)8.");
}

export async function pressing_again_at_once_goes_on_with_the_sentence() {
  const { made, take, said } = input();
  made.press();
  take(0, 10);
  made.release();
  take(0, 4);
  made.press();
  take(0, 10);
  made.release();
  take(0, 20);
  equal(await said(), "(10)4(10)8.");
}

export async function hands_free_takes_what_is_spoken_and_a_little_before_it() {
  const { made, take, said } = input();
  made.mode = "free";
  take(0.001, 100);
  take(0.2, 50);
  take(0.001, 100);
  equal(await said(), "15(67)40.");
}

export async function hands_free_hears_nothing_while_it_is_muted() {
  const { made, take, said } = input();
  made.mode = "free";
  take(0.2, 10);
  made.mute(true);
  take(0.2, 50);
  equal(await said(), "2(8).");
  made.mute(false);
  take(0.2, 10);
  equal((await said()).slice(0, 6), "2(8).2");
}
