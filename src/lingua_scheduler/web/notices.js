/** Sentences that a person must know, one at a time, the gravest first. */

const GRAVITY = ["info", "warning", "error"];

/** Shows notices in one place; each has an id, so that it can be taken back. */
export class Notices {
  #box;
  #text;
  #button;
  #say;
  #held = new Map(); // id: {level, key, values, action}, the newest last
  #timers = new Map();

  constructor(box, say) {
    this.#box = box;
    this.#say = say;
    this.#text = box.querySelector("[data-part=text]");
    this.#button = box.querySelector("[data-part=action]");
    this.#button.addEventListener("click", () => this.#top()?.[1].action?.run());
    box.querySelector("[data-part=dismiss]").addEventListener("click", () => this.clear(this.#top()?.[0]));
  }

  /** Show a sentence by its key; `lastsMs` takes it back by itself. */
  show(id, { level = "info", key, values = {}, text = null, action = null, lastsMs = null }) {
    this.clear(id);
    this.#held.set(id, { level, key, values, text, action });
    if (lastsMs) this.#timers.set(id, setTimeout(() => this.clear(id), lastsMs));
    this.render();
  }

  /** Take a sentence back. */
  clear(...ids) {
    for (const id of ids) {
      clearTimeout(this.#timers.get(id));
      this.#held.delete(id);
    }
    this.render();
  }

  /** Show what is to be shown, in the page's language. */
  render() {
    const notice = this.#top()?.[1];
    this.#box.hidden = !notice;
    if (!notice) return;
    const { level, key, values, text, action } = notice;
    const sentence = text ?? this.#say(key, values);
    this.#box.dataset.level = level;
    this.#box.setAttribute("role", level === "info" ? "status" : "alert");
    if (this.#text.textContent !== sentence) this.#text.textContent = sentence;
    this.#button.hidden = !action;
    if (action) this.#button.textContent = this.#say(action.key);
  }

  #top() {
    const newestFirst = [...this.#held].reverse();
    return newestFirst.sort(([, one], [, other]) => GRAVITY.indexOf(other.level) - GRAVITY.indexOf(one.level))[0];
  }
}
