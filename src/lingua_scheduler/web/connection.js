/** Holds the socket of a session: moves its messages, and calls it when time has passed. */

const ABNORMAL = 1006;
const UNAUTHORISED = 4500;

/** One session over one socket at a time; news go to `onEvent`. */
export class Connection {
  #session;
  #access;
  #onEvent;
  #socket = null;
  #timer = null;
  #wentOnline = () => this.hurry();

  constructor(session, access, onEvent) {
    this.#session = session;
    this.#access = access;
    this.#onEvent = onEvent;
  }

  /** Begin to connect. */
  open() {
    addEventListener("online", this.#wentOnline);
    this.#do((nowMs) => this.#session.start(nowMs));
  }

  /** Let the session do something that may have to be sent. */
  use(action) {
    this.#do((nowMs) => action(this.#session, nowMs) ?? []);
  }

  /** Try to connect at once if a pause is being made. */
  hurry() {
    this.#do((nowMs) => this.#session.hurry(nowMs));
  }

  #do(step) {
    const news = [];
    for (const event of step(performance.now())) {
      if (event.type === "connect") this.#connect();
      else if (event.type === "disconnect") this.#drop(event.code);
      else news.push(event);
    }
    this.#send();
    this.#arm();
    if (this.#session.state === "ended") removeEventListener("online", this.#wentOnline);
    for (const event of news) this.#onEvent(event);
  }

  #connect() {
    const socket = this.#access.open();
    let opened = false;
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    const current = (step) => (event) => {
      if (this.#socket === socket) this.#do((nowMs) => step(nowMs, event));
    };
    socket.onopen = current((nowMs) => {
      opened = true;
      return this.#session.connected(nowMs);
    });
    socket.onmessage = current((nowMs, { data }) => (typeof data === "string" ? this.#session.heard(data, nowMs) : []));
    socket.onclose = current((nowMs, { code }) => {
      this.#socket = null;
      if (!opened) this.#askWhy();
      return this.#session.lost(code || ABNORMAL, nowMs);
    });
  }

  /** A browser does not tell why a socket could not be opened; do not try again when nobody is let in with this. */
  async #askWhy() {
    const why = await this.#access.refusal();
    if (!why || !["waiting", "connecting"].includes(this.#session.state)) return;
    this.#drop(UNAUTHORISED);
    this.#do((nowMs) => this.#session.lost(UNAUTHORISED, nowMs).map((event) => ({ ...event, why })));
  }

  /** Let a socket go; whatever it still says is not heard any more. */
  #drop(code) {
    this.#socket?.close(code === 1000 ? 1000 : 4000);
    this.#socket = null;
  }

  #send() {
    const socket = this.#socket;
    if (socket?.readyState !== WebSocket.OPEN) return;
    for (const message of this.#session.outgoing(performance.now())) socket.send(message);
  }

  #arm() {
    clearTimeout(this.#timer);
    const inMs = this.#session.wakeAtMs - performance.now();
    if (inMs === Infinity) return;
    this.#timer = setTimeout(() => this.#do((nowMs) => this.#session.tick(nowMs)), Math.max(0, inMs));
  }
}
