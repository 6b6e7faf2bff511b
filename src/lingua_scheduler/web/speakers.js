/** Who speaks now, as far as it can be known: by their own voice, or by what has just been understood of them. */

const LASTS_MS = 1500;

/** Gathers signs of speech and tells when the picture changes. */
export class Speakers {
  #onChange;
  #heard = new Set(); // own voices
  #understood = new Map(); // id: timer
  #me = "";

  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** Everybody who speaks now. */
  get now() {
    return new Set([...this.#heard, ...this.#understood.keys(), ...(this.#me ? [this.#me] : [])]);
  }

  /** These own voices are heard now. */
  heard(ids) {
    this.#heard = new Set(ids);
    this.#onChange();
  }

  /** Something that somebody is just saying was understood. */
  understood(id) {
    clearTimeout(this.#understood.get(id));
    this.#understood.set(id, setTimeout(() => this.ended(id), LASTS_MS));
    this.#onChange();
  }

  /** What somebody said is complete. */
  ended(id) {
    clearTimeout(this.#understood.get(id));
    if (this.#understood.delete(id)) this.#onChange();
  }

  /** The person itself speaks; an empty id: not any more. */
  me(id) {
    this.#me = id;
    this.#onChange();
  }

  /** Forget everybody. */
  clear() {
    for (const timer of this.#understood.values()) clearTimeout(timer);
    this.#understood.clear();
    this.#heard.clear();
    this.#me = "";
    this.#onChange();
  }
}
