/** Saves what was said as a file, for as long as the server keeps it. */

const ADDRESS = "/api/v1/transcripts";
const SHORT_MS = 5000;

/** A menu with one button for each kind of file; it is hidden until there is a session that has a transcript. */
export class TranscriptMenu {
  #menu;
  #notices;
  #offers = new Map(); // session and place: {place, token, lang}

  constructor(menu, notices) {
    this.#menu = menu;
    this.#notices = notices;
    for (const button of menu.querySelectorAll("[data-format]")) {
      button.addEventListener("click", () => this.#choose(button.dataset.format));
    }
    menu.addEventListener("keydown", (event) => event.key === "Escape" && this.#close());
    addEventListener("pointerdown", (event) => menu.contains(event.target) || (menu.open = false));
  }

  /**
   * Offer what a session has said or heard; one without a token has no transcript.
   *
   * `place` is `session`, or `room/` and a code; with a `lang`, translations into others are left out.
   */
  offer(place, { sessionId, transcriptToken }, lang = "") {
    if (!transcriptToken) return;
    this.#offers.set(`${sessionId} ${place}`, { place, token: transcriptToken, lang });
    this.#menu.hidden = false;
  }

  async #choose(format) {
    this.#close();
    const saved = await Promise.all([...this.#offers.values()].map((offer) => save(offer, format))).catch(() => null);
    const key = !saved ? "transcriptFailed" : saved.some(Boolean) ? "transcriptSaved" : "transcriptAbsent";
    const level = key === "transcriptSaved" ? "info" : "warning";
    this.#notices.show("transcript", { level, key, lastsMs: SHORT_MS });
  }

  #close() {
    if (!this.#menu.open) return;
    this.#menu.open = false;
    this.#menu.querySelector("summary").focus();
  }
}

/** Fetch one file and let the browser keep it; false when there is none. */
async function save({ place, token, lang }, format) {
  const query = new URLSearchParams({ format, ...(lang ? { lang } : {}) });
  const headers = { Authorization: `Bearer ${token}` };
  const answer = await fetch(`${ADDRESS}/${place}?${query}`, { headers, cache: "no-store" });
  if (answer.status === 404) return false;
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = /filename="([\w.-]+)"/.exec(answer.headers.get("Content-Disposition"))?.[1] ?? `transcript.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), SHORT_MS);
  return true;
}
