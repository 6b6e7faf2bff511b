/** The cluster: instances, pools with what they lack, nodes with why they are not chosen, dead letters. */

import { h, levelOf, marked } from "./ops-dom.js";
import { nodeTable } from "./ops-node-table.js";
import { Pager, section, settled, Tiles } from "./ops-parts.js";
import { openPage } from "./ops-shell.js";
import { Table } from "./ops-table.js";

const ROWS = 50;
const LETTERS = 20;
const PENDING = [10, 100];
const DEAD = [0, 10];
const NOWHERE = -1;
const STATES = [
  "",
  "ready",
  "out",
  "offline",
  "status_not_ready",
  "capacity_exceeded",
  "resource_threshold_exceeded",
  "lang_pair_unsupported",
  "gpu_unavailable",
  "model_not_available",
  "not_in_public_pool",
];

const asked = new URLSearchParams(location.search);
const wish = { find: asked.get("find") ?? "", state: STATES.includes(asked.get("state")) ? asked.get("state") : "" };
let pager = null;
let arrived = false;

openPage({
  name: "cluster",
  addresses: () => ({
    cluster: "/api/v1/cluster?limit=1",
    nodes: `/api/v1/nodes?${nodeQuery()}`,
    pools: "/api/v1/phase3/pools",
    letters: `/api/v1/dead-letters?limit=${LETTERS}`,
  }),
  build(main, { words, format, look }) {
    const tiles = new Tiles(words.say("numbers"), tilesOf(words), words);
    const instances = instanceTable(words, format);
    const pools = poolTable(words, format);
    const nodes = nodeTable(words, format);
    const letters = letterTable(words, format);
    const matched = h("p", { class: "soft", role: "status" });
    pager = new Pager(ROWS, words, look);
    main.append(
      tiles.element,
      section(words.say("instances"), null, instances.element),
      named("pools", section(words.say("pools"), words.say("poolsAbout"), pools.element)),
      named("nodes", section(words.say("nodes"), null, filters(words, look), matched, nodes.element, pager.element)),
      named("letters", section(words.say("letters"), null, letters.element)),
    );
    return (said, serverMs) => {
      showTiles(tiles, said.cluster, format);
      instances.show(said.cluster.instances, {});
      pools.show(said.pools.pools, {});
      nodes.empty = words.say(said.nodes.total ? "nodesNotFound" : "nodesEmpty");
      nodes.show(said.nodes.nodes, { serverMs });
      matched.textContent = words.say("nodesMatched", { matched: format.number(said.nodes.matched), total: format.number(said.nodes.total) });
      pager.show({ rows: said.nodes.nodes.length, total: said.nodes.matched, next: said.nodes.next });
      letters.show(said.letters.letters, {});
      arrive();
    };
  },
});

function nodeQuery() {
  const query = new URLSearchParams({ limit: ROWS });
  if (wish.find) query.set("find", wish.find);
  if (wish.state) query.set("state", wish.state);
  if (pager?.cursor) query.set("cursor", pager.cursor);
  return query;
}

/** Go to the part that the address names, which was not there when the browser looked for it. */
function arrive() {
  if (arrived) return;
  arrived = true;
  const part = ["pools", "nodes", "letters"].find((name) => location.hash === `#${name}`);
  if (part) document.getElementById(part).scrollIntoView();
}

function named(id, element) {
  element.id = id;
  return element;
}

function filters(words, look) {
  const change = () => {
    const query = new URLSearchParams(Object.entries(wish).filter(([, value]) => value));
    history.replaceState(null, "", location.pathname + (query.size ? `?${query}` : ""));
    pager.restart();
    look();
  };
  const typed = settled(change);
  const find = h("input", { type: "search", id: "find", maxlength: 100, placeholder: words.say("findAbout"), spellcheck: "false" });
  find.value = wish.find;
  find.addEventListener("input", () => {
    wish.find = find.value.trim();
    typed();
  });
  const name = (state) => (["", "ready", "out"].includes(state) ? words.say(`state_${state || "all"}`) : words.say("notChosen", { why: words.known("why", state) }));
  const state = h("select", { id: "state" }, STATES.map((value) => h("option", { value, selected: value === wish.state }, name(value))));
  state.addEventListener("change", () => {
    wish.state = state.value;
    change();
  });
  return h(
    "div",
    { class: "filters", role: "search" },
    h("label", {}, h("span", {}, words.say("find")), find),
    h("label", {}, h("span", {}, words.say("filterState")), state),
  );
}

function tilesOf(words) {
  const about = { nodesReadyTile: "nodesReadyAbout", pending: "pendingAbout", deadLetters: "deadLettersAbout" };
  const keys = ["instances", "instancesOnline", "nodesTotal", "nodesOnline", "nodesReadyTile", "sessions", "pending", "deadLetters"];
  return keys.map((key) => ({ key, label: words.say(key), about: about[key] ? words.say(about[key]) : "" }));
}

function showTiles(tiles, cluster, format) {
  const fewer = (part, whole) => (part < whole ? "warn" : "");
  tiles.show("instances", format.number(cluster.total_instances));
  tiles.show("instancesOnline", format.number(cluster.online_instances), { level: fewer(cluster.online_instances, cluster.total_instances) });
  tiles.show("nodesTotal", format.number(cluster.total_nodes));
  tiles.show("nodesOnline", format.number(cluster.online_nodes), { level: fewer(cluster.online_nodes, cluster.total_nodes) });
  tiles.show("nodesReadyTile", format.number(cluster.ready_nodes), { level: fewer(cluster.ready_nodes, cluster.online_nodes) });
  tiles.show("sessions", format.number(cluster.total_sessions));
  tiles.show("pending", format.number(cluster.total_pending), { level: levelOf(cluster.total_pending, ...PENDING) });
  tiles.show("deadLetters", format.number(cluster.total_dlq), { level: levelOf(cluster.total_dlq, ...DEAD) });
}

function instanceTable(words, format) {
  const plain = (key, name) => ({ label: words.say(key), kind: "number", value: (row) => row[name], show: (value) => format.number(value) });
  const judged = (key, name, limits) => ({
    ...plain(key, name),
    show: (value) => marked(format.number(value), levelOf(value, ...limits), words.levels),
  });
  return new Table({
    caption: words.say("instances"),
    empty: words.say("instancesEmpty"),
    keyOf: (row) => row.instance_id,
    kind: "cards",
    columns: [
      { label: words.say("instance"), kind: "name", value: (row) => row.instance_id },
      { label: words.say("host"), value: (row) => row.hostname || "–" },
      { label: words.say("version"), value: (row) => row.version || "–" },
      { label: words.say("state"), value: (row) => [row.is_online, row.draining], show: (state) => instanceState(state, words) },
      { label: words.say("uptime"), kind: "number", value: (row) => format.duration(row.uptime_seconds) },
      plain("sessions", "sessions_owned"),
      plain("nodes", "nodes_owned"),
      plain("jobs", "jobs_open"),
      plain("inbox", "inbox_length"),
      judged("pending", "inbox_pending", PENDING),
      judged("deadLetters", "dlq_length", DEAD),
      { label: words.say("pid"), kind: "number", value: (row) => String(row.pid || "–") },
    ],
  });
}

function instanceState([isOnline, draining], words) {
  if (!isOnline) return h("span", { class: "badge bad" }, words.say("offline"));
  if (draining) return h("span", { class: "badge warn" }, words.say("draining"));
  return h("span", { class: "badge good" }, words.say("online"));
}

function poolTable(words, format) {
  return new Table({
    caption: words.say("pools"),
    empty: words.say("poolsEmpty"),
    keyOf: (row) => row.pool_id,
    kind: "cards",
    columns: [
      {
        label: words.say("pool"),
        kind: "name",
        value: (row) => [row.pool_id, row.pool_name ?? ""],
        show: ([id, name]) => (id === NOWHERE ? words.say("poolNowhere") : `${id} ${name}`.trim()),
      },
      {
        label: words.say("poolNodes"),
        kind: "number",
        value: (row) => [row.ready_nodes, row.online_nodes, row.total_nodes],
        show: ([ready, online, total]) => [
          marked(`${format.number(ready)}`, total > 0 && ready === 0 ? "bad" : "", words.levels),
          h("small", { class: "soft block" }, words.say("nodesOf", { online, total })),
        ],
      },
      {
        label: words.say("installedReady"),
        value: (row) => servicesOf(row),
        show: (services) => (services.length ? h("ul", { class: "chips" }, services.map((each) => serviceChip(each, words))) : "–"),
      },
      { label: words.say("requires"), value: (row) => (row.pool_required_services ?? []).join(", ") || "–" },
    ],
  });
}

function servicesOf(row) {
  return Object.entries(row.core_services_installed)
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([type, installed]) => ({ type, installed, ready: row.core_services_ready[type] ?? 0 }));
}

function serviceChip({ type, installed, ready }, words) {
  const short = ready < installed;
  const text = words.say(short ? "poolGap" : "poolWhole", { type, installed, ready });
  return h("li", { class: `chip ${short ? (ready ? "warn" : "bad") : "good"}` }, h("span", { "aria-hidden": "true" }, short ? "▲ " : "✓ "), text);
}

function letterTable(words, format) {
  return new Table({
    caption: words.say("letters"),
    empty: words.say("lettersEmpty"),
    keyOf: (row) => `${row.instance_id}/${row.letter_id}`,
    kind: "cards",
    columns: [
      { label: words.say("letter"), kind: "name", value: (row) => row.letter_id },
      { label: words.say("instance"), value: (row) => row.instance_id },
      { label: words.say("reason"), value: (row) => row.reason || "–" },
      { label: words.say("from"), value: (row) => row.source || "–" },
      { label: words.say("deliveries"), kind: "number", value: (row) => format.number(row.deliveries) },
      { label: words.say("buried"), value: (row) => format.moment(row.buried_ms) },
      { label: words.say("size"), kind: "number", value: (row) => format.bytes(row.bytes) },
    ],
  });
}
