/** The admin token: for this tab only, forgotten when it closes. */

const KEY = "lingua-admin-token";

/** What the API is shown, if anything. */
export class AdminToken {
  #value = "";
  #storage;

  constructor(storage = safeStorage()) {
    this.#storage = storage;
    this.#value = storage?.getItem(KEY) ?? "";
  }

  /** Take a token from the address, where it must not stay. */
  takeFrom(location, history) {
    const said = new URLSearchParams(location.hash.slice(1)).get("token");
    if (said === null) return;
    history.replaceState(history.state, "", location.pathname + location.search);
    this.set(said);
  }

  /** The token, empty when there is none. */
  get value() {
    return this.#value;
  }

  /** Use another token from now on; an empty one forgets it. */
  set(value) {
    this.#value = value.trim();
    try {
      if (this.#value) this.#storage?.setItem(KEY, this.#value);
      else this.#storage?.removeItem(KEY);
    } catch {
      // a forbidden storage: the token lasts as long as the page
    }
  }
}

function safeStorage() {
  try {
    return globalThis.sessionStorage;
  } catch {
    return null;
  }
}
