/** Compute power: every machine, the largest GPUs first, and how much of it is free. */

import { bar } from "./ops-chart.js";
import { h } from "./ops-dom.js";
import { Pager, section, Tiles } from "./ops-parts.js";
import { openPage } from "./ops-shell.js";
import { Table } from "./ops-table.js";

const ROWS = 50;
let pager = null;

openPage({
  name: "compute-power",
  addresses: () => {
    const query = new URLSearchParams({ limit: ROWS });
    if (pager?.cursor) query.set("cursor", pager.cursor);
    return { power: `/api/v1/compute-power?${query}` };
  },
  build(main, { words, format, look }) {
    const tiles = new Tiles(words.say("powerTotal"), ["gpuMemory", "cores", "memory", "nodes"].map((key) => ({ key, label: words.say(key) })), words);
    const machines = machineTable(words, format);
    pager = new Pager(ROWS, words, look);
    main.append(
      h("h2", {}, words.say("powerTotal")),
      tiles.element,
      section(words.say("machines"), words.say("powerAbout"), machines.element, pager.element),
    );
    return ({ power }) => {
      const spare = (value, unit) => ({ more: words.say("spareOf", { spare: words.say(unit, { value: format.number(value) }) }) });
      tiles.show("gpuMemory", words.say("gb", { value: format.number(power.total_gpu_gb) }), spare(power.total_gpu_power, "gb"));
      tiles.show("cores", words.say("coresOf", { value: format.number(power.total_cpu_cores) }), spare(power.total_cpu_power, "coresOf"));
      tiles.show("memory", words.say("gb", { value: format.number(power.total_memory_gb) }), spare(power.total_memory_power, "gb"));
      tiles.show("nodes", format.number(power.total));
      const most = (name) => Math.max(1, ...power.nodes.map((node) => node[name]));
      machines.show(power.nodes, { gpu: most("gpu_gb"), cpu: most("cpu_cores"), memory: most("memory_gb") });
      pager.show({ rows: power.nodes.length, total: power.total, next: power.next });
    };
  },
});

function machineTable(words, format) {
  const amount = (label, name, unit) => ({
    label,
    kind: "usage",
    value: (row, most) => [row[`${name}_${unit}`], row[`${name}_power`], most[name], row[`${name}_usage`]],
    show: ([whole, free, most, used]) => [
      h("span", {}, words.say(unit === "cores" ? "coresOf" : "gb", { value: format.number(whole) })),
      bar(free / most, whole / most),
      h("small", { class: "soft block" }, whole ? [words.say("spareOf", { spare: format.number(free) }), used === null ? "" : ` · ${words.say("used", { percent: format.percent(used) })}`].join("") : "–"),
    ],
  });
  return new Table({
    caption: words.say("machines"),
    empty: words.say("powerEmpty"),
    keyOf: (row) => row.node_id,
    kind: "cards",
    columns: [
      {
        label: words.say("node"),
        kind: "name",
        value: (row) => [row.node_id, row.platform],
        show: ([id, platform]) => [id, h("small", { class: "soft block" }, platform || "–")],
      },
      {
        label: words.say("state"),
        kind: "wide",
        value: (row) => [row.online, row.excluded],
        show: ([online, excluded]) => stateOf(online, excluded, words),
      },
      amount(words.say("gpuMemory"), "gpu", "gb"),
      amount(words.say("cores"), "cpu", "cores"),
      amount(words.say("memory"), "memory", "gb"),
      { label: words.say("gpus"), value: (row) => row.gpus.join(", ") || "–" },
      {
        label: words.say("efficiency"),
        value: (row) => Object.entries(row.service_efficiencies).map(([service, value]) => `${service} ${format.number(value)}`).join(", ") || "–",
      },
    ],
  });
}

function stateOf(online, excluded, words) {
  if (excluded === null) return h("span", { class: "badge good" }, words.say("chosen"));
  return [
    h("span", { class: `badge ${online ? "warn" : "bad"}` }, words.say(online ? "online" : "offline")),
    h("small", { class: "block" }, words.say("notChosen", { why: words.known("why", excluded) })),
  ];
}
