/**
 * One person's talk without a page: microphone, sessions and voices, and who has to be quiet for whom.
 *
 * Without headphones only one of the two is on: while the person speaks the voice waits, and while the voice is
 * heard the microphone does not listen by itself.
 */

import { Microphone } from "./audio-in.js";
import { VoiceQueue } from "./audio-out.js";
import { Connection } from "./connection.js";
import { speechEncoder, speechFormat } from "./opus.js";
import { Session } from "./protocol.js";
import { SpeechInput } from "./speech-in.js";

/**
 * Talks to the scheduler that `access` opens sockets to.
 *
 * Members of `on`: `event(event)` of the protocol; `speaking(bool)`; `level(0 to 1)`; `voices(waiting, result)` with
 * the result whose voice is heard, or null; `unplayable()`; `microphoneGone()`.
 */
export class Conversation {
  /** The person hears the voice without the microphone hearing it. */
  headphones = false;
  /** The microphone rests because a voice is heard. */
  resting = false;

  #access;
  #on;
  #voices;
  #microphone = null;
  #input = null;
  #encoder = null;
  #format = null;
  #connections = new Set(); // those of ended sessions stay until their last result
  #current = null;
  #speaking = false;
  #audible = false;
  #paused = false;
  #attempt = 0; // to start; an end makes older ones void

  constructor(access, on) {
    this.#access = access;
    this.#on = on;
    this.#voices = new VoiceQueue({
      onAudible: (result, audible) => this.#heard(result, audible),
      onQueue: (waiting, result) => on.voices(waiting, result),
      onUnplayable: () => on.unplayable(),
    });
  }

  /** Whether there is a talk. */
  get started() {
    return this.#current !== null;
  }

  /** Whether there is a microphone. */
  get hears() {
    return this.#microphone !== null;
  }

  /** Take the microphone and open a session; false when `end` came first, NoMicrophone when there is none. */
  async start(wish, mode) {
    const attempt = ++this.#attempt;
    await this.#voices.unlock();
    if (!(await this.#takeMicrophone(mode, attempt))) return false;
    this.#connect(wish);
    return true;
  }

  /** Open a session without a microphone; false when `end` came first. */
  async listen(wish) {
    const attempt = ++this.#attempt;
    await this.#voices.unlock();
    this.#format ??= await speechFormat();
    if (attempt === this.#attempt) this.#connect(wish);
    return attempt === this.#attempt;
  }

  /** Take the microphone; false when `end` came first, NoMicrophone when there is none. */
  takeMicrophone(mode) {
    return this.#takeMicrophone(mode, this.#attempt);
  }

  /** Give what the microphone hears as a track for others; null when there is no microphone. */
  track() {
    return this.#microphone?.track() ?? null;
  }

  /** Let the microphone go. */
  async dropMicrophone() {
    const [input, encoder] = [this.#input, this.#encoder];
    this.#microphone?.close();
    this.#microphone = this.#input = null;
    await input?.stop();
    encoder?.close();
  }

  /** Go on with other wishes in a new session; what was said before is still translated. */
  async change(wish, mode) {
    await this.#input?.stop();
    const before = this.#current;
    if (!before) return;
    this.#input.mode = mode;
    this.#connect(wish);
    before.use((session, nowMs) => session.close(nowMs));
    this.#arrange();
  }

  /** Talk by the button or hands-free from now on, in the same session. */
  async setMode(mode) {
    await this.#input?.stop();
    if (this.#input) this.#input.mode = mode;
    this.#arrange();
  }

  /** End the talk; what was said is still translated. */
  async end() {
    this.#attempt += 1;
    const current = this.#current;
    await this.dropMicrophone();
    if (this.#current === current) this.#current = null;
    current?.use((session, nowMs) => session.close(nowMs));
    this.#arrange();
  }

  /** Send a message of another kind, such as one about rooms, in the session that is open now. */
  send(message) {
    this.#say((session) => session.send(message));
  }

  /** The person presses the button, or lets it go. */
  press(pressed) {
    if (!pressed) return this.#input?.release();
    this.#voices.unlock(); // phones suspend sound now and then
    this.#microphone?.wake();
    return this.#input?.press();
  }

  /** Listen hands-free, or make a break. */
  pause(paused) {
    this.#paused = paused;
    this.#arrange();
  }

  /** Play the voice of a result; its place follows from `order`. */
  play(result, order) {
    return this.#voices.add(result, order);
  }

  /** Leave out the voice that is heard. */
  skip() {
    this.#voices.skip();
  }

  /** Leave out all voices. */
  hush() {
    this.#voices.clear();
  }

  /** Connect at once instead of waiting. */
  hurry() {
    for (const connection of this.#connections) connection.hurry();
  }

  /** Follow a change of `headphones`. */
  rearrange() {
    this.#arrange();
  }

  async #takeMicrophone(mode, attempt) {
    const microphone = await Microphone.open({
      onBlock: (block) => this.#input?.take(block),
      onEnded: () => this.#on.microphoneGone(),
    });
    this.#format ??= await speechFormat();
    if (attempt !== this.#attempt) {
      microphone.close();
      return false;
    }
    this.#microphone = microphone;
    this.#encoder = speechEncoder(this.#format, (frame) => this.#say((session) => session.speak(frame)));
    this.#input = new SpeechInput(this.#encoder, {
      onFinish: () => this.#say((session) => session.finish()),
      onSpeaking: (speaking, quietMs) => this.#spoke(speaking, quietMs),
      onLevel: (level) => this.#on.level(level),
    });
    this.#input.mode = mode;
    this.#paused = false;
    return true;
  }

  #connect(wish) {
    const asked = { ...wish, audio_format: this.#format, sample_rate: 16_000 };
    const connection = new Connection(new Session(asked), this.#access, (event) => {
      if (event.type === "ended") this.#connections.delete(connection);
      this.#on.event(event, connection === this.#current);
    });
    this.#connections.add(connection);
    this.#current = connection;
    connection.open();
  }

  #say(action) {
    this.#current?.use(action);
  }

  #spoke(speaking, quietMs) {
    this.#speaking = speaking;
    this.#say((session, nowMs) => {
      if (speaking) session.speechBegan();
      else session.speechEnded(nowMs - quietMs);
    });
    this.#arrange();
    this.#on.speaking(speaking);
  }

  #heard(result, audible) {
    this.#audible = audible;
    for (const connection of this.#connections) {
      connection.use((session) => {
        if (!audible) session.playbackEnded(result);
        else if (!this.headphones) session.playbackStarted(result);
      });
    }
    this.#arrange();
  }

  #arrange() {
    this.#voices.hold(this.#speaking && !this.headphones);
    this.resting = this.#audible && !this.headphones;
    this.#input?.mute(this.#paused || this.resting);
  }
}
