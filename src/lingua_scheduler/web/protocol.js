/**
 * One session with the scheduler, without sockets, clocks or pages: what happened comes in, what to do comes out.
 *
 * Every input returns a list of events. Two of them are orders to whoever holds the socket: `connect` and
 * `disconnect`. The others are news for people. What has to be sent is given by `outgoing`, and `wakeAtMs` says
 * when `tick` wants to be called at the latest. Times are milliseconds of one clock that never goes back.
 */

import { SpeechEnds } from "./latency.js";
import * as news from "./news.js";
import { Outbox } from "./outbox.js";
import { Pulse } from "./pulse.js";
import { ReceiptBook } from "./receipts.js";
import { Retry, reconnects } from "./retry.js";
import { binaryFrame, parseMessage, textFrame } from "./wire.js";

const CLOSING_MS = 15_000;
const PACE_MS = 100;
const TURNED_AWAY_MS = 5000; // when the server does not say how long to wait
const TRY_AGAIN = ["SCHEDULER_DEPENDENCY_DOWN", "RATE_LIMITED", "NO_AVAILABLE_NODE", "INTERNAL_ERROR"];

/** A session from its first word to its last, over as many connections as it takes. */
export class Session {
  /** idle, connecting, opening, open, waiting (for the next try) or ended. */
  state = "idle";
  /** The id that the server gave; null before. */
  id = null;

  #wish;
  #wallMs;
  #retry;
  #token = null;
  #binary = false;
  #outbox = new Outbox();
  #pulse = new Pulse();
  #messages = []; // sent before any audio
  #owed = []; // messages that wait for the connection
  #receipts = new ReceiptBook();
  #speech = new SpeechEnds();
  #retryAtMs = 0;
  #leaveAtMs = Infinity;
  #pausedUntilMs = 0;
  #closeByMs = null; // set once the session is to end
  #closeSent = false;

  constructor(wish, { random = Math.random, wallMs = Date.now } = {}) {
    this.#wish = wish;
    this.#wallMs = wallMs;
    this.#retry = new Retry(random);
  }

  /** Whether the server keeps this session while the connection is away. */
  get resumable() {
    return this.#token !== null;
  }

  /** When to call `tick` at the latest; Infinity when nothing is due. */
  get wakeAtMs() {
    if (this.state === "idle" || this.state === "ended") return Infinity;
    const retry = this.state === "waiting" ? this.#retryAtMs : Infinity;
    const paced = this.state === "open" && this.#outbox.unsent ? this.#pausedUntilMs : Infinity;
    return Math.min(retry, paced, this.#closeByMs ?? Infinity, this.#pulse.dueAtMs, this.#leaveAtMs);
  }

  // The connection

  /** Connect. */
  start(nowMs) {
    this.state = "connecting";
    this.#pulse.expect(nowMs);
    return [{ type: "connect" }];
  }

  /** The socket is open. */
  connected(nowMs) {
    this.state = "opening";
    this.#pulse.expect(nowMs);
    this.#introduce(nowMs);
    return [];
  }

  /** The socket has closed, or could not be opened. */
  lost(code, nowMs) {
    if (this.state === "ended" || this.state === "idle") return [];
    const pauseMs = this.#retry.failed(nowMs);
    const waitMs = this.#leaveAtMs < Infinity ? Math.max(0, this.#leaveAtMs - nowMs) : pauseMs;
    this.#calm();
    const over = this.#closeByMs !== null && (nowMs >= this.#closeByMs || !this.resumable);
    if (over || !reconnects(code)) return this.#end(over ? "closed" : "refused", code);
    this.#retryAtMs = nowMs + waitMs;
    this.state = "waiting";
    return [{ type: "reconnecting", waitMs, attempt: this.#retry.failures, code }];
  }

  /** Do not wait for the next try. */
  hurry(nowMs) {
    return this.state === "waiting" ? this.start(nowMs) : [];
  }

  /** Do what has fallen due. */
  tick(nowMs) {
    if (this.state === "waiting" && nowMs >= this.#retryAtMs) return this.start(nowMs);
    if (this.#closeByMs !== null && nowMs >= this.#closeByMs) return this.#hangUp(1000, nowMs);
    if (this.#pulse.silent(nowMs)) return this.#hangUp(1006, nowMs);
    if (nowMs >= this.#leaveAtMs) return this.#hangUp(1001, nowMs);
    if (this.#pulse.wantsBeat(nowMs)) this.#beat(nowMs);
    return [];
  }

  /** End the session; what was said is still translated. */
  close(nowMs) {
    if (this.state === "ended" || this.#closeByMs !== null) return [];
    if (this.id === null) return [{ type: "disconnect", code: 1000 }, ...this.#end("closed", 1000)];
    this.#closeByMs = nowMs + CLOSING_MS;
    return [];
  }

  /** Give what has to be sent now, in order. */
  outgoing(nowMs) {
    if (this.state !== "open") return this.#messages.splice(0);
    this.#acknowledgeResults(nowMs);
    const out = this.#messages.splice(0);
    if (nowMs >= this.#pausedUntilMs) {
      const write = this.#binary ? binaryFrame : textFrame;
      for (const frame of this.#outbox.take(nowMs)) out.push(write(this.id, frame));
      if (!this.resumable) this.#outbox.forgetSent();
      if (this.#outbox.unsent) this.#pausedUntilMs = nowMs + PACE_MS; // more than may leave at once
    }
    if (this.#closeByMs !== null && !this.#closeSent && !this.#outbox.unsent) {
      this.#closeSent = true;
      out.push(JSON.stringify({ type: "session_close", session_id: this.id, reason: "done" }));
    }
    return out;
  }

  // What the person does

  /** A frame of speech in the agreed format. */
  speak(audio) {
    return this.#keep(audio, false);
  }

  /** The utterance ends here. */
  finish() {
    return this.#keep(new Uint8Array(), true);
  }

  /** Somebody speaks. */
  speechBegan() {
    this.#speech.began();
  }

  /** Nobody speaks any more; results are timed from here. */
  speechEnded(nowMs) {
    this.#speech.ended(nowMs);
  }

  /** A voice is heard, and the microphone is off meanwhile. */
  playbackStarted(result) {
    const message = news.playback(result, this.#wallMs(), false);
    if (message && result.sessionId === this.id) this.send(message);
  }

  /** Nothing is heard any more; if the server cannot be told now, it is told later. */
  playbackEnded(result) {
    const message = news.playback(result, this.#wallMs(), true);
    if (!message || result.sessionId !== this.id) return;
    if (this.state === "open") this.send(message);
    else this.#owed = [message];
  }

  /** Send a message of another kind, such as one about rooms; nothing is sent while the connection is away. */
  send(message) {
    if (this.state === "open") this.#messages.push(JSON.stringify(message));
  }

  // What the server says

  /** One message of the server; what is not understood is passed over. */
  heard(text, nowMs) {
    const message = parseMessage(text);
    switch (message.type) {
      case "session_init_ack":
        return this.#opened(message, nowMs);
      case "server_heartbeat":
        return this.#pulse.answered(nowMs).map((ms) => ({ type: "roundTrip", ms }));
      case "audio_ack":
        if (message.session_id === this.id) this.#outbox.acknowledge(message.seq);
        return [];
      case "asr_partial":
        return [news.partial(message)];
      case "ui_event":
        this.#speech.follow(message, nowMs);
        return [news.stage(message)];
      case "translation_result":
        return this.#settle(news.result(message), nowMs);
      case "missing_result":
        return this.#settle(news.missing(message), nowMs);
      case "backpressure":
        if (message.action === "PAUSE") this.#pausedUntilMs = nowMs + (message.resume_after_ms ?? 0);
        return [{ type: "lagging", action: message.action }];
      case "going_away":
        this.#leaveAtMs = nowMs + (message.retry_after_ms ?? 0);
        return [];
      case "session_close_ack":
        if (this.#closeByMs === null) return [];
        return [{ type: "disconnect", code: 1000 }, ...this.#end("closed", 1000)];
      case "error":
        return this.state === "opening" ? this.#turnedAway(message, nowMs) : [news.trouble(message)];
      default:
        return message.type ? [{ type: "message", message }] : [];
    }
  }

  // Inside

  #introduce(nowMs) {
    const init = { type: "session_init", ...this.#wish, supports_resume: true };
    if (this.resumable) {
      Object.assign(init, this.#retry.attempt(), { resume_token: this.#token });
      const through = this.#receipts.of(this.id).through(nowMs);
      if (through >= 0) init.received_through = through;
    }
    this.#messages = [JSON.stringify(init)];
  }

  #opened(ack, nowMs) {
    const before = this.id;
    if (ack.resumed === true) {
      this.#outbox.acknowledge(ack.last_seq ?? -1);
    } else {
      this.#receipts.clear();
      this.#speech.clear();
      this.#owed = [];
    }
    this.id = ack.session_id;
    this.#token = ack.resume_token ?? null;
    this.#binary = ack.use_binary_frame === true;
    this.#outbox.rewind();
    this.#closeSent = false;
    this.#retry.opened(nowMs);
    this.state = "open";
    this.#beat(nowMs);
    for (const message of this.#owed.splice(0)) this.send(message);
    return [news.opened(ack, before)];
  }

  /** The server did not open the session: try later, or not at all. */
  #turnedAway(message, nowMs) {
    if (!TRY_AGAIN.includes(message.code)) {
      const end = this.#end("refused", message.code);
      return [{ type: "disconnect", code: 1000 }, news.trouble(message), ...end];
    }
    this.#leaveAtMs = nowMs + (message.retry_after_ms ?? TURNED_AWAY_MS);
    return [news.trouble(message), ...this.#hangUp(1000, nowMs)];
  }

  #settle(found, nowMs) {
    const { speaker, index, type } = found;
    if (!this.#receipts.of(speaker).take(index, type === "missing", nowMs)) return [];
    return [{ ...found, latencyMs: speaker === this.id ? this.#speech.since(index, nowMs) : undefined }];
  }

  #keep(audio, final) {
    if (this.state === "ended" || this.#closeByMs !== null) return [];
    const frames = this.#outbox.put(audio, final, this.#wallMs());
    return frames ? [{ type: "speechLost", frames }] : [];
  }

  #acknowledgeResults(nowMs) {
    if (!this.resumable) return;
    for (const [speaker, through] of this.#receipts.untold(nowMs)) {
      const whose = speaker === this.id ? {} : { speaker_session_id: speaker };
      this.send({ type: "result_ack", session_id: this.id, utterance_index: through, ...whose });
    }
  }

  #beat(nowMs) {
    this.#pulse.beat(nowMs);
    this.send({ type: "client_heartbeat", session_id: this.id, timestamp: Math.floor(this.#wallMs()) });
  }

  #hangUp(code, nowMs) {
    return [{ type: "disconnect", code }, ...this.lost(code, nowMs)];
  }

  #calm() {
    this.#pulse.stop();
    this.#leaveAtMs = Infinity;
    this.#pausedUntilMs = 0;
    this.#messages = [];
  }

  #end(reason, code) {
    this.#calm();
    this.state = "ended";
    return [{ type: "ended", reason, code }];
  }
}
