/** The room page: puts the parts together and shows what they say. */

import { AccessForm } from "./access-form.js";
import { MemberList } from "./member-list.js";
import { Notices } from "./notices.js";
import { RoomCaptions } from "./room-captions.js";
import { RoomLobby } from "./room-lobby.js";
import { codeIn, linkTo } from "./room-membership.js";
import { RoomTalk } from "./room-talk.js";
import { copy, enter, renderRoom } from "./room-view.js";
import { SessionNotices } from "./session-notices.js";
import { Settings } from "./settings.js";
import { UI_TAGS, fill, hasSentence, missingKey, preferredUi, sentence } from "./strings.js";
import { TalkButton } from "./talk-button.js";
import { $, measure, resized, showLevel } from "./talk-view.js";
import { TranscriptMenu } from "./transcript.js";
import { keepAwake } from "./wake-lock.js";
import { roomWish } from "./wish.js";

const SHORT_MS = 5000;
const MANY_GUESSES = 3;

class RoomPage {
  #settings = new Settings();
  #say = (key, values) => sentence(this.#ui, key, values);
  #notices = new Notices($("notice"), this.#say);
  #door = new AccessForm($("access"), this.#say, () => this.#render());
  #session = new SessionNotices(this.#notices, {
    hurry: () => this.#talk.hurry(),
    noNode: () => this.#notices.show("node", { level: "warning", key: "noNodeRoom" }),
    locked: (why) => this.#door.show(why),
  });
  #transcript = new TranscriptMenu($("transcript"), this.#notices);
  #talk = new RoomTalk(this.#door.access, {
    event: (event) => this.#event(event),
    speaking: (speaking) => this.#captions.speaking(speaking, this.#talk.room.sessionId),
    changed: () => this.#render(),
    level: showLevel,
    unplayable: () => this.#notices.show("voice", { key: "voiceUnplayable" }),
    microphone: (reason) => this.#microphone(reason),
  });
  #captions = new RoomCaptions($("lines"), $("announcer"), {
    say: this.#say,
    nameOf: (id, said) => this.#name({ ...this.#talk.room.person(id), said }),
    langOf: (id) => this.#talk.room.person(id).lang ?? "",
  });
  #members = new MemberList($("members"), {
    say: this.#say,
    nameOf: (member) => this.#name(member),
    onMute: (id, muted) => this.#talk.mute(id, muted),
  });
  #button = new TalkButton($("talk"), {
    onPress: () => this.#talk.press(true),
    onRelease: () => this.#talk.press(false),
    onClick: () => (this.#talk.hears ? this.#talk.pause(!this.#talk.paused) : this.#talk.takeMicrophone()),
  });
  #lobby = new RoomLobby(this.#settings, {
    onEnter: (code) => this.#enter(code),
    onTake: (take) => {
      if (this.#talk.phase !== "lobby") this.#talk.follow(take);
      this.#render();
    },
    onServed: (served) => this.#served(served),
  });
  #ack = null; // how the session was opened
  #wrongCodes = 0;

  begin() {
    this.#wire();
    this.#relabel();
    this.#invited();
    this.#door.look();
    this.#lobby.look();
  }

  get #ui() {
    return this.#settings?.ui || preferredUi(navigator.languages ?? []);
  }

  #name({ name, guest, me, said }) {
    if (me) return this.#say("you");
    return name || said || this.#say("guest", { number: guest || "" }).trim();
  }

  // What the person chooses

  #wire() {
    $("ui").addEventListener("click", () => {
      this.#settings.set({ ui: this.#ui === "en" ? "zh" : "en" });
      this.#relabel();
    });
    $("smaller").addEventListener("click", () => this.#resize(-1));
    $("larger").addEventListener("click", () => this.#resize(1));
    $("mode-press").addEventListener("click", () => this.#choose({ mode: "press" }));
    $("mode-free").addEventListener("click", () => this.#choose({ mode: "free" }));
    $("headphones").addEventListener("click", () => this.#choose({ headphones: !this.#settings.headphones }));
    $("copy").addEventListener("click", () => this.#copy());
    $("skip").addEventListener("click", () => this.#talk.skip());
    $("leave").addEventListener("click", () => this.#leave());
    addEventListener("keydown", (event) => event.key === "Escape" && this.#talk.skip());
    addEventListener("hashchange", () => this.#talk.phase === "lobby" && this.#invited());
    addEventListener("pagehide", () => this.#leave());
  }

  #choose(changes) {
    this.#settings.set(changes);
    this.#button.letGo();
    this.#talk.talkBy(this.#settings.mode, this.#settings.headphones);
  }

  #resize(by) {
    this.#settings.set({ size: resized(this.#settings.size, by) });
    this.#render();
  }

  #relabel() {
    fill(document, this.#ui);
    this.#lobby.relabel(UI_TAGS[this.#ui]);
    this.#door.render();
    this.#notices.render();
    this.#render();
  }

  #invited() {
    this.#lobby.fill(codeIn(location.pathname + location.hash));
  }

  #served(served) {
    this.#notices.clear("served");
    const key = served === null ? "serverGone" : served.spoken.length ? null : "noLanguages";
    if (key && this.#talk.phase === "lobby") this.#notices.show("served", { level: "warning", key });
    this.#render();
  }

  async #copy() {
    const link = linkTo(this.#talk.room.code, location.origin);
    const copied = await copy(link);
    const lastsMs = copied ? SHORT_MS : 6 * SHORT_MS;
    this.#notices.show("copy", { key: copied ? "copied" : "copyFailed", values: { link }, lastsMs });
  }

  // In and out

  #enter(code) {
    if (this.#talk.phase !== "lobby") return;
    const { name, mine, take, mode, headphones } = this.#settings;
    this.#captions.lang = mine;
    this.#notices.clear("microphone", "ended", "served", "room");
    const wish = roomWish({ mine, other: this.#lobby.fallback }, { hintLang: this.#ui });
    this.#talk.talkBy(mode, headphones);
    this.#talk.enter({ name, lang: mine, mode: take }, code, wish);
    this.#render();
  }

  #entered({ code, first }) {
    history.replaceState(null, "", `/room#${code}`);
    this.#lobby.fill(code);
    this.#transcript.offer(`room/${code}`, this.#ack, this.#captions.lang);
    this.#wrongCodes = 0;
    this.#render();
    if (!first) return;
    keepAwake(true);
    enter(true);
    this.#talk.takeMicrophone();
  }

  #leave(notice = null) {
    const { phase } = this.#talk;
    if (phase === "lobby") return;
    this.#button.letGo();
    this.#talk.leave();
    keepAwake(false);
    this.#session.left();
    if (notice) this.#notices.show("room", { level: "warning", ...notice });
    this.#notices.clear("microphone");
    this.#render();
    if (phase === "inside") enter(false);
  }

  #microphone(reason) {
    this.#notices.clear("microphone");
    if (!reason || this.#talk.phase !== "inside") return;
    const action = { key: "retry", run: () => this.#talk.takeMicrophone() };
    this.#notices.show("microphone", { level: "warning", key: `mic_${reason}`, action });
  }

  // What happens

  #event(event) {
    switch (event.type) {
      case "opened":
        return this.#opened(event);
      case "reconnecting":
        this.#session.away(event);
        return this.#render();
      case "ended":
        return event.reason === "refused" ? this.#refused(event) : undefined;
      case "roundTrip":
        return measure("round-trip", this.#say("ms", { value: Math.max(1, Math.round(event.ms)) }));
      case "lagging":
        return this.#session.lagging();
      case "speechLost":
        return this.#session.speechLost();
      case "trouble":
        return this.#trouble(event);
      case "entered":
        return this.#entered(event);
      case "members":
        return this.#gathered(event);
      case "expired":
        return this.#leave({ key: "roomExpired" });
      case "shut":
        return this.#shut(event);
      default:
        return this.#said(event);
    }
  }

  #opened(event) {
    const { before, sessionId } = event;
    this.#session.opened(event, "startedAnewRoom");
    this.#ack = event;
    if (before !== null && before !== sessionId) this.#captions.lost(before, this.#say("lostLine"));
    this.#render();
  }

  #refused(event) {
    const { code } = this.#talk.room;
    this.#leave();
    this.#talk.link = "ended";
    this.#session.refused(event, () => this.#enter(code));
    this.#render();
  }

  #gathered({ came, left }) {
    for (const member of came) this.#captions.tell(this.#say("joined", { name: this.#name(member) }));
    for (const member of left) this.#captions.tell(this.#say("left", { name: this.#name(member) }));
    this.#render();
  }

  #trouble(event) {
    const noRooms = this.#talk.phase === "entering" && event.code === "UNSUPPORTED_FEATURE";
    return noRooms ? this.#shut(event) : this.#session.trouble(event);
  }

  /** The room did not let the person in, or did not do what it asked for. */
  #shut({ code, inside }) {
    if (inside) return code === "PEER_UNAVAILABLE" ? undefined : this.#session.trouble({ code });
    if (this.#talk.phase === "inside") return this.#leave({ key: "roomGone" });
    const wrong = code === "ROOM_NOT_FOUND";
    this.#wrongCodes += wrong ? 1 : 0;
    const often = wrong && this.#wrongCodes > MANY_GUESSES;
    const key = often ? "room_tooManyGuesses" : hasSentence(`room_${code}`) ? `room_${code}` : "room_other";
    return this.#leave({ key, values: { code: key === "room_other" ? code : this.#talk.room.code } });
  }

  // What is said

  #said(event) {
    const own = this.#talk.room.person(event.speaker).me;
    switch (event.type) {
      case "partial":
        return this.#captions.partial(event, own);
      case "stage":
        return this.#stage(event);
      case "result":
        this.#captions.result(event, own);
        if (!own) this.#talk.play(event, this.#captions.order(event));
        return this.#render();
      case "missing":
        return this.#missing(event, own);
    }
  }

  #stage({ stage, code, hint, ...about }) {
    if (stage === "DISPATCHED") {
      this.#session.served();
      this.#captions.waiting(about);
    }
    if (stage === "NMT_DONE") this.#captions.done(about);
    if (code) this.#session.trouble({ code, hint });
  }

  #missing(about, own) {
    const key = missingKey(about.reason);
    return key ? this.#captions.missing(about, this.#say(key), own) : this.#captions.remove(about);
  }

  #render() {
    const { phase, mode, hears, room, speakers, voices } = this.#talk;
    this.#button.talking = this.#button.spaceBar = phase === "inside" && hears && mode !== "free";
    renderRoom(this.#talk, this.#settings, this.#say);
    $("lobby").hidden ||= this.#door.shown;
    this.#members.show(room.members, { uiLang: UI_TAGS[this.#ui], audible: this.#settings.take === "voice" });
    this.#members.mark(speakers, voices.speaker);
  }
}

new RoomPage().begin();
