/** The own voices of the others in a room: who is connected, who is muted, and how loud they are beside a translation. */

import { Peer } from "./peer.js";

const DUCKED = 0.15; // of a voice's loudness while a translation is heard
const FADE_S = 0.08;
const LOOK_MS = 200;
const AUDIBLE = 0.01;

/** Connects to every other member; `send(id, type, payload)` carries signals, `onSpeaking(ids)` tells who is heard. */
export class RawVoices {
  #send;
  #onSpeaking;
  #context = null;
  #voices = new Map(); // member's id: {peer, gain, element, muted}
  #track = null;
  #listening = false;
  #ducked = false;
  #timer = null;
  #speaking = "";

  constructor({ send, onSpeaking }) {
    this.#send = send;
    this.#onSpeaking = onSpeaking;
  }

  /** Make sound possible; to be called while a person presses something. */
  unlock() {
    this.#context ??= new AudioContext();
    return this.#context.resume();
  }

  /** Let the others hear this track; null: nothing. It is on only while `open`. */
  use(track) {
    this.#track?.stop();
    this.#track = track;
    if (track) track.enabled = false;
    for (const { peer } of this.#voices.values()) peer.speak(track);
  }

  /** Let the others hear, or not. */
  open(open) {
    if (this.#track) this.#track.enabled = open;
  }

  /** Whether this person wants to hear anything at all. */
  listen(listening) {
    if (this.#listening === listening) return;
    this.#listening = listening;
    for (const { peer } of this.#voices.values()) peer.listen(listening);
    this.#mix();
  }

  /** Lower all voices while a translation is heard. */
  duck(ducked) {
    if (this.#ducked === ducked) return;
    this.#ducked = ducked;
    this.#mix();
  }

  /** Follow who is in the room: `{id, muted, me}` of everybody. */
  gather(members) {
    if (!globalThis.RTCPeerConnection) return;
    const me = members.find((member) => member.me)?.id ?? "";
    const others = new Map(members.filter((member) => !member.me).map((member) => [member.id, member]));
    for (const id of this.#voices.keys()) if (!others.has(id)) this.#hangUp(id);
    for (const { id, muted } of others.values()) {
      if (this.#voices.has(id)) this.#voices.get(id).peer.repeat();
      else this.#meet(id, me < id);
      this.#voices.get(id).muted = muted;
    }
    this.#mix();
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS);
  }

  /** Take a signal of another member. */
  take({ from, ...signal }) {
    return this.#voices.get(from)?.peer.take(signal);
  }

  /** Signals may have been lost on their way. */
  repeat() {
    for (const { peer } of this.#voices.values()) peer.repeat();
  }

  /** Whether somebody's own voice can be heard. */
  connected(id) {
    return this.#voices.get(id)?.peer.state === "connected";
  }

  /** Hang up on everybody. */
  close() {
    for (const id of [...this.#voices.keys()]) this.#hangUp(id);
    clearInterval(this.#timer);
    this.#timer = null;
    this.#look();
  }

  #meet(id, offers) {
    const send = (type, payload) => this.#send(id, type, payload);
    const voice = { peer: null, gain: null, element: null, muted: false };
    const onTrack = (track) => this.#hear(voice, track);
    voice.peer = new Peer({ offers, track: this.#track, listening: this.#listening, send, onTrack });
    this.#voices.set(id, voice);
  }

  #hear(voice, track) {
    if (!this.#context) return;
    const stream = new MediaStream([track]);
    voice.element = new Audio(); // some browsers let a voice flow only into an element
    voice.element.muted = true;
    voice.element.srcObject = stream;
    voice.element.play().catch(() => {});
    voice.gain?.disconnect();
    voice.gain = new GainNode(this.#context, { gain: 0 });
    this.#context.createMediaStreamSource(stream).connect(voice.gain).connect(this.#context.destination);
    this.#mix();
  }

  #hangUp(id) {
    const { peer, gain, element } = this.#voices.get(id);
    peer.close();
    gain?.disconnect();
    if (element) element.srcObject = null;
    this.#voices.delete(id);
  }

  #mix() {
    for (const { gain, muted } of this.#voices.values()) {
      const loudness = muted || !this.#listening ? 0 : this.#ducked ? DUCKED : 1;
      gain?.gain.setTargetAtTime(loudness, this.#context.currentTime, FADE_S / 3);
    }
  }

  #look() {
    const speaking = [...this.#voices].filter(([, { peer }]) => peer.level > AUDIBLE).map(([id]) => id);
    if (speaking.join() === this.#speaking) return;
    this.#speaking = speaking.join();
    this.#onSpeaking(speaking);
  }
}
