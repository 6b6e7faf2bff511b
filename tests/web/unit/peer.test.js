import { Peer } from "/web/peer.js";
import { equal, ok } from "/unit/expect.js";

/** Give a track with a sound in it: the fake microphone speaks without end. */
async function sound() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  return stream.getAudioTracks()[0];
}

/** Let a voice flow; it is not heard. */
function play(track) {
  const element = new Audio();
  element.muted = true;
  element.srcObject = new MediaStream([track]);
  element.play();
  return element;
}

/** Let two people meet; `passes(from)` tells whether a signal of one of them goes through now. */
function pair({ tracks = [null, null], listening = [true, true], passes = () => true } = {}) {
  const heard = [[], []];
  const sent = [];
  const peers = [0, 1].map(
    (at) =>
      new Peer({
        offers: at === 0,
        track: tracks[at],
        listening: listening[at],
        send: (kind, payload) => {
          sent.push([at, kind]);
          const signal = JSON.parse(JSON.stringify({ kind, ...payload }));
          if (passes(at)) queueMicrotask(() => peers[1 - at].take(signal));
        },
        onTrack: (track) => heard[at].push(play(track)),
      }),
  );
  return { peers, heard, sent, close: () => peers.forEach((peer) => peer.close()) };
}

async function until(fact, what) {
  for (let at = 0; at < 500; at += 1) {
    if (fact()) return;
    await new Promise((done) => setTimeout(done, 20));
  }
  throw new Error(`never: ${what}`);
}

const connected = ({ peers }) => until(() => peers.every(({ state }) => state === "connected"), "connected");

export async function two_people_hear_each_other() {
  const two = pair({ tracks: [await sound(), await sound()] });
  await connected(two);
  await until(() => two.peers.every(({ level }) => level > 0.01), "both are loud");
  equal(two.sent.filter(([, kind]) => kind === "webrtc_offer"), [[0, "webrtc_offer"]]);
  two.close();
}

export async function a_microphone_that_comes_later_needs_no_new_offer() {
  const two = pair();
  await connected(two);
  await two.peers[1].speak(await sound());
  await until(() => two.peers[0].level > 0.01, "the late one is heard");
  equal(two.sent.filter(([, kind]) => kind === "webrtc_offer").length, 1);
  two.close();
}

export async function who_only_reads_is_sent_nothing_until_it_wants_to_hear() {
  const two = pair({ tracks: [await sound(), await sound()], listening: [true, false] });
  await connected(two);
  await until(() => two.peers[0].level > 0.01, "the reader is heard");
  equal([two.heard[0].length, two.peers[1].level], [1, 0]);
  two.peers[1].listen(true);
  await until(() => two.peers[1].level > 0.01, "it hears now");
  two.close();
}

export async function signals_that_were_lost_are_said_again() {
  let open = false;
  const two = pair({ passes: () => open });
  await until(() => two.sent.some(([, kind]) => kind === "webrtc_offer"), "an offer");
  open = true;
  two.peers.forEach((peer) => peer.repeat());
  await connected(two);
  two.close();
}

export async function when_both_offer_at_once_one_of_them_counts() {
  const two = pair({ tracks: [await sound(), await sound()] });
  await connected(two);
  two.peers.forEach((peer) => peer.listen(false));
  two.peers.forEach((peer) => peer.listen(true));
  two.peers[0].listen(false);
  two.peers[1].listen(true);
  await until(() => two.peers[1].level > 0.01, "one is heard");
  ok(two.peers.every(({ state }) => state === "connected"), "lost");
  two.close();
}

export async function nonsense_is_passed_over() {
  const two = pair();
  await connected(two);
  await two.peers[0].take({ kind: "webrtc_offer", sdp: { type: "offer", sdp: "?" } });
  await two.peers[0].take({ kind: "webrtc_ice", candidate: "?" });
  await two.peers[1].take({ kind: "webrtc_answer", sdp: null });
  equal(two.peers.map(({ state }) => state), ["connected", "connected"]);
  two.close();
}
