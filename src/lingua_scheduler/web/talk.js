/** The talk page: puts the parts together and shows what they say. */

import { AccessForm } from "./access-form.js";
import { NoMicrophone } from "./audio-in.js";
import { Captions } from "./captions.js";
import { Conversation } from "./conversation.js";
import { LanguageChoice } from "./language-choice.js";
import { nameIn } from "./languages.js";
import { Notices } from "./notices.js";
import { SessionNotices } from "./session-notices.js";
import { Settings } from "./settings.js";
import { UI_TAGS, fill, missingKey, preferredUi, sentence } from "./strings.js";
import { TalkButton } from "./talk-button.js";
import { $, enable, measure, render, resized, showLevel } from "./talk-view.js";
import { TranscriptMenu } from "./transcript.js";
import { keepAwake } from "./wake-lock.js";
import { sessionWish } from "./wish.js";

class TalkPage {
  #settings = new Settings();
  #say = (key, values) => sentence(this.#ui, key, values);
  #notices = new Notices($("notice"), this.#say);
  #door = new AccessForm($("access"), this.#say, () => this.#render());
  #session = new SessionNotices(this.#notices, {
    hurry: () => this.#talk.hurry(),
    noNode: (retryAfterMs) => this.#noNode(retryAfterMs),
    locked: (why) => this.#door.show(why),
  });
  #transcript = new TranscriptMenu($("transcript"), this.#notices);
  #captions = new Captions($("lines"), $("announcer"), this.#say);
  #talk = new Conversation(this.#door.access, {
    event: (event, current) => this.#event(event, current),
    speaking: (speaking) => this.#speaking(speaking),
    level: showLevel,
    voices: (waiting, result) => this.#voices(waiting, result),
    unplayable: () => this.#notices.show("voice", { key: "voiceUnplayable" }),
    microphoneGone: () => this.#stop("mic_gone"),
  });
  #button = new TalkButton($("talk"), {
    onPress: () => this.#talk.press(true),
    onRelease: () => this.#talk.press(false),
    onClick: () => this.#click(),
  });
  #choice = new LanguageChoice({ mine: $("mine"), other: $("other"), swap: $("swap") }, this.#settings, {
    onChange: () => this.#changed(),
    onServed: (served) => this.#served(served),
  });
  #phase = "idle"; // idle, starting or on
  #link = "idle"; // what the connection does
  #isSpeaking = false;
  #paused = false;

  begin() {
    this.#wire();
    this.#relabel();
    this.#door.look();
    this.#choice.look();
  }

  get #ui() {
    return this.#settings?.ui || preferredUi(navigator.languages ?? []);
  }

  // What the person chooses

  #wire() {
    $("ui").addEventListener("click", () => {
      this.#settings.set({ ui: this.#ui === "en" ? "zh" : "en" });
      this.#relabel();
    });
    $("smaller").addEventListener("click", () => this.#resize(-1));
    $("larger").addEventListener("click", () => this.#resize(1));
    $("mode-press").addEventListener("click", () => this.#choose({ mode: "press" }, true));
    $("mode-free").addEventListener("click", () => this.#choose({ mode: "free" }, true));
    $("both").addEventListener("click", () => this.#choose({ both: !this.#settings.both }, true));
    $("voice").addEventListener("click", () => this.#choose({ voice: !this.#settings.voice }, true));
    $("headphones").addEventListener("click", () => this.#choose({ headphones: !this.#settings.headphones }, false));
    $("skip").addEventListener("click", () => this.#talk.skip());
    $("end").addEventListener("click", () => this.#stop());
    addEventListener("keydown", (event) => event.key === "Escape" && this.#talk.skip());
    addEventListener("pagehide", () => this.#stop());
  }

  #choose(changes, newSession) {
    this.#settings.set(changes);
    if (!this.#settings.voice) this.#talk.hush();
    this.#talk.headphones = this.#settings.headphones;
    this.#talk.rearrange();
    if (newSession) this.#changed();
    this.#render();
  }

  #resize(by) {
    this.#settings.set({ size: resized(this.#settings.size, by) });
    this.#render();
  }

  #relabel() {
    fill(document, this.#ui);
    this.#choice.relabel(UI_TAGS[this.#ui]);
    this.#captions.relabel();
    this.#door.render();
    this.#notices.render();
    this.#render();
  }

  #changed() {
    this.#paused = false;
    this.#talk.pause(false);
    this.#button.letGo();
    if (this.#phase === "on") this.#talk.change(this.#wish(), this.#settings.mode);
    this.#captions.setLanguages(this.#settings.mine, this.#settings.other);
    this.#notices.clear("node");
    this.#render();
  }

  #served(served) {
    this.#notices.clear("served");
    const key = served === null ? "serverGone" : served.spoken.length ? null : "noLanguages";
    if (key && this.#phase === "idle") this.#notices.show("served", { level: "warning", key });
    if (served?.has(this.#settings.mine, this.#settings.other)) this.#notices.clear("node");
    this.#captions.setLanguages(this.#settings.mine, this.#settings.other);
    this.#render();
  }

  // Talking

  #wish() {
    const { mine, other } = this.#settings;
    const voiced = this.#choice.served?.voiced(mine, other) !== false;
    const both = this.#settings.both && this.#choice.twoWay;
    return sessionWish({ ...this.#settings, both }, { hintLang: this.#ui, voiced });
  }

  #click() {
    if (this.#phase === "idle") {
      this.#start();
    } else if (this.#phase === "on" && this.#settings.mode === "free") {
      this.#paused = !this.#paused;
      this.#talk.pause(this.#paused);
      this.#render();
    }
  }

  async #start() {
    this.#phase = "starting";
    this.#paused = false;
    this.#notices.clear("microphone", "ended", "served");
    this.#captions.setLanguages(this.#settings.mine, this.#settings.other);
    this.#talk.headphones = this.#settings.headphones;
    this.#render();
    try {
      if (!(await this.#talk.start(this.#wish(), this.#settings.mode))) return;
      this.#phase = "on";
      if (this.#link === "idle") this.#link = "connecting";
      keepAwake(true);
    } catch (error) {
      const reason = error instanceof NoMicrophone ? error.reason : "failed";
      if (this.#phase === "starting") this.#stop(`mic_${reason}`);
    }
    this.#render();
  }

  #stop(complaint = null) {
    if (this.#phase === "idle") return;
    this.#phase = "idle";
    this.#link = "idle";
    this.#button.letGo();
    this.#talk.end();
    keepAwake(false);
    this.#session.left();
    if (complaint) {
      const action = { key: "retry", run: () => this.#start() };
      this.#notices.show("microphone", { level: "error", key: complaint, action });
    }
    this.#render();
  }

  #speaking(speaking) {
    this.#isSpeaking = speaking;
    this.#captions.speaking(speaking);
    this.#render();
  }

  #voices(waiting, result) {
    enable("skip", result !== null || waiting > 0);
    this.#render();
  }

  // What the server says

  #event(event, current) {
    switch (event.type) {
      case "opened":
        return this.#opened(event);
      case "reconnecting":
        return current ? this.#away(event) : undefined;
      case "ended":
        return current && event.reason === "refused" ? this.#refused(event) : undefined;
      case "roundTrip":
        return measure("round-trip", this.#say("ms", { value: Math.max(1, Math.round(event.ms)) }));
      case "partial":
        return this.#captions.partial(event);
      case "stage":
        return this.#stage(event);
      case "result":
        return this.#result(event);
      case "missing":
        return this.#missing(event);
      case "trouble":
        return this.#session.trouble(event);
      case "lagging":
        return this.#session.lagging();
      case "speechLost":
        return this.#session.speechLost();
    }
  }

  #opened(event) {
    const { before, sessionId } = event;
    this.#link = "open";
    this.#session.opened(event);
    this.#transcript.offer("session", event);
    if (before !== null && before !== sessionId) this.#captions.lost(before, this.#say("lostLine"));
    this.#render();
  }

  #away(event) {
    this.#link = "waiting";
    this.#session.away(event);
    this.#render();
  }

  #refused(event) {
    this.#stop();
    this.#link = "ended";
    this.#session.refused(event, () => this.#start());
    this.#render();
  }

  #stage({ stage, code, hint, ...about }) {
    if (stage === "DISPATCHED") {
      this.#session.served();
      this.#captions.waiting(about);
    }
    if (code) this.#session.trouble({ code, hint });
  }

  #result(result) {
    this.#captions.result(result);
    if (result.latencyMs !== undefined) {
      measure("latency", this.#say("seconds", { value: (result.latencyMs / 1000).toFixed(1) }));
    }
    if (this.#settings.voice && result.voice.length) this.#talk.play(result, this.#captions.order(result));
    this.#render();
  }

  #missing(about) {
    const key = missingKey(about.reason);
    return key ? this.#captions.missing(about, this.#say(key)) : this.#captions.remove(about);
  }

  #noNode(retryAfterMs) {
    const [mine, other] = [this.#settings.mine, this.#settings.other].map((lang) => nameIn(lang, UI_TAGS[this.#ui]));
    const values = { mine, other, seconds: Math.ceil(retryAfterMs / 1000) };
    this.#notices.show("node", { level: "warning", key: "noNode", values });
    setTimeout(() => this.#choice.look(), retryAfterMs);
  }

  #render() {
    const free = this.#settings.mode === "free";
    const on = this.#phase === "on";
    this.#button.talking = this.#button.spaceBar = on && !free;
    render({
      settings: this.#settings,
      phase: this.#phase,
      link: this.#link,
      live: on && (free ? !this.#paused && !this.#talk.resting : this.#isSpeaking),
      paused: this.#paused,
      resting: this.#talk.resting,
      served: Boolean(this.#choice.served?.spoken.length) && !this.#door.shown,
      twoWay: this.#choice.twoWay,
      say: this.#say,
    });
  }
}

new TalkPage().begin();
