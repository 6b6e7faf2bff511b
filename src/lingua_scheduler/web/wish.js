/** What the pages ask of a session, in the words of `session_init`. */

const PARTIALS_MS = 500;

/** Word the wish of a person who chose so; `voiced` tells whether the pair can be spoken, too. */
export function sessionWish({ mine, other, mode, both, voice }, { hintLang, voiced }) {
  const twoWay = { src_lang: "auto", mode: "two_way_auto", lang_a: mine, lang_b: other, auto_langs: [mine, other] };
  return {
    ...wish("talk-1", mine, other, hintLang),
    ...(both ? twoWay : {}),
    endpointing: mode === "free" ? "adaptive" : "fixed",
    pipeline: { use_tts: voice && voiced },
  };
}

/** Word the wish of a person in a room: what others hear of it, and how, is decided by the room. */
export function roomWish({ mine, other }, { hintLang }) {
  return { ...wish("room-1", mine, other, hintLang), endpointing: "adaptive", pipeline: { use_tts: true } };
}

function wish(version, mine, other, hintLang) {
  return {
    client_version: version,
    platform: "web",
    src_lang: mine,
    tgt_lang: other,
    hint_lang: hintLang,
    partial_update_interval_ms: PARTIALS_MS,
    supports_binary_frame: true,
    supports_backpressure: true,
  };
}
