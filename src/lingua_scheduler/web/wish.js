/** What the talk page asks of a session, in the words of `session_init`. */

const PARTIALS_MS = 500;

/** Word the wish of a person who chose so; `voiced` tells whether the pair can be spoken, too. */
export function sessionWish({ mine, other, mode, both, voice }, { hintLang, voiced }) {
  const twoWay = { src_lang: "auto", mode: "two_way_auto", lang_a: mine, lang_b: other, auto_langs: [mine, other] };
  return {
    client_version: "talk-1",
    platform: "web",
    src_lang: mine,
    tgt_lang: other,
    ...(both ? twoWay : {}),
    hint_lang: hintLang,
    endpointing: mode === "free" ? "adaptive" : "fixed",
    pipeline: { use_tts: voice && voiced },
    partial_update_interval_ms: PARTIALS_MS,
    supports_binary_frame: true,
    supports_backpressure: true,
  };
}
