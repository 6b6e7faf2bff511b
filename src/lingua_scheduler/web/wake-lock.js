/** Keeps the screen on while people talk, where the browser can. */

let lock = null;
let wanted = false;

async function take() {
  try {
    lock = (await navigator.wakeLock?.request("screen")) ?? null;
  } catch {
    lock = null; // a low battery or a hidden page: the talk goes on without
  }
}

/** Keep the screen on, or let it go dark again. */
export function keepAwake(awake) {
  wanted = awake;
  if (awake) take();
  else lock?.release();
}

document.addEventListener("visibilitychange", () => wanted && !document.hidden && take());
