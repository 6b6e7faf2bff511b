/** What is wrong right now and where, in sentences, the worst first. */

import { h } from "./ops-dom.js";

const MOST = 12;

/** The list at the top of the dashboard. */
export class TroubleList {
  #words;
  #format;
  #count;
  #list;
  #none;
  #sign = "";

  constructor(words, format) {
    this.#words = words;
    this.#format = format;
    this.#count = h("p", { class: "soft", role: "status" });
    this.#list = h("ul", { class: "troubles" });
    this.#none = h("p", { class: "fine" }, h("span", { "aria-hidden": "true" }, "✓ "), words.say("troublesNone"));
    this.element = h("section", { class: "card wrong", "aria-labelledby": "wrong" }, h("h2", { id: "wrong" }, words.say("troubles")), this.#count, this.#list, this.#none);
  }

  /** Show what is wrong. */
  show({ troubles, bad, warn }) {
    const sign = JSON.stringify(troubles);
    if (sign === this.#sign) return;
    this.#sign = sign;
    const more = bad + warn - MOST;
    this.element.dataset.level = bad ? "bad" : troubles.length ? "warn" : "fine";
    this.#count.textContent = troubles.length ? this.#words.say("troublesCount", { bad, warn }) : "";
    this.#list.replaceChildren(
      ...troubles.slice(0, MOST).map((trouble) => this.#item(trouble)),
      ...(more > 0 ? [h("li", { class: "soft" }, this.#words.say("troublesMore", { count: more }))] : []),
    );
    this.#none.hidden = troubles.length > 0;
  }

  #item(trouble) {
    const link = linkOf(trouble);
    return h(
      "li",
      { class: trouble.level, "data-kind": trouble.kind },
      h("span", { class: `badge ${trouble.level}` }, this.#words.known("level", trouble.level)),
      h(
        "div",
        {},
        h("p", {}, this.sentence(trouble), " ", link && h("a", { href: link }, this.#words.say("seeThere"))),
        trouble.names.length > 0 && h("p", { class: "soft names" }, names(trouble, this.#words)),
      ),
    );
  }

  /** Say what is wrong. */
  sentence(trouble) {
    const [pool, service] = trouble.kind === "service_gap" ? trouble.where.split("/") : [trouble.where, ""];
    const values = {
      count: this.#format.number(trouble.count),
      of: this.#format.number(trouble.of),
      where: trouble.kind.startsWith("pair_") ? this.#format.pair(trouble.where) : pool,
      service,
      why: trouble.kind === "nodes_excluded" ? this.#words.known("why", trouble.why) : trouble.why,
    };
    const because = `trouble_${trouble.kind}_because`;
    const said = trouble.why ? this.#words.say(because, values) : because;
    return said === because ? this.#words.say(`trouble_${trouble.kind}`, values) : said;
  }
}

function linkOf(trouble) {
  if (trouble.kind === "nodes_excluded") return `/cluster?state=${encodeURIComponent(trouble.why)}#nodes`;
  if (trouble.kind === "service_gap" || trouble.kind === "pool_empty") return "/cluster#pools";
  if (trouble.kind === "dead_letters") return "/cluster#letters";
  if (trouble.kind.startsWith("pair_")) return "/languages";
  if (trouble.kind.startsWith("instance_") || trouble.kind === "letters_pending") return "/cluster";
  return trouble.kind === "catalogue" ? "/models" : null;
}

function names(trouble, words) {
  const more = trouble.count - trouble.names.length;
  return [trouble.names.join(", "), more > 0 && trouble.kind !== "pool_empty" ? ` ${words.say("andMore", { count: more })}` : ""].join("");
}
