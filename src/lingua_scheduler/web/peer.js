/**
 * The own voice of one other member, straight from browser to browser.
 *
 * One of the two makes the first offer; which one follows from their ids. When both make an offer at once, that
 * one's counts. Audio may flow both ways from the beginning, so that a microphone that comes later needs no new offer.
 */

const ICE_SERVERS = []; // none: both are in one network, or can be reached without help

/** A connection to one member. */
export class Peer {
  #connection = new RTCPeerConnection({ iceServers: ICE_SERVERS });
  #offers;
  #send;
  #track = null;
  #listening = true;
  #offering = false;
  #ignored = false; // the other's offer, so that its candidates are worth nothing
  #steps = Promise.resolve(); // one message after the other

  /**
   * `offers` tells whether this side makes the first offer; `send(type, payload)` carries a signal to the other
   * side, `onTrack(track)` gets its voice.
   */
  constructor({ offers, track, listening, send, onTrack }) {
    this.#offers = offers;
    this.#track = track;
    this.#listening = listening;
    this.#send = send;
    const connection = this.#connection;
    connection.onnegotiationneeded = () => this.#offer();
    connection.onicecandidate = ({ candidate }) => candidate && send("webrtc_ice", { candidate: candidate.toJSON() });
    connection.ontrack = ({ track: heard }) => onTrack(heard);
    connection.onconnectionstatechange = () => this.#failed() && connection.restartIce();
    if (offers) connection.addTransceiver(track ?? "audio", { direction: this.#direction });
  }

  /** new, connecting, connected, disconnected, failed or closed. */
  get state() {
    return this.#connection.connectionState;
  }

  /** How loud the other one is now, from 0 to 1. */
  get level() {
    const [receiver] = this.#connection.getReceivers();
    return Math.max(0, ...(receiver?.getSynchronizationSources() ?? []).map(({ audioLevel }) => audioLevel ?? 0));
  }

  /** What the other one hears of this side; null: nothing. */
  speak(track) {
    this.#track = track;
    const [transceiver] = this.#connection.getTransceivers();
    return transceiver?.sender.replaceTrack(track);
  }

  /** Whether this side wants to hear anything. */
  listen(listening) {
    this.#listening = listening;
    const [transceiver] = this.#connection.getTransceivers();
    if (transceiver && this.state !== "closed") transceiver.direction = this.#direction;
  }

  /** Take a signal of the other side: `{kind, sdp, candidate}`. What cannot be understood is passed over. */
  take(signal) {
    this.#steps = this.#steps.then(() => this.#take(signal)).catch(() => {});
    return this.#steps;
  }

  /** Signals may have been lost: say again what has no answer yet. */
  repeat() {
    const { signalingState, localDescription } = this.#connection;
    if (signalingState === "have-local-offer") this.#send("webrtc_offer", { sdp: localDescription });
    else if (this.#failed()) this.#connection.restartIce();
  }

  /** Hang up. */
  close() {
    this.#connection.close();
  }

  get #direction() {
    return this.#listening ? "sendrecv" : "sendonly";
  }

  #failed() {
    return this.#offers && this.state === "failed";
  }

  async #offer() {
    try {
      this.#offering = true;
      await this.#connection.setLocalDescription();
      this.#send("webrtc_offer", { sdp: this.#connection.localDescription });
    } catch {
      // an offer of the other side came first, or the connection has been closed
    } finally {
      this.#offering = false;
    }
  }

  async #take({ kind, sdp, candidate }) {
    if (kind === "webrtc_offer") return this.#answer(sdp);
    if (kind === "webrtc_answer") return this.#answered(sdp);
    return this.#ignored ? undefined : this.#connection.addIceCandidate(candidate);
  }

  async #answer(sdp) {
    const connection = this.#connection;
    const collides = this.#offering || connection.signalingState !== "stable";
    this.#ignored = collides && this.#offers;
    if (this.#ignored) return;
    await connection.setRemoteDescription(sdp);
    const [transceiver] = connection.getTransceivers();
    transceiver.direction = this.#direction;
    await transceiver.sender.replaceTrack(this.#track);
    await connection.setLocalDescription();
    this.#send("webrtc_answer", { sdp: connection.localDescription });
  }

  async #answered(sdp) {
    if (this.#connection.signalingState === "have-local-offer") await this.#connection.setRemoteDescription(sdp);
  }
}
