/** What the server says about utterances, in the words of the pages. */

import { fromBase64 } from "./wire.js";

/** Which utterance of which session a message is about. */
export function about(message) {
  const speaker = message.speaker_session_id ?? message.session_id;
  return { sessionId: message.session_id, speaker, index: message.utterance_index };
}

/** The session is open; `before` is the id of the one that was lost, or of this one. */
export function opened(message, before) {
  const { session_id: sessionId, warning, retry_after_ms: retryAfterMs, transcript_token: transcriptToken } = message;
  return { type: "opened", sessionId, before, resumed: message.resumed === true, warning, retryAfterMs, transcriptToken };
}

/** What was understood so far. */
export function partial(message) {
  return { type: "partial", ...about(message), text: message.text ?? "", final: message.is_final === true };
}

/** How far an utterance has come. */
export function stage(message) {
  const { event, error_code: code, hint } = message;
  return { type: "stage", ...about(message), stage: event, code, hint };
}

/** An utterance has no result. */
export function missing(message) {
  return { type: "missing", ...about(message), reason: message.reason };
}

/** What an utterance means. */
export function result(message) {
  return {
    type: "result",
    ...about(message),
    traceId: message.trace_id,
    groupId: message.group_id,
    said: message.text_asr ?? "",
    meant: message.text_translated ?? "",
    voice: fromBase64(message.tts_audio ?? ""),
    voiceFormat: message.tts_format || "pcm16",
    speakerName: message.speaker_name,
    targetLang: message.tgt_lang,
    spokenLang: message.extra?.detected_src_lang,
  };
}

/** Something a person must know. */
export function trouble(message) {
  const { code, hint, retry_after_ms: retryAfterMs } = message;
  return { type: "trouble", code, hint, retryAfterMs };
}

/** Tell the server that a result is being heard, or was; null for a result that it does not ask about. */
export function playback({ sessionId, traceId, groupId }, wallMs, ended) {
  if (!groupId) return null;
  const ids = { session_id: sessionId, trace_id: traceId, group_id: groupId };
  const atMs = Math.floor(wallMs);
  if (ended) return { type: "tts_play_ended", ...ids, ts_end_ms: atMs };
  return { type: "tts_started", ...ids, ts_start_ms: atMs };
}
