/** What a person chose, remembered by this browser where it may. */

const KEY = "lingua-talk";

const FIRST = {
  ui: "", // en or zh; empty: as the browser
  mine: "",
  other: "",
  mode: "press", // or free
  voice: true,
  both: false,
  headphones: false,
  size: 1, // of captions: 0 to 3
  name: "", // in rooms
  take: "voice", // how to take in what others say in rooms: voice, captions or text
};

/** Choices with a memory; read them as members, change them with `set`. */
export class Settings {
  constructor(storage = safeStorage()) {
    this.storage = storage;
    Object.assign(this, FIRST, known(storage?.getItem(KEY)));
  }

  /** Change some choices and remember all. */
  set(changes) {
    Object.assign(this, changes);
    const kept = Object.fromEntries(Object.keys(FIRST).map((name) => [name, this[name]]));
    try {
      this.storage?.setItem(KEY, JSON.stringify(kept));
    } catch {
      // a full or forbidden storage: the choice lasts as long as the page
    }
  }
}

function safeStorage() {
  try {
    return globalThis.localStorage;
  } catch {
    return null;
  }
}

/** Take from a stored text what has the right shape. */
function known(text) {
  try {
    const stored = JSON.parse(text) ?? {};
    return Object.fromEntries(
      Object.entries(FIRST)
        .filter(([name, first]) => typeof stored[name] === typeof first)
        .map(([name]) => [name, stored[name]]),
    );
  } catch {
    return {};
  }
}
