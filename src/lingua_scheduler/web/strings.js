/** Every sentence of the pages, in English and in Chinese; those about rooms have a file of their own. */

import { ROOM_EN, ROOM_ZH } from "./room-strings.js";

const EN = {
  title: "Lingua Talk",
  places: "Pages",
  talkPlace: "Talk",
  roomPlace: "Room",
  transcript: "Transcript",
  transcriptTitle: "Save what was said as a file",
  transcript_txt: "Text",
  transcript_srt: "Subtitles (SRT)",
  transcript_vtt: "Subtitles (VTT)",
  transcript_json: "Data (JSON)",
  transcriptSaved: "The transcript was saved.",
  transcriptAbsent: "There is no transcript: nothing has been said, or it is not kept any more.",
  transcriptFailed: "The transcript could not be fetched. Please try again.",
  tagline: "Speak, and be understood.",
  idle: "Not connected",
  connecting: "Connecting",
  open: "Connected",
  waiting: "Reconnecting",
  ended: "Disconnected",
  roundTrip: "Network",
  roundTripTitle: "Time to the server and back",
  latency: "Translation",
  latencyTitle: "Time from the end of speech to the result",
  ms: "{value} ms",
  seconds: "{value} s",
  otherUi: "中文",
  otherUiLabel: "切换到中文",
  smaller: "Smaller captions",
  larger: "Larger captions",
  mine: "I speak",
  other: "They hear",
  bothMine: "One language",
  bothOther: "The other language",
  swap: "Swap the languages",
  languages: "Languages",
  captions: "Captions",
  options: "How to talk",
  press: "Press to talk",
  free: "Hands-free",
  voice: "Voice",
  voiceTitle: "Play the translation as voice",
  both: "Both speak",
  bothTitle: "Either language may be spoken; it is recognised which",
  headphones: "Headphones",
  headphonesTitle: "Keep listening while the voice plays. Without headphones it would hear itself.",
  start: "Start",
  starting: "Starting",
  holdToTalk: "Hold to talk",
  listening: "Listening",
  translating: "Translating",
  paused: "Paused",
  playing: "Playing",
  hintIdle: "Your microphone is used only after you press Start.",
  hintPress: "Hold the button or the space bar while you speak. A short tap keeps it on.",
  hintTouch: "Hold the button while you speak. A short tap keeps it on.",
  hintLetGo: "Let go, or tap again, when you have finished.",
  hintFree: "Just speak. Each sentence is translated after a short pause. Tap to make a break.",
  hintPaused: "Nothing is heard. Tap to go on.",
  hintResting: "Not listening while the translation is played.",
  skip: "Skip",
  skipTitle: "Skip the voice that is playing (Escape)",
  end: "End",
  endTitle: "End the talk and switch the microphone off",
  welcome: "Choose two languages and press Start.",
  welcomeMore: "What you say appears here as text, with its translation.",
  noscript: "This page needs JavaScript.",
  dismiss: "Close this message",
  retry: "Try again",
  retryNow: "Try now",
  mic_refused: "The microphone is not allowed. Allow it for this page in the browser's address bar, then try again.",
  mic_absent: "No microphone was found. Connect one, then try again.",
  mic_busy: "The microphone is in use by another program. Close that program, then try again.",
  mic_insecure: "The microphone needs a secure connection. Open this page with https://, or on the server itself.",
  mic_unsupported: "This browser cannot record speech. Please use a current Firefox, Chrome, Edge or Safari.",
  mic_failed: "The microphone could not be started. Please try again.",
  mic_gone: "The microphone was disconnected. Connect it, then try again.",
  noLanguages: "No translator is ready right now. This page keeps looking.",
  serverGone: "The server cannot be reached. This page keeps trying.",
  noNode:
    "Nobody can translate {mine} to {other} right now. What you say is kept; please wait about {seconds} s.",
  reconnecting: "The connection was lost. What you say is kept and sent as soon as it is back.",
  resumed: "Connected again. Nothing was lost.",
  startedAnew: "The connection was away for too long, so a new talk has begun. The last words may be missing.",
  refused: "The server ended the talk ({code}).",
  forbidden: "Your key or token does not allow this: it may be for other languages, or for another room.",
  accessTitle: "A key is needed",
  accessField: "Key or token",
  accessHint: "It is kept until this tab is closed, and is shown to this server only.",
  accessUse: "Go on",
  access_missing: "This server lets in only people who have a key or token. Open the link you were given, or paste it here.",
  access_refused: "The key or token is not accepted: it is not a right one, or not valid any more. Paste another one.",
  access_expired: "The token has expired. Open a new link, or paste a new token here.",
  access_revoked: "The key was withdrawn, so the talk has ended. Paste another one to go on.",
  access_malformed: "That is neither a key nor a token. Copy all of it, and nothing else.",
  lagging: "The translation falls behind. Please pause for a moment.",
  speechLost: "The connection is away for too long: the oldest words could not be kept.",
  voiceUnplayable: "This browser cannot play the voice. The captions go on.",
  trouble: "Something went wrong ({code}).",
  redisDown: "The service has a short interruption. What you say is kept; it goes on by itself.",
  rateLimited: "That was too much at once, and some of it was not heard. Please pause for a moment.",
  lostLine: "Lost with the connection. Please say it again.",
  missing: "Not translated. Please say it again.",
  missing_no_available_node: "Nobody was free to translate this. Please say it again.",
  missing_job_timeout: "The translation took too long. Please say it again.",
  missing_scheduler_dependency_down: "The service was interrupted. Please say it again.",
};

const ZH = {
  title: "Lingua 对话",
  places: "页面",
  talkPlace: "对话",
  roomPlace: "房间",
  transcript: "文字记录",
  transcriptTitle: "把对话内容保存为文件",
  transcript_txt: "文本",
  transcript_srt: "字幕（SRT）",
  transcript_vtt: "字幕（VTT）",
  transcript_json: "数据（JSON）",
  transcriptSaved: "文字记录已保存。",
  transcriptAbsent: "没有文字记录：还没有说话，或已不再保留。",
  transcriptFailed: "无法取得文字记录，请重试。",
  tagline: "开口说话，彼此听懂。",
  idle: "未连接",
  connecting: "正在连接",
  open: "已连接",
  waiting: "正在重新连接",
  ended: "已断开",
  roundTrip: "网络",
  roundTripTitle: "到服务器的往返时间",
  latency: "翻译",
  latencyTitle: "从说完到出结果的时间",
  ms: "{value} 毫秒",
  seconds: "{value} 秒",
  otherUi: "English",
  otherUiLabel: "Switch to English",
  smaller: "缩小字幕",
  larger: "放大字幕",
  mine: "我说",
  other: "对方听",
  bothMine: "一种语言",
  bothOther: "另一种语言",
  swap: "交换语言",
  languages: "语言",
  captions: "字幕",
  options: "说话方式",
  press: "按住说话",
  free: "免提",
  voice: "语音",
  voiceTitle: "朗读译文",
  both: "双方都说",
  bothTitle: "两种语言都可以说，自动识别是哪一种",
  headphones: "耳机",
  headphonesTitle: "播放译文时继续收听。不戴耳机会把播放的声音听进去。",
  start: "开始",
  starting: "正在开始",
  holdToTalk: "按住说话",
  listening: "正在听",
  translating: "正在翻译",
  paused: "已暂停",
  playing: "正在播放",
  hintIdle: "按下“开始”之后才会使用麦克风。",
  hintPress: "说话时按住按钮或空格键；轻点一下可保持开启。",
  hintTouch: "说话时按住按钮；轻点一下可保持开启。",
  hintLetGo: "说完后松开，或再点一下。",
  hintFree: "直接说话，停顿片刻后自动翻译每一句。点一下可暂停。",
  hintPaused: "现在不收听。点一下继续。",
  hintResting: "播放译文时暂不收听。",
  skip: "跳过",
  skipTitle: "跳过正在播放的语音（Esc）",
  end: "结束",
  endTitle: "结束对话并关闭麦克风",
  welcome: "选择两种语言，然后按“开始”。",
  welcomeMore: "您说的话和译文都会显示在这里。",
  noscript: "此页面需要 JavaScript。",
  dismiss: "关闭此消息",
  retry: "重试",
  retryNow: "立即重试",
  mic_refused: "麦克风未获许可。请在浏览器地址栏中允许此页面使用麦克风，然后重试。",
  mic_absent: "没有找到麦克风。请接上麦克风，然后重试。",
  mic_busy: "麦克风正被其他程序占用。请关闭该程序，然后重试。",
  mic_insecure: "只有在安全连接下才能使用麦克风。请用 https:// 打开此页面，或在服务器本机上打开。",
  mic_unsupported: "此浏览器无法录音。请使用新版的 Firefox、Chrome、Edge 或 Safari。",
  mic_failed: "无法启动麦克风，请重试。",
  mic_gone: "麦克风已断开。请重新接上，然后重试。",
  noLanguages: "目前没有可用的翻译节点，页面会继续查找。",
  serverGone: "无法连接服务器，页面会继续尝试。",
  noNode: "目前没有节点能把{mine}译成{other}。您说的话会暂时保留，请等待约 {seconds} 秒。",
  reconnecting: "连接已断开。您说的话会保留，连接恢复后立即发送。",
  resumed: "已重新连接，没有丢失内容。",
  startedAnew: "断开时间过长，已开始新的对话，最后几句可能缺失。",
  refused: "服务器结束了对话（{code}）。",
  forbidden: "您的密钥或令牌不允许这样做：它可能只适用于其他语言或其他房间。",
  accessTitle: "需要密钥",
  accessField: "密钥或令牌",
  accessHint: "只保留到关闭此标签页为止，并且只出示给此服务器。",
  accessUse: "继续",
  access_missing: "只有持密钥或令牌的人才能使用此服务器。请打开收到的链接，或在此粘贴。",
  access_refused: "密钥或令牌未被接受：不正确，或已失效。请粘贴另一个。",
  access_expired: "令牌已过期。请打开新的链接，或在此粘贴新的令牌。",
  access_revoked: "密钥已被撤销，对话已结束。请粘贴另一个以继续。",
  access_malformed: "这不是密钥或令牌。请完整复制，不要带其他内容。",
  lagging: "翻译跟不上了，请稍停片刻。",
  speechLost: "断开时间过长，最早的几句无法保留。",
  voiceUnplayable: "此浏览器无法播放语音，字幕照常显示。",
  trouble: "出现错误（{code}）。",
  redisDown: "服务短暂中断。您说的话会保留，恢复后自动继续。",
  rateLimited: "一次说得太多，有一部分没有听到，请稍停片刻。",
  lostLine: "随连接丢失，请再说一遍。",
  missing: "未能翻译，请再说一遍。",
  missing_no_available_node: "没有空闲的翻译节点，请再说一遍。",
  missing_job_timeout: "翻译超时，请再说一遍。",
  missing_scheduler_dependency_down: "服务中断，请再说一遍。",
};

/** The languages of the page, by the tag that documents carry. */
export const UI_TAGS = { en: "en", zh: "zh-Hans" };

const SILENT_ENDS = ["no_text", "silence_detected"];
const STRINGS = { en: { ...EN, ...ROOM_EN }, zh: { ...ZH, ...ROOM_ZH } };

/** Choose the language of the page by what the browser prefers. */
export function preferredUi(languages) {
  const known = languages.map((lang) => lang.toLowerCase().split("-")[0]).find((lang) => lang in STRINGS);
  return known ?? "en";
}

/** Give a sentence by its key, with values filled in; the key itself when there is none. */
export function sentence(ui, key, values = {}) {
  const text = STRINGS[ui]?.[key] ?? STRINGS.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/** Whether there is a sentence of this key. */
export function hasSentence(key) {
  return key in STRINGS.en;
}

/** Give the key of the sentence about an utterance without a result; null when nobody misses one. */
export function missingKey(reason) {
  if (SILENT_ENDS.includes(reason)) return null;
  return hasSentence(`missing_${reason}`) ? `missing_${reason}` : "missing";
}

/** The keys of each language, to compare them. */
export function keysOf(ui) {
  return Object.keys(STRINGS[ui]);
}

/** Fill a page: `data-title` is its title, `data-t` the text, `data-t-label` the name and `data-t-title` the explanation of an element. */
export function fill(root, ui) {
  root.documentElement.lang = UI_TAGS[ui];
  root.title = sentence(ui, root.documentElement.dataset.title);
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = sentence(ui, element.dataset.t);
  for (const element of root.querySelectorAll("[data-t-label]")) {
    element.setAttribute("aria-label", sentence(ui, element.dataset.tLabel));
  }
  for (const element of root.querySelectorAll("[data-t-title]")) element.title = sentence(ui, element.dataset.tTitle);
}
