/** A list of captions whose newest line stays in sight, and that screen readers hear. Texts are only ever put in as text. */

const MOST_ANNOUNCED = 6;
const NEAR_END_PX = 60;
const RIGHT_TO_LEFT = /^(ar|dv|fa|he|ku|ps|sd|ug|ur|yi)\b/;

/** Show text of a language in an element; a `note` is no caption but says how it stands. */
export function write(element, text, lang = "", note = null) {
  element.textContent = text;
  if (note) element.dataset.note = note;
  else delete element.dataset.note;
  element.lang = lang;
  element.dir = RIGHT_TO_LEFT.test(lang) ? "rtl" : "ltr";
}

/** Follows the end of a list until the person goes back to read, and announces what is new. */
export class CaptionList {
  #list;
  #announcer;
  #atEnd = true; // the person has not gone back to read
  #topPx = 0;

  constructor(list, announcer) {
    this.#list = list;
    this.#announcer = announcer;
    list.addEventListener("scroll", () => this.#scrolled());
    new ResizeObserver(() => this.follow()).observe(list);
  }

  /** Put a line before another one; null: at the end. */
  insert(item, before) {
    this.#list.insertBefore(item, before);
    this.follow();
  }

  /** Keep the newest line in sight, unless the person has gone back to read. */
  follow() {
    if (this.#atEnd) this.#list.scrollTop = this.#list.scrollHeight;
  }

  /** Let screen readers say a text. */
  announce(text, lang) {
    const sentence = document.createElement("p");
    write(sentence, text, lang);
    this.#announcer.append(sentence);
    while (this.#announcer.childElementCount > MOST_ANNOUNCED) this.#announcer.firstElementChild.remove();
  }

  /** Only people scroll up; a box that shrinks does not. */
  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.#list;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END_PX) this.#atEnd = true;
    else if (scrollTop < this.#topPx) this.#atEnd = false;
    this.#topPx = scrollTop;
  }
}
