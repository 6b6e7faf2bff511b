/**
 * One button for talking: held or tapped, with a finger, a mouse, the space bar or an assistive technology.
 *
 * A short tap latches: the button stays down until the next tap. Before and after a talk it is a plain button.
 */

const TAP_MS = 350;

/** Follows a button; `onPress`, `onRelease` while it is for talking, `onClick` while it is a plain one. */
export class TalkButton {
  /** Whether the button is for talking now. */
  talking = false;
  /** Whether the space bar works anywhere on the page. */
  spaceBar = false;

  #button;
  #on;
  #down = false; // a finger or key is on it
  #latched = false;
  #sinceMs = 0;
  #letsGo = false; // this press ends a latched one

  constructor(button, { onPress, onRelease, onClick }) {
    this.#button = button;
    this.#on = { onPress, onRelease, onClick };
    button.addEventListener("pointerdown", (event) => this.#pointerDown(event));
    for (const end of ["pointerup", "pointercancel"]) button.addEventListener(end, (event) => this.#up(event));
    button.addEventListener("click", (event) => this.#click(event));
    button.addEventListener("contextmenu", (event) => event.preventDefault());
    addEventListener("keydown", (event) => this.#key(event, true));
    addEventListener("keyup", (event) => this.#key(event, false));
    addEventListener("blur", () => this.#down && this.letGo()); // its end would not be seen
  }

  /** Whether somebody talks by it. */
  get pressed() {
    return this.#down || this.#latched;
  }

  /** End a press that goes on, however it was made. */
  letGo() {
    const pressed = this.pressed && !this.#letsGo;
    this.#down = this.#latched = this.#letsGo = false;
    if (pressed) this.#on.onRelease();
  }

  #pointerDown(event) {
    if (!this.talking || event.button !== 0) return;
    this.#button.setPointerCapture(event.pointerId);
    this.#press(event);
  }

  #click(event) {
    if (!this.talking) this.#on.onClick();
    else if (event.detail === 0) this.#toggle(); // made by an assistive technology: there was no press
  }

  #key(event, down) {
    const own = event.target === this.#button && (event.code === "Space" || event.code === "Enter");
    const anywhere = this.spaceBar && event.code === "Space" && !isControl(event.target);
    if (!this.talking || !(own || anywhere) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (event.repeat) return;
    if (down) this.#press(event);
    else this.#up(event);
  }

  /** Times are those of the events: a busy page must not take a hold for a tap. */
  #press(event) {
    this.#letsGo = this.#latched;
    const pressed = this.pressed;
    this.#down = true;
    this.#latched = false;
    this.#sinceMs = event.timeStamp;
    if (this.#letsGo) this.#on.onRelease();
    else if (!pressed) this.#on.onPress();
  }

  #up(event) {
    if (!this.#down) return;
    this.#down = false;
    if (this.#letsGo) this.#letsGo = false;
    else if (event.timeStamp - this.#sinceMs < TAP_MS) this.#latched = true;
    else this.#on.onRelease();
  }

  #toggle() {
    this.#latched = !this.#latched;
    if (this.#latched) this.#on.onPress();
    else this.#on.onRelease();
  }
}

function isControl(element) {
  return element instanceof Element && element.closest("button, select, input, textarea, a, summary") !== null;
}
