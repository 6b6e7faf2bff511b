/** How the room page looks in each of its states. */

import { $, SIZES, enable, hintKey, renderTalk, talkKey, write } from "./talk-view.js";

/** Show the page as it stands; `talk` is a RoomTalk, `say` gives sentences by their keys. */
export function renderRoom(talk, settings, say) {
  const { phase, link } = talk;
  const { mode, take, headphones, size } = settings;
  const [inside, free] = [phase === "inside", mode === "free"];
  document.documentElement.dataset.size = size;
  $("smaller").disabled = size === 0;
  $("larger").disabled = size === SIZES - 1;
  const pressed = { "mode-press": !free, "mode-free": free, headphones };
  for (const [id, isPressed] of Object.entries(pressed)) $(id).setAttribute("aria-pressed", isPressed);
  write("take-hint", say(`take_${take}Title`));
  $("state").dataset.state = link;
  write("state-text", say(phase === "entering" && link === "open" ? "entering" : link));
  $("lobby").hidden = inside;
  $("lobby").inert = phase === "entering"; // it keeps its place, and waits
  $("room").hidden = $("dock").hidden = !inside;
  if (inside) renderInside(talk, free, say);
}

function renderInside({ room, hears, live, paused, resting, voices }, free, say) {
  const { code, members } = room;
  enable("skip", voices.speaker !== null || voices.waiting > 0);
  write("room-title", say("room", { code: `${code.slice(0, 3)} ${code.slice(3)}` }));
  write("members-title", say("memberCount", { count: members.length }));
  write("welcome-text", say(members.length > 1 ? "together" : "alone"));
  $("welcome").hidden = $("lines").querySelector(".heard") !== null;
  for (const id of ["mode-press", "mode-free", "headphones"]) enable(id, hears);
  if (hears) {
    renderTalk({ on: true, free, live, starting: false, ready: true });
    write("talk-text", say(talkKey({ phase: "on", free, live, paused })));
    write("hint", say(hintKey({ on: true, free, live, paused, resting })));
  } else {
    renderTalk({ on: false, free, live: false, starting: false, ready: true });
    write("talk-text", say("useMicrophone"));
    write("hint", say("hintListener"));
  }
}

/** Move between the lobby and the room: what had the focus is gone, so that it goes to what is there now. */
export function enter(inside) {
  (inside ? $("room-title") : $("code")).focus({ preventScroll: true });
}

/** Put a text where people can paste it from; false when the browser does not let us. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
