/** The form for a key or token: shown instead of what needs one, with the reason. */

import { Access } from "./access.js";

/** Asks the server, shows the form when it has to be filled in, and calls `onChange()` when it comes or goes. */
export class AccessForm {
  /** What the page shows to be let in. */
  access = new Access(() => this.look());

  #form;
  #say;
  #onChange;
  #why = null; // missing, expired, refused, revoked or malformed; null when nothing is asked for

  constructor(form, say, onChange) {
    this.#form = form;
    this.#say = say;
    this.#onChange = onChange;
    form.addEventListener("submit", (event) => this.#submit(event));
  }

  /** Whether the form has to be filled in before anything else. */
  get shown() {
    return this.#why !== null;
  }

  /** Ask whether the server lets this page in. */
  async look() {
    this.show(await this.access.refusal());
  }

  /** Ask for a key or token for this reason; null: no more. */
  show(why) {
    const came = why !== null && !this.shown;
    this.#why = why;
    this.#onChange();
    this.render();
    if (came) this.#field.focus();
  }

  /** Show it in the language of the page. */
  render() {
    this.#form.hidden = !this.shown;
    this.#form.querySelector("[data-part=why]").textContent = this.shown ? this.#say(`access_${this.#why}`) : "";
  }

  get #field() {
    return this.#form.querySelector("input");
  }

  #submit(event) {
    event.preventDefault();
    const pasted = this.#field.value;
    this.#field.value = "";
    if (pasted.trim() && !this.access.use(pasted)) return this.show("malformed");
    return this.look();
  }
}
