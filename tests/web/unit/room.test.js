import { RoomCaptions } from "/web/room-captions.js";
import { Membership, codeIn, linkTo } from "/web/room-membership.js";
import { Speakers } from "/web/speakers.js";
import { roomWish } from "/web/wish.js";
import { equal, ok } from "/unit/expect.js";

const ME = { name: "Ann", lang: "en", mode: "voice" };

function member(id, more = {}) {
  return { participant_id: id, session_id: id, joined_at: "", display_name: null, preferred_lang: "pt", ...more };
}

/** Give somebody who is in the room 123456 as s-1. */
function inside() {
  const room = new Membership({ ...ME }, "123456");
  room.opened({ sessionId: "s-1", resumed: false }, 0);
  room.heard({ type: "room_create_ack", room_code: "123456" });
  return room;
}

function gather(room, ...members) {
  return room.heard({ type: "room_members", room_code: "123456", members }).find(({ type }) => type === "members");
}

export function codes_are_found_in_whatever_people_paste() {
  equal(["123456", " 123 456 ", "123-456"].map(codeIn), ["123456", "123456", "123456"]);
  equal(["https://a.example/room#123456", "/room/123456", "/room"].map(codeIn), ["123456", "123456", ""]);
  equal(["12345", "1234567", "abcdef", "https://a.example/123456"].map(codeIn), ["", "", "", ""]);
  equal(codeIn(linkTo("654321", "https://a.example")), "654321");
}

export function without_a_code_a_room_is_opened_and_with_one_it_is_joined() {
  const opened = new Membership(ME).opened({ sessionId: "s-1", resumed: false }, 5.5);
  const about = { display_name: "Ann", preferred_lang: "en", mode: "voice" };
  equal(opened, { type: "room_create", client_ts: 5, ...about });
  const joined = new Membership({ ...ME, name: "" }, "123456").opened({ sessionId: "s-1", resumed: false }, 5);
  equal(joined, { type: "room_join", room_code: "123456", ...about, display_name: null });
}

export function a_resumed_session_is_still_inside_and_a_new_one_goes_back() {
  const room = inside();
  equal(room.opened({ sessionId: "s-1", resumed: true }, 0), null);
  equal(room.opened({ sessionId: "s-2", resumed: false }, 0).type, "room_join");
  equal(room.heard({ type: "room_error", code: "ROOM_NOT_FOUND" }), [
    { type: "shut", code: "ROOM_NOT_FOUND", inside: false },
  ]);
  equal([room.person("s-1").me, room.person("s-2").me, room.person("s-3").me], [true, true, false]);
}

export function a_session_resumed_before_the_answer_came_asks_again_and_may_be_inside_already() {
  const room = new Membership(ME);
  room.opened({ sessionId: "s-1", resumed: false }, 0);
  equal(room.opened({ sessionId: "s-1", resumed: true }, 0).type, "room_create");
  equal(room.heard({ type: "room_error", code: "ALREADY_IN_ROOM" }), []);
  const news = room.heard({ type: "room_members", room_code: "123456", members: [member("s-1")] });
  equal([news.map(({ type }) => type), room.code, room.inside], [["entered", "members"], "123456", true]);
}

export function who_has_left_is_not_let_in_by_news_of_the_room() {
  const room = inside();
  room.leave();
  equal(room.heard({ type: "room_members", room_code: "123456", members: [member("s-1")] }), []);
}

export function people_come_and_go_and_those_without_a_name_get_a_number() {
  const room = inside();
  equal(gather(room, member("s-1"), member("s-2")).came, []);
  const { came, members } = gather(room, member("s-1"), member("s-2"), member("s-3", { display_name: "Bo" }));
  equal(came.map(({ name }) => name), ["Bo"]);
  equal(members.map(({ me, name, guest }) => [me, name, guest]), [[true, "", 1], [false, "", 2], [false, "Bo", 0]]);
  equal(gather(room, member("s-1")).left.map(({ id }) => id), ["s-2", "s-3"]);
  equal([room.person("s-3").name, room.person("s-2").guest, room.person("s-2").lang], ["Bo", 2, "pt"]);
}

export function only_the_own_wishes_tell_who_is_muted() {
  const room = inside();
  const wishes = { raw_voice_preferences: { "s-2": false, "s-3": true } };
  const { members } = gather(room, member("s-1", wishes), member("s-2"), member("s-3"));
  equal(members.map(({ muted }) => muted), [false, true, false]);
}

export function messages_of_another_room_are_of_no_concern() {
  const room = inside();
  equal(room.heard({ type: "room_members", room_code: "999999", members: [] }), []);
  equal(room.heard({ type: "room_expired", room_code: "999999" }), []);
  equal(room.heard({ type: "webrtc_ice", room_code: "999999", to: "s-2", candidate: {} }), []);
  equal(room.heard({ type: "something" }), []);
  equal(room.heard({ type: "webrtc_ice", room_code: "123456", to: "s-2", candidate: 1 })[0].from, "s-2");
}

export function changes_and_leaving_are_told_only_from_inside() {
  const outside = new Membership({ ...ME }, "123456");
  equal([outside.change({ mode: "text" }), outside.leave()], [null, null]);
  equal(outside.opened({ sessionId: "s-1", resumed: false }, 0).mode, "text");
  const room = inside();
  equal(room.change({ mode: "captions" }).mode, "captions");
  equal(room.leave(), { type: "room_leave", room_code: "123456" });
}

export function the_wish_of_a_room_leaves_the_voice_to_the_room() {
  const wish = roomWish({ mine: "en", other: "zh" }, { hintLang: "en" });
  equal([wish.src_lang, wish.tgt_lang, wish.endpointing, wish.pipeline.use_tts], ["en", "zh", "adaptive", true]);
}

function captions() {
  const [list, announcer] = [document.createElement("ol"), document.createElement("div")];
  document.body.replaceChildren(list, announcer);
  const names = { me: "You", a: "Ann", b: "Bo" };
  const made = new RoomCaptions(list, announcer, { say: (key) => key, nameOf: (id) => names[id], langOf: () => "pt" });
  made.lang = "en";
  const shown = () => [...list.children].map((line) => [...line.children].map((part) => part.textContent));
  return { made, list, announcer, shown };
}

const of = (speaker, index, more = {}) => ({ speaker, index, said: "", meant: "", ...more });

export function everybody_is_read_in_one_language_with_the_words_as_spoken() {
  const { made, list, announcer, shown } = captions();
  made.partial({ ...of("a", 0), text: "bom" }, false);
  equal(shown(), [["Ann", "translating …", "bom"]]);
  made.result(of("a", 0, { said: "bom dia", meant: "good morning" }), false);
  equal(shown(), [["Ann", "good morning", "bom dia"]]);
  equal([...list.firstChild.children].map(({ lang }) => lang), ["", "en", "pt"]);
  equal(announcer.textContent, "Ann: good morning");
}

export function words_in_the_own_language_stand_once() {
  const { made, shown } = captions();
  made.result(of("a", 0, { said: "hello" }), false);
  made.result(of("b", 0, { said: "hi", meant: "hi" }), false);
  equal(shown(), [["Ann", "hello", ""], ["Bo", "hi", ""]]);
}

export function lines_of_one_speaker_stay_in_order_and_others_stand_as_they_came() {
  const { made, shown } = captions();
  made.result(of("a", 1, { said: "1", meant: "a1" }), false);
  made.result(of("b", 0, { said: "0", meant: "b0" }), false);
  made.missing(of("a", 3), "gone", false);
  made.result(of("a", 2, { said: "2", meant: "a2" }), false);
  made.result(of("a", 0, { said: "0", meant: "a0" }), false);
  equal(shown().map(([, meant]) => meant), ["a0", "a1", "b0", "a2", "gone"]);
  const orders = [0, 1, 2].map((index) => made.order(of("a", index)));
  ok(orders[0] < orders[1] && orders[1] < orders[2], `orders ${orders}`);
}

export function own_words_grow_from_listening_to_what_was_said() {
  const { made, shown } = captions();
  made.speaking(true, "me");
  equal(shown(), [["You", "listening …", ""]]);
  made.partial({ ...of("me", 0), text: "good" }, true);
  equal(shown(), [["You", "good", ""]]);
  made.waiting(of("me", 0)); // cut, and the person goes on
  equal(shown(), [["You", "good", ""], ["You", "listening …", ""]]);
  made.speaking(false, "me");
  made.done(of("me", 0));
  made.waiting(of("me", 1));
  made.done(of("me", 1));
  equal(shown(), [["You", "good", ""], ["You", "sent", ""]]);
  made.partial({ ...of("me", 1), text: "morning", final: true }, true);
  equal(shown(), [["You", "good", ""], ["You", "morning", ""]]);
}

export function own_words_are_shown_as_they_were_spoken() {
  const { made, shown } = captions();
  made.result(of("me", 0, { said: "good morning", meant: "bom dia" }), true);
  equal(shown(), [["You", "good morning", ""]]);
}

export function what_happens_in_the_room_stands_between_the_lines() {
  const { made, list, announcer } = captions();
  made.result(of("a", 0, { said: "0", meant: "a0" }), false);
  made.tell("Bo has joined.");
  equal([...list.children].map(({ className }) => className), ["heard", "event"]);
  ok(announcer.textContent.endsWith("Bo has joined."), announcer.textContent);
}

export async function who_was_understood_a_moment_ago_is_speaking() {
  let changes = 0;
  const speakers = new Speakers(() => (changes += 1));
  speakers.heard(["a"]);
  speakers.understood("b");
  speakers.me("me");
  equal([...speakers.now], ["a", "b", "me"]);
  speakers.ended("b");
  speakers.me("");
  speakers.heard([]);
  equal([[...speakers.now], changes], [[], 6]);
}
