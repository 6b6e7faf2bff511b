/** One person in a room without a page: the session, the place in the room, translated voices and own voices. */

import { NoMicrophone } from "./audio-in.js";
import { Conversation } from "./conversation.js";
import { RawVoices } from "./raw-voice.js";
import { Membership } from "./room-membership.js";
import { Speakers } from "./speakers.js";

/**
 * Talks in one room at a time.
 *
 * Members of `on`: `event(event)` of the protocol, and of the room as `Membership.heard` gives them; `speaking(bool)`
 * of this person; `changed()` when anything else is to be shown; `level(0 to 1)`; `unplayable()`;
 * `microphone(reason)` why there is none, or null.
 */
export class RoomTalk {
  /** lobby, entering or inside. */
  phase = "lobby";
  /** What the connection does: idle, connecting, open, waiting or ended. */
  link = "idle";
  /** The place in the room. */
  room = new Membership({});
  /** How to talk: press or free. */
  mode = "press";
  /** The person has made a break, hands-free. */
  paused = false;
  /** How many voices wait, and whose is heard: null when none is. */
  voices = { waiting: 0, speaker: null };

  #on;
  #take = "voice";
  #isSpeaking = false;
  #talk;
  #raw;
  #speakers;

  constructor(access, on) {
    this.#on = on;
    this.#speakers = new Speakers(() => on.changed());
    this.#raw = new RawVoices({
      send: (id, type, payload) => this.#talk.send(this.room.signal(id, type, payload)),
      onSpeaking: (ids) => this.#speakers.heard(ids),
    });
    this.#talk = new Conversation(access, {
      event: (event, current) => current && this.#event(event),
      speaking: (speaking) => this.#speaking(speaking),
      level: (level) => on.level(level),
      voices: (waiting, result) => this.#heard(waiting, result),
      unplayable: () => on.unplayable(),
      microphoneGone: () => this.#microphoneGone(),
    });
  }

  /** Whether there is a microphone. */
  get hears() {
    return this.#talk.hears;
  }

  /** The microphone rests because a voice is heard. */
  get resting() {
    return this.#talk.resting;
  }

  /** Whether others hear what is said now. */
  get live() {
    if (this.phase !== "inside" || !this.hears) return false;
    return this.mode === "free" ? !this.paused && !this.resting : this.#isSpeaking;
  }

  /** The ids of everybody who speaks now. */
  get speakers() {
    return this.#speakers.now;
  }

  /** Go into a room by its code, or into a new one; `me` is `{name, lang, mode}`. */
  async enter(me, code, wish) {
    this.phase = "entering";
    this.link = "connecting";
    this.paused = false;
    this.room = new Membership(me, code);
    this.#take = me.mode;
    this.#raw.unlock();
    await this.#talk.listen(wish);
  }

  /** Leave the room and let the microphone go. */
  leave() {
    const told = this.room.leave();
    if (told) this.#talk.send(told);
    this.phase = "lobby";
    this.link = "idle";
    this.#raw.close();
    this.#raw.use(null);
    this.#speakers.clear();
    this.#talk.hush();
    this.#talk.end();
  }

  /** Use the microphone. */
  async takeMicrophone() {
    try {
      if (!(await this.#talk.takeMicrophone(this.mode))) return;
      this.#raw.use(this.#talk.track());
      this.#on.microphone(null);
    } catch (error) {
      this.#on.microphone(error instanceof NoMicrophone ? error.reason : "failed");
    }
    this.#arrange();
  }

  /** Talk by the button or hands-free; with headphones, or not. */
  talkBy(mode, headphones) {
    this.#talk.headphones = headphones;
    if (mode !== this.mode) {
      this.mode = mode;
      this.pause(false);
      this.#talk.setMode(mode);
    }
    this.#talk.rearrange();
    this.#arrange();
  }

  /** Take in what others say as voice, captions or text. */
  follow(take) {
    this.#take = take;
    const told = this.room.change({ mode: take });
    if (told) this.#talk.send(told);
    this.#listen();
  }

  /** Hear somebody's own voice, or not. */
  mute(id, muted) {
    this.#talk.send(this.room.mute(id, muted));
  }

  /** The person presses the button, or lets it go. */
  press(pressed) {
    if (pressed) this.#raw.unlock();
    this.#talk.press(pressed);
  }

  /** Make a break hands-free, or go on. */
  pause(paused) {
    this.paused = paused;
    this.#talk.pause(paused);
    this.#arrange();
  }

  /** Play the voice of a result, unless the person only reads. */
  play(result, order) {
    if (this.#take === "voice" && result.voice.length) this.#talk.play(result, order);
  }

  /** Leave out the voice that is heard. */
  skip() {
    this.#talk.skip();
  }

  /** Connect at once instead of waiting. */
  hurry() {
    this.#talk.hurry();
  }

  #event(event) {
    switch (event.type) {
      case "opened":
        return this.#opened(event);
      case "reconnecting":
        this.link = "waiting";
        break;
      case "message":
        for (const news of this.room.heard(event.message)) this.#news(news);
        return;
      case "partial":
        this.#speakers.understood(event.speaker);
        break;
      case "result":
        this.#speakers.ended(event.speaker);
        break;
    }
    this.#on.event(event);
  }

  #opened(event) {
    this.link = "open";
    if (!event.resumed) this.#raw.close();
    this.#on.event(event);
    const entry = this.room.opened(event, Date.now());
    if (entry) this.#talk.send(entry);
    else this.#raw.repeat();
  }

  #news(news) {
    if (news.type === "signal") this.#raw.take(news);
    if (news.type === "members") this.#raw.gather(news.members);
    if (news.type === "entered") {
      news.first = this.phase !== "inside";
      this.phase = "inside";
      this.#listen();
    }
    this.#on.event(news);
  }

  #listen() {
    if (this.#take !== "voice") this.#talk.hush();
    this.#raw.listen(this.#take === "voice");
  }

  #speaking(speaking) {
    this.#isSpeaking = speaking;
    this.#on.speaking(speaking);
    this.#speakers.me(speaking && this.phase === "inside" ? this.room.sessionId : "");
    this.#arrange();
  }

  #heard(waiting, result) {
    this.voices = { waiting, speaker: result?.speaker ?? null };
    this.#raw.duck(result !== null);
    this.#arrange();
  }

  #microphoneGone() {
    this.#talk.dropMicrophone();
    this.#raw.use(null);
    this.#on.microphone("gone");
    this.#arrange();
  }

  #arrange() {
    this.#raw.open(this.live);
    this.#on.changed();
  }
}
