/** How the talk page looks in each of its states. */

/** How many sizes of captions there are. */
export const SIZES = 4;

/** Give an element of the page by its id. */
export const $ = (id) => document.getElementById(id);

/** Change the size of captions by a step, within its bounds. */
export function resized(size, by) {
  return Math.min(SIZES - 1, Math.max(0, size + by));
}

/** Switch a button on or off; a focus that would be lost goes to the talk button. */
export function enable(id, enabled) {
  const focused = document.activeElement === $(id);
  $(id).disabled = !enabled;
  if (focused && !enabled) $("talk").focus();
}

/** Show how loud somebody speaks, from 0 to 1. */
export function showLevel(level) {
  const shown = level.toFixed(1);
  const { style } = $("talk");
  if (style.getPropertyValue("--level") !== shown) style.setProperty("--level", shown);
}

/** Show a measured time beside the state of the connection. */
export function measure(id, text) {
  $(id).hidden = false;
  $(id).querySelector("b").textContent = text;
}

/**
 * Show the page as it stands.
 *
 * `phase` is idle, starting or on; `link` the state of the connection; `live` whether the microphone listens;
 * `served` whether anything can be translated, `twoWay` whether the pair can be in both directions; `say` gives
 * sentences by their keys.
 */
export function render({ settings, phase, link, live, paused, resting, served, twoWay, say }) {
  const { mode, voice, headphones, size } = settings;
  const both = settings.both && twoWay;
  const on = phase === "on";
  const free = mode === "free";
  document.documentElement.dataset.size = size;
  $("smaller").disabled = size === 0;
  $("larger").disabled = size === SIZES - 1;
  const pressed = { "mode-press": !free, "mode-free": free, voice, both, headphones };
  for (const [id, isPressed] of Object.entries(pressed)) $(id).setAttribute("aria-pressed", isPressed);
  write("mine-label", say(both ? "bothMine" : "mine"));
  write("other-label", say(both ? "bothOther" : "other"));
  $("welcome").hidden = on || $("lines").childElementCount > 0;
  $("state").dataset.state = link;
  write("state-text", say(link));
  enable("end", phase !== "idle");
  enable("both", twoWay);
  renderTalk({ on, free, live, paused, starting: phase === "starting", ready: on || served });
  write("talk-text", say(talkKey({ phase, free, live, paused })));
  write("hint", say(hintKey({ on, free, live, paused, resting })));
}

/** Show the talk button: idle, ready, live or paused. */
export function renderTalk({ on, free, live, starting, ready }) {
  const talk = $("talk");
  talk.disabled = !ready;
  talk.setAttribute("aria-disabled", starting); // a disabled button would lose the focus
  talk.dataset.state = !on ? "idle" : live ? "live" : free ? "paused" : "ready";
  if (on) talk.setAttribute("aria-pressed", live);
  else talk.removeAttribute("aria-pressed");
}

/** Give the key of the sentence on the talk button. */
export function talkKey({ phase, free, live, paused }) {
  if (phase !== "on") return phase === "starting" ? "starting" : "start";
  if (live) return "listening";
  if (!free) return "holdToTalk";
  return paused ? "paused" : "playing";
}

/** Give the key of the sentence below the talk button. */
export function hintKey({ on, free, live, paused, resting }) {
  if (!on) return "hintIdle";
  if (!free) return live ? "hintLetGo" : matchMedia("(hover: none)").matches ? "hintTouch" : "hintPress";
  if (paused) return "hintPaused";
  return resting ? "hintResting" : "hintFree";
}

/** Change a text only when it differs, so that screen readers hear changes only. */
export function write(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}
