/**
 * Being in a room, without sockets or pages: what to say to get in, and what the server's messages mean.
 *
 * A session that had to begin anew goes back to the room by its code; one that was resumed is still in it.
 */

const CODE = /^\d{6}$/;
const SIGNALS = ["webrtc_offer", "webrtc_answer", "webrtc_ice"];

/** Find the code of a room in what a person typed or pasted, or in an address; empty when there is none. */
export function codeIn(text) {
  const digits = text.replace(/[\s-]/g, "");
  return CODE.test(digits) ? digits : (/\/room[/#](\d{6})\b/.exec(text)?.[1] ?? "");
}

/** Word the link that leads others to a room; what follows the # is not sent to any server, and not logged. */
export function linkTo(code, origin) {
  return `${origin}/room#${code}`;
}

/** One person's place in a room. */
export class Membership {
  /** The code of the room; empty until it is known. */
  code;
  /** Whether the server has let the person in. */
  inside = false;
  /** Everybody in the room: `{id, name, guest, lang, mode, muted, me}`, first come first. */
  members = [];

  #me;
  #sessionId = null;
  #mine = new Set(); // sessions that this person had before
  #people = new Map(); // everybody who was ever here
  #guests = 0;
  #asked = 0; // how often, in this session
  #left = false;

  /** `me` is `{name, lang, mode}`; without a code a room is opened. */
  constructor(me, code = "") {
    this.#me = me;
    this.code = code;
  }

  /** The person's own session. */
  get sessionId() {
    return this.#sessionId;
  }

  /** The session is open: give what to send, or null when it is still in the room. */
  opened({ sessionId, resumed }, wallMs) {
    this.#sessionId = sessionId;
    this.#mine.add(sessionId);
    if (resumed && this.inside) return null;
    this.#asked = resumed ? this.#asked + 1 : 1;
    this.inside = false;
    return this.code ? { type: "room_join", room_code: this.code, ...this.#about() } : this.#create(wallMs);
  }

  /** Say how the person takes things in from now on; null when nobody has to be told now. */
  change(changes) {
    Object.assign(this.#me, changes);
    return this.inside ? { type: "room_change", room_code: this.code, ...this.#about() } : null;
  }

  /** Give what to send to leave; null when the person is not in a room. */
  leave() {
    const wasInside = this.inside;
    this.inside = false;
    this.#left = true;
    return wasInside ? { type: "room_leave", room_code: this.code } : null;
  }

  /** Give what to send to hear somebody's own voice, or not to. */
  mute(id, muted) {
    return { type: "room_raw_voice_preference", room_code: this.code, target_session_id: id, receive_raw_voice: !muted };
  }

  /** Address a signal to another member. */
  signal(id, type, payload) {
    return { type, room_code: this.code, to: id, ...payload };
  }

  /** What is known of somebody who is or was here: `{name, guest, lang, me}`; those without a name have a number. */
  person(id) {
    return { name: "", guest: 0, lang: null, ...this.#people.get(id), me: this.#mine.has(id) };
  }

  /** What a message means: a list of `entered`, `members`, `shut`, `expired` and `signal`. */
  heard(message) {
    const { type, room_code: code } = message;
    if (type === "room_create_ack") return this.#enter(code);
    if (type === "room_error") return this.#refused(message.code);
    if (type === "room_members" && !this.inside && !this.#left) return [...this.#enter(code), ...this.#gather(message)];
    if (code !== this.code || !this.inside) return [];
    if (type === "room_members") return this.#gather(message);
    if (type === "room_expired") return this.#expired();
    return SIGNALS.includes(type) ? [signalOf(message)] : [];
  }

  #expired() {
    this.inside = false;
    return [{ type: "expired" }];
  }

  #enter(code) {
    this.code = code;
    this.inside = true;
    return [{ type: "entered", code }];
  }

  /** Who asked twice, because the first answer was lost, hears that it is inside, and then who else is. */
  #refused(code) {
    const known = code === "ALREADY_IN_ROOM" && this.#asked > 1;
    return known ? [] : [{ type: "shut", code, inside: this.inside }];
  }

  #create(wallMs) {
    return { type: "room_create", client_ts: Math.floor(wallMs), ...this.#about() };
  }

  #about() {
    const { name, lang, mode } = this.#me;
    return { display_name: name || null, preferred_lang: lang, mode };
  }

  #gather({ members = [] }) {
    const mine = members.find((member) => idOf(member) === this.#sessionId);
    const wishes = mine?.raw_voice_preferences ?? {};
    const before = this.members;
    this.members = members.map((member) => {
      const id = idOf(member);
      this.#know(id, member.display_name ?? "", member.preferred_lang ?? null);
      return { id, mode: member.mode ?? "voice", muted: wishes[id] === false, ...this.person(id) };
    });
    const [came, left] = [absent(this.members, before), absent(before, this.members)];
    return [{ type: "members", members: this.members, came: before.length ? came : [], left }];
  }

  #know(id, name, lang) {
    const guest = name ? 0 : (this.#people.get(id)?.guest || ++this.#guests);
    this.#people.set(id, { name, guest, lang });
  }
}

function signalOf({ type, to, sdp, candidate }) {
  return { type: "signal", from: to, kind: type, sdp, candidate };
}

/** Give those other people of a list who are not in another one. */
function absent(people, others) {
  const ids = new Set(others.map(({ id }) => id));
  return people.filter(({ id, me }) => !me && !ids.has(id));
}

function idOf(member) {
  return member.session_id ?? member.participant_id;
}
