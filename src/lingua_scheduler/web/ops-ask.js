/** Asks the API of the instance that served the page, and for nothing that is known already. */

const LONGEST_MS = 5000;

/** The API refused to answer. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Asks several addresses at once. */
export class Asker {
  #token;
  #known = new Map(); // address -> { tag, data }

  constructor(token) {
    this.#token = token;
  }

  /** Ask addresses by name; what nobody serves is null. Gives the answers, whether one is new, and the server's time. */
  async ask(addresses) {
    const wanted = new Set(Object.values(addresses));
    for (const address of this.#known.keys()) if (!wanted.has(address)) this.#known.delete(address);
    const answers = await Promise.all(Object.values(addresses).map((address) => this.#one(address)));
    return {
      data: Object.fromEntries(Object.keys(addresses).map((name, place) => [name, answers[place].data])),
      changed: answers.some((answer) => answer.changed),
      serverMs: Math.max(...answers.map((answer) => answer.serverMs)),
    };
  }

  async #one(address) {
    const known = this.#known.get(address);
    const headers = { Accept: "application/json" };
    if (this.#token.value) headers.Authorization = `Bearer ${this.#token.value}`;
    if (known) headers["If-None-Match"] = known.tag;
    const answer = await fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(LONGEST_MS) });
    const serverMs = Date.parse(answer.headers.get("Date") ?? "") || Date.now();
    if (answer.status === 304) return { data: known.data, changed: false, serverMs };
    if (answer.status === 404) return { data: null, changed: !known, serverMs };
    if (!answer.ok) throw new Refused(answer.status, await detailOf(answer));
    const data = await answer.json();
    const tag = answer.headers.get("ETag");
    if (tag) this.#known.set(address, { tag, data });
    return { data, changed: true, serverMs };
  }
}

async function detailOf(answer) {
  try {
    return String((await answer.json()).detail ?? "");
  } catch {
    return "";
  }
}
