/** The table of nodes: how each stands, what it does, and why it is not chosen. */

import { bar } from "./ops-chart.js";
import { h } from "./ops-dom.js";
import { Table } from "./ops-table.js";

const MOST_SHOWN = 6; // services and capabilities of one node

/** Make the table. */
export function nodeTable(words, format) {
  const usage = (key, name) => ({
    label: words.say(key),
    kind: "usage",
    value: (row) => row[name],
    show: (value) => [h("span", {}, format.percent(value)), Number.isFinite(value) && bar(value / 100)].filter(Boolean),
  });
  return new Table({
    caption: words.say("nodes"),
    empty: words.say("nodesEmpty"),
    keyOf: (row) => row.node_id,
    kind: "cards nodes",
    columns: [
      {
        label: words.say("node"),
        kind: "name",
        value: (row) => [row.node_id, row.instance_id, row.pool_id],
        show: ([id, instance, pool]) => [id, h("small", { class: "soft block" }, `${words.say("pool")} ${pool} · ${instance}`)],
      },
      { label: words.say("platform"), value: (row) => [row.platform, row.version].filter(Boolean).join(" ") || "–" },
      {
        label: words.say("state"),
        kind: "wide",
        value: (row) => [row.status, row.online, row.excluded],
        show: (state) => stateOf(state, words),
      },
      usage("cpu", "cpu_usage"),
      usage("gpu", "gpu_usage"),
      usage("memory", "memory_usage"),
      { label: words.say("jobs"), kind: "number", value: (row) => `${row.current_jobs}/${row.max_concurrent_jobs}` },
      {
        label: words.say("services"),
        value: (row) => row.services,
        show: (services) => list(services.map((each) => h("li", { class: "chip" }, each.service_id, each.status && each.status !== "running" && ` (${each.status})`)), words),
      },
      {
        label: words.say("capabilities"),
        value: (row) => row.capabilities,
        show: (capabilities) => list(capabilities.map((each) => capability(each, words)), words),
      },
      { label: words.say("heartbeat"), value: (row, { serverMs }) => format.ago(row.last_heartbeat, serverMs) },
    ],
  });
}

function stateOf([status, online, excluded], words) {
  const kind = excluded === null ? "good" : online ? "warn" : "bad";
  return [
    h("span", { class: `badge ${kind}` }, online ? words.known("status", status) : words.say("offline")),
    h("small", { class: "block" }, excluded === null ? words.say("chosen") : words.say("notChosen", { why: words.known("why", excluded) })),
  ];
}

function capability({ service_type: type, ready, reason }, words) {
  const text = words.say(ready ? "capabilityReady" : reason ? "capabilityNotBecause" : "capabilityNot", { type, reason });
  return h("li", { class: `chip ${ready ? "good" : "warn"}` }, h("span", { "aria-hidden": "true" }, ready ? "✓ " : "▲ "), text);
}

function list(items, words) {
  if (!items.length) return "–";
  const more = items.length - MOST_SHOWN;
  return h("ul", { class: "chips" }, items.slice(0, MOST_SHOWN), more > 0 && h("li", { class: "soft" }, words.say("andMore", { count: more })));
}
