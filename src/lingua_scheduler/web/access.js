/**
 * What this page shows to be let in: a key or token that came behind the # of its address, or was pasted.
 *
 * It is taken out of the address at once, is kept for this tab only, and is shown to the own server only, never in
 * an address.
 */

const STORED = "lingua-access";
const ADDRESS = "/api/v1/access";
const PROTOCOL = "lingua";
const MARK = "token=";
const SHAPE = /^[\w.-]{1,2048}$/; // what keys and tokens are made of
const ANSWER_MS = 5000;

/** Part what follows the # of an address into the token, empty when there is none, and the rest of it. */
export function parted(hash) {
  const parts = hash.replace(/^#/, "").split("&");
  const token = parts.findLast((part) => part.startsWith(MARK))?.slice(MARK.length) ?? "";
  return { token, rest: parts.filter((part) => !part.startsWith(MARK)).join("&") };
}

/** The key or token of this page; `onNew()` is called when the address brings another one. */
export class Access {
  #credential = "";
  #storage;

  constructor(onNew = () => {}, storage = tabStorage()) {
    this.#storage = storage;
    this.use(storage?.getItem(STORED) ?? "");
    this.#readAddress();
    addEventListener("hashchange", () => this.#readAddress() && onNew());
  }

  /** Whether there is anything to show. */
  get known() {
    return this.#credential !== "";
  }

  /** Show this from now on; false when it can be neither a key nor a token. */
  use(text) {
    const credential = text.trim().replace(/^.*[#&]token=/, ""); // people paste the whole link, too
    if (!SHAPE.test(credential)) return false;
    this.#credential = credential;
    try {
      this.#storage?.setItem(STORED, credential);
    } catch {
      // a full or forbidden storage: it lasts as long as the page
    }
    return true;
  }

  /** Open a socket for a session at the server that served this page. */
  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const protocols = this.known ? [PROTOCOL, `bearer.${this.#credential}`] : [];
    return new WebSocket(`${scheme}//${location.host}/ws/session`, protocols);
  }

  /** Ask why no session can be opened: missing, expired or refused; null when one can, or nobody can tell now. */
  async refusal() {
    try {
      const headers = this.known ? { Authorization: `Bearer ${this.#credential}` } : {};
      const signal = AbortSignal.timeout(ANSWER_MS);
      const answer = await fetch(ADDRESS, { headers, signal, cache: "no-store" });
      return answer.ok ? ((await answer.json()).why ?? null) : null;
    } catch {
      return null;
    }
  }

  #readAddress() {
    const { token, rest } = parted(location.hash);
    if (!token) return false;
    history.replaceState(history.state, "", location.pathname + location.search + (rest && `#${rest}`));
    return this.use(token);
  }
}

function tabStorage() {
  try {
    return globalThis.sessionStorage;
  } catch {
    return null;
  }
}
