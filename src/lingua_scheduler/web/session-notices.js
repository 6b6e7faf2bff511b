/** What people must know about their session: that the connection is away or back, and what goes wrong. */

const SHORT_MS = 5000;

const UNAUTHORISED = 4500;
const FORBIDDEN = 4503;

/**
 * Shows the news of a session as notices.
 *
 * `hurry` connects at once, `noNode(retryAfterMs)` is for the page to word, `locked(why)` is called when a key or token
 * does not count, or not any more.
 */
export class SessionNotices {
  #notices;
  #on;
  #wasAway = false;

  constructor(notices, { hurry, noNode, locked }) {
    this.#notices = notices;
    this.#on = { hurry, noNode, locked };
  }

  /** The session is open, for the first time or again. */
  opened({ resumed, warning, retryAfterMs }, anew = "startedAnew") {
    this.#notices.clear("link", "redis");
    if (this.#wasAway) {
      const key = resumed ? "resumed" : anew;
      this.#notices.show("back", { level: resumed ? "info" : "warning", key, lastsMs: 2 * SHORT_MS });
    }
    this.#wasAway = false;
    if (warning && retryAfterMs) this.#on.noNode(retryAfterMs);
  }

  /** The connection is away. */
  away({ waitMs }) {
    this.#wasAway = true;
    const action = waitMs > 1000 ? { key: "retryNow", run: this.#on.hurry } : null;
    this.#notices.show("link", { level: "warning", key: "reconnecting", action });
  }

  /** The server ended the session and does not want it back. */
  refused({ code, why = "revoked" }, retry) {
    if (code === UNAUTHORISED) return this.#on.locked(why);
    const key = code === FORBIDDEN ? "forbidden" : "refused";
    const action = { key: "retry", run: retry };
    this.#notices.show("ended", { level: "error", key, values: { code }, action });
  }

  /** The person has ended the session. */
  left() {
    this.#wasAway = false;
    this.#notices.clear("link", "back", "node", "redis", "pace");
  }

  /** An utterance has come to a node. */
  served() {
    this.#notices.clear("node", "redis");
  }

  /** Something that the server complains about. */
  trouble({ code, hint, retryAfterMs }) {
    if (code === "NO_AVAILABLE_NODE") return this.#on.noNode(retryAfterMs ?? SHORT_MS);
    if (code === "SCHEDULER_DEPENDENCY_DOWN") {
      return this.#notices.show("redis", { level: "warning", key: "redisDown", lastsMs: 6 * SHORT_MS });
    }
    const notice = { level: "warning", values: { code }, lastsMs: 2 * SHORT_MS };
    if (code === "RATE_LIMITED") return this.#notices.show("pace", { ...notice, key: "rateLimited" });
    return this.#notices.show("trouble", { ...notice, key: "trouble", text: hint });
  }

  /** The server asks for a pause. */
  lagging() {
    this.#notices.show("pace", { level: "warning", key: "lagging", lastsMs: SHORT_MS });
  }

  /** The connection was away for so long that speech was lost. */
  speechLost() {
    this.#notices.show("pace", { level: "warning", key: "speechLost", lastsMs: 2 * SHORT_MS });
  }
}
