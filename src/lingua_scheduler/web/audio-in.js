/** The microphone: blocks of speech at 16 kHz, or a reason why there are none. */

const WISHES = {
  channelCount: 1,
  echoCancellation: true,
  noiseSuppression: true,
  autoGainControl: true,
};
const REASONS = {
  NotAllowedError: "refused",
  SecurityError: "refused",
  NotFoundError: "absent",
  OverconstrainedError: "absent",
  NotReadableError: "busy",
  AbortError: "busy",
};

/** Why there is no microphone: refused, absent, busy, insecure, unsupported or failed. */
export class NoMicrophone extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

/** An open microphone. */
export class Microphone {
  #stream;
  #context;

  /** Ask for the microphone; `onBlock` gets 320 samples every 20 ms, `onEnded` is called when it is taken away. */
  static async open({ onBlock, onEnded }) {
    if (!globalThis.isSecureContext) throw new NoMicrophone("insecure");
    if (!navigator.mediaDevices?.getUserMedia || !globalThis.AudioWorkletNode) throw new NoMicrophone("unsupported");
    const microphone = new Microphone();
    try {
      microphone.#stream = await navigator.mediaDevices.getUserMedia({ audio: WISHES });
      await microphone.#listen(onBlock);
    } catch (error) {
      microphone.close();
      throw new NoMicrophone(REASONS[error.name] ?? "failed");
    }
    for (const track of microphone.#stream.getAudioTracks()) track.onended = onEnded;
    return microphone;
  }

  async #listen(onBlock) {
    this.#context = new AudioContext();
    await this.#context.audioWorklet.addModule(new URL("./capture-worklet.js", import.meta.url).href);
    const source = this.#context.createMediaStreamSource(this.#stream);
    const capture = new AudioWorkletNode(this.#context, "capture");
    capture.port.onmessage = ({ data }) => onBlock(data);
    source.connect(capture).connect(this.#context.destination); // its output is silence, but it must lead somewhere
    await this.#context.resume();
  }

  /** What is heard, for others to hear it as it is; a copy that is switched on and off by itself. */
  track() {
    return this.#stream.getAudioTracks()[0].clone();
  }

  /** Listen again after the browser has suspended it. */
  wake() {
    if (this.#context?.state !== "running") this.#context?.resume();
  }

  /** Let the microphone go. */
  close() {
    for (const track of this.#stream?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
    this.#context?.close();
    this.#stream = this.#context = null;
  }
}
