import { Session } from "/web/protocol.js";
import { reconnects } from "/web/retry.js";
import { bytes, equal, ok } from "/unit/expect.js";

const WISH = { client_version: "1", platform: "test", src_lang: "en", tgt_lang: "zh" };
const types = (events) => events.map(({ type }) => type);

function make() {
  return new Session(WISH, { random: () => 0.5, wallMs: () => 1_000_000 });
}

function say(session, type, members = {}, nowMs = 0) {
  return session.heard(JSON.stringify({ type, ...members }), nowMs);
}

function sent(session, nowMs = 0) {
  return session.outgoing(nowMs).map((message) => (typeof message === "string" ? JSON.parse(message) : message));
}

function ack(members = {}) {
  return { session_id: "s-1", trace_id: "t", message: "ok", resume_token: "token-1", ...members };
}

/** Give a session that is open; its first messages are read. */
function open(members = {}) {
  const session = make();
  session.start(0);
  session.connected(0);
  sent(session);
  say(session, "session_init_ack", ack(members));
  sent(session);
  return session;
}

function comeBack(session, members, nowMs) {
  session.tick(session.wakeAtMs);
  session.connected(nowMs);
  const [init] = sent(session, nowMs);
  const events = say(session, "session_init_ack", ack(members), nowMs);
  return { init, events, after: sent(session, nowMs) };
}

export function it_introduces_itself_and_opens() {
  const session = make();
  equal(types(session.start(0)), ["connect"]);
  session.connected(0);
  const [init] = sent(session);
  equal([init.type, init.src_lang, init.supports_resume, init.resume_token], ["session_init", "en", true, undefined]);
  const [opened] = say(session, "session_init_ack", ack({ warning: "NO_AVAILABLE_NODE", retry_after_ms: 5000 }));
  equal([opened.type, opened.resumed, opened.warning, opened.retryAfterMs], ["opened", false, "NO_AVAILABLE_NODE", 5000]);
  equal(types(sent(session)), ["client_heartbeat"]);
}

export function speech_before_the_answer_waits_for_it() {
  const session = make();
  session.start(0);
  session.speak(bytes(1));
  session.connected(0);
  session.finish();
  equal(types(sent(session)), ["session_init"]);
  say(session, "session_init_ack", ack());
  const chunks = sent(session).filter(({ type }) => type === "audio_chunk");
  equal(chunks.map(({ seq, is_final, payload }) => [seq, is_final, payload]), [[0, false, "AQ=="], [1, true, ""]]);
}

export function audio_goes_binary_when_that_was_agreed() {
  const session = open({ use_binary_frame: true });
  session.speak(bytes(1, 2));
  const [frame] = sent(session);
  ok(frame instanceof ArrayBuffer, "not binary");
}

export function a_lost_connection_is_taken_up_with_the_token_and_nothing_is_lost() {
  const session = open();
  for (const value of [1, 2, 3]) session.speak(bytes(value));
  sent(session);
  say(session, "audio_ack", { session_id: "s-1", seq: 0 });
  say(session, "translation_result", { session_id: "s-1", utterance_index: 0, trace_id: "t" });
  const [away] = session.lost(1006, 1000);
  equal([away.type, away.attempt, session.state], ["reconnecting", 1, "waiting"]);
  session.speak(bytes(4));
  session.finish();

  const members = { resumed: true, last_seq: 1, next_utterance_index: 1, resume_token: "token-2" };
  const { init, events, after } = comeBack(session, members, 1300);

  equal([init.resume_token, init.received_through], ["token-1", 0]);
  equal(events[0].resumed, true);
  equal(after.filter(({ type }) => type === "audio_chunk").map(({ seq }) => seq), [2, 3, 4]);
}

export function a_session_that_could_not_be_taken_up_gets_what_was_not_acknowledged() {
  const session = open();
  session.speak(bytes(1));
  session.speak(bytes(2));
  sent(session);
  say(session, "audio_ack", { session_id: "s-1", seq: 0 });
  session.lost(1006, 1000);
  const { events, after } = comeBack(session, { session_id: "s-2" }, 90_000);
  equal([events[0].before, events[0].sessionId, events[0].resumed], ["s-1", "s-2", false]);
  const chunks = after.filter(({ type }) => type === "audio_chunk");
  equal(chunks.map(({ session_id, seq }) => [session_id, seq]), [["s-2", 1]]);
}

export function a_server_that_cannot_resume_gets_nothing_twice() {
  const session = open({ resume_token: null });
  session.speak(bytes(1));
  sent(session);
  session.lost(1006, 1000);
  session.speak(bytes(2));
  const { init, after } = comeBack(session, { session_id: "s-2", resume_token: null }, 1500);
  equal(init.resume_token, undefined);
  equal(after.filter(({ type }) => type === "audio_chunk").map(({ seq }) => seq), [1]);
}

export function a_repeated_result_is_taken_once_and_acknowledged() {
  const session = open();
  const result = { session_id: "s-1", utterance_index: 0, text_asr: "a", text_translated: "b", trace_id: "t" };
  equal(types(say(session, "translation_result", result)), ["result"]);
  equal(say(session, "translation_result", result), []);
  equal(sent(session).map(({ type, utterance_index }) => [type, utterance_index]), [["result_ack", 0]]);
}

export function waiting_grows_with_failures_and_begins_anew_after_a_good_connection() {
  const session = open();
  const waits = [];
  for (let nowMs = 100; waits.length < 4; nowMs += 1) {
    waits.push(session.lost(1006, nowMs)[0].waitMs);
    session.tick(session.wakeAtMs);
  }
  equal(waits, [300, 600, 1200, 2400]);
  comeBack(session, { resumed: true }, 10_000);
  equal(session.lost(1006, 20_000)[0].waitMs, 300);
}

export function codes_that_mean_give_up_end_the_session() {
  equal([1000, 1006, 1012, 4408, 4410].map(reconnects), [true, true, true, true, true]);
  equal([1002, 1009, 4500, 4503, 4529].map(reconnects), [false, false, false, false, false]);
  const session = open();
  const [ended] = session.lost(4503, 10);
  equal([ended.type, ended.reason, ended.code, session.wakeAtMs], ["ended", "refused", 4503, null]);
}

export function a_server_that_goes_away_is_left_in_time() {
  const session = open();
  equal(say(session, "going_away", { retry_after_ms: 2000 }, 100), []);
  equal(session.tick(2000), []);
  equal(types(session.tick(2100)), ["disconnect", "reconnecting"]);
  equal(types(session.tick(2100)), ["connect"]);
}

export function a_server_that_closes_before_its_time_is_over_is_waited_for() {
  const session = open();
  say(session, "going_away", { retry_after_ms: 2000 }, 100);
  equal(session.lost(1012, 600)[0].waitMs, 1500);
}

export function silence_of_the_server_ends_the_connection() {
  const session = open();
  equal(session.tick(9000), []);
  equal(types(session.tick(10_000)), ["disconnect", "reconnecting"]);
}

export function heartbeats_measure_the_round_trip() {
  const session = open();
  equal(say(session, "server_heartbeat", { session_id: "s-1" }, 42), [{ type: "roundTrip", ms: 42 }]);
  session.tick(10_000);
  equal(types(sent(session, 10_000)), ["client_heartbeat"]);
}

export function results_are_timed_from_the_end_of_speech() {
  const session = open();
  session.speechBegan();
  session.speechEnded(1000);
  say(session, "ui_event", { session_id: "s-1", utterance_index: 0, event: "DISPATCHED", elapsed_ms: 5 }, 1100);
  const result = { session_id: "s-1", utterance_index: 0, trace_id: "t" };
  equal(say(session, "translation_result", result, 1900)[0].latencyMs, 900);
}

export function an_utterance_cut_while_somebody_speaks_is_timed_from_its_cut() {
  const session = open();
  session.speechEnded(10);
  session.speechBegan();
  say(session, "ui_event", { session_id: "s-1", utterance_index: 0, event: "DISPATCHED", elapsed_ms: 50 }, 1100);
  const result = { session_id: "s-1", utterance_index: 0, trace_id: "t" };
  equal(say(session, "translation_result", result, 1150)[0].latencyMs, 100);
}

export function playback_is_told_now_or_when_the_connection_is_back() {
  const session = open();
  const result = { sessionId: "s-1", traceId: "t", groupId: "g" };
  session.playbackStarted(result);
  equal(types(sent(session)), ["tts_started"]);
  session.lost(1006, 100);
  session.playbackEnded(result);
  const { after } = comeBack(session, { resumed: true }, 500);
  ok(types(after).includes("tts_play_ended"), "not told");
  session.playbackStarted({ ...result, groupId: undefined });
  session.playbackStarted({ ...result, sessionId: "s-9" });
  equal(sent(session, 600), []);
}

export function closing_says_so_after_the_last_frame_and_ends_with_the_answer() {
  const session = open();
  session.speak(bytes(1));
  session.close(0);
  equal(types(sent(session)), ["audio_chunk", "session_close"]);
  equal(types(say(session, "session_close_ack", { session_id: "s-1" })), ["disconnect", "ended"]);
  equal(session.speak(bytes(1)), []);
}

export function closing_survives_a_lost_connection_but_not_for_ever() {
  const session = open();
  session.close(0);
  sent(session);
  equal(types(session.lost(1006, 100)), ["reconnecting"]);
  const { after } = comeBack(session, { resumed: true }, 500);
  ok(types(after).includes("session_close"), "not closed");
  equal(types(session.tick(15_000)), ["disconnect", "ended"]);
}

export function closing_before_anything_was_opened_just_ends() {
  const session = make();
  session.start(0);
  equal(types(session.close(0)), ["disconnect", "ended"]);
}

export function a_refusal_is_tried_again_later_when_that_may_help() {
  const session = make();
  session.start(0);
  session.connected(0);
  const events = say(session, "error", { code: "SCHEDULER_DEPENDENCY_DOWN", retry_after_ms: 1000 }, 10);
  equal(types(events), ["trouble", "disconnect", "reconnecting"]);
  equal(events[2].waitMs, 1000);
}

export function a_refusal_that_cannot_help_ends() {
  const session = make();
  session.start(0);
  session.connected(0);
  equal(types(say(session, "error", { code: "UNSUPPORTED_FEATURE" })), ["disconnect", "trouble", "ended"]);
}

export function errors_of_an_open_session_are_news_only() {
  const session = open();
  equal(types(say(session, "error", { code: "RATE_LIMITED" })), ["trouble"]);
  equal(session.state, "open");
}

export function a_pause_that_the_server_asks_for_is_kept() {
  const session = open();
  equal(types(say(session, "backpressure", { action: "PAUSE", resume_after_ms: 2000 }, 0)), ["lagging"]);
  session.speak(bytes(1));
  equal(sent(session, 1000), []);
  equal(session.wakeAtMs, 2000);
  equal(types(sent(session, 2000)), ["audio_chunk"]);
}

export function unknown_messages_are_handed_on_and_nonsense_is_passed_over() {
  const session = open();
  equal(types(say(session, "room_members", { room_code: "123456" })), ["message"]);
  equal(session.heard("?", 0), []);
}
