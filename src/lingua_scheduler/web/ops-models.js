/** Models: service packages and their variants, how many nodes have them, and whether the catalogue is fresh. */

import { bar } from "./ops-chart.js";
import { h, marked } from "./ops-dom.js";
import { section, settled } from "./ops-parts.js";
import { openPage } from "./ops-shell.js";
import { Table } from "./ops-table.js";

const SHA_SHOWN = 12;
const MOST_VARIANTS = 12;
let find = "";

openPage({
  name: "models",
  addresses: () => ({ stats: "/api/v1/stats", metrics: "/api/v1/metrics" }),
  build(main, { words, format }) {
    const packages = packageTable(words, format);
    const types = typeTable(words, format);
    const catalogue = h("p", { class: "note catalogue", role: "status" });
    const matched = h("p", { class: "soft", role: "status" });
    let last = null;
    const show = () => {
      const nodes = last.stats.nodes;
      const shown = nodes.available_services.filter((service) => isLike(service, find));
      const counts = nodes.service_node_counts;
      shown.sort((one, other) => (counts[other.service_id] ?? 0) - (counts[one.service_id] ?? 0) || one.service_id.localeCompare(other.service_id));
      packages.empty = words.say(nodes.total_services ? "modelsNotFound" : "modelsEmpty");
      packages.show(shown, { counts, most: Math.max(1, ...Object.values(counts)) });
      matched.textContent = words.say("modelsMatched", { matched: format.number(shown.length), total: format.number(nodes.total_services) });
    };
    main.append(
      section(words.say("catalogue"), null, catalogue),
      section(words.say("packages"), null, search(words, settled(() => last && show())), matched, packages.element),
      section(words.say("types"), words.say("typesAbout"), types.element),
    );
    return (said, serverMs) => {
      last = said;
      show();
      showTypes(types, said.stats.nodes);
      const { text, level } = freshness(said.metrics.service_catalog, { words, format, serverMs });
      if (catalogue.textContent !== text) catalogue.replaceChildren(marked(text, level, words.levels));
    };
  },
});

function search(words, changed) {
  const box = h("input", { type: "search", id: "find", maxlength: 100, placeholder: words.say("findPackage"), spellcheck: "false" });
  box.value = find;
  box.addEventListener("input", () => {
    find = box.value.trim().toLowerCase();
    changed();
  });
  return h("div", { class: "filters", role: "search" }, h("label", {}, h("span", {}, words.say("find")), box));
}

function isLike(service, text) {
  const places = [service.service_id, service.name, ...service.variants.map((variant) => variant.platform)];
  return places.some((place) => place.toLowerCase().includes(text));
}

/** Say how old the catalogue is, and what keeps it from being fetched. */
function freshness(catalogue, { words, format, serverMs }) {
  const { fail_count: count, last_success_at_ms: at, last_error: error, source } = catalogue;
  const time = format.ago(at, serverMs);
  if (count) return { text: words.say(source === "local" ? "catalogueLocal" : "catalogueFailing", { count, time, error }), level: "warn" };
  if (source === "none") return { text: words.say("catalogueAbsent"), level: "" };
  return { text: words.say(source === "local" ? "catalogueFile" : "catalogueFresh", { time, count: format.number(catalogue.services) }), level: "" };
}

function packageTable(words, format) {
  return new Table({
    caption: words.say("packages"),
    empty: words.say("modelsEmpty"),
    keyOf: (row) => row.service_id,
    kind: "cards",
    columns: [
      {
        label: words.say("package"),
        kind: "name",
        value: (row) => [row.service_id, row.name],
        show: ([id, name]) => [id, name !== id && h("small", { class: "soft block" }, name)].filter(Boolean),
      },
      { label: words.say("latest"), value: (row) => row.latest_version || "–" },
      {
        label: words.say("heat"),
        kind: "usage",
        value: (row, { counts, most }) => [counts[row.service_id] ?? 0, most],
        show: ([count, most]) => [h("span", {}, format.number(count)), bar(count / most)],
      },
      { label: words.say("variants"), kind: "wide", value: (row) => row.variants, show: (variants) => variantList(variants, words, format) },
    ],
  });
}

function variantList(variants, words, format) {
  const more = variants.length - MOST_VARIANTS;
  return h(
    "ul",
    { class: "variants" },
    variants.slice(0, MOST_VARIANTS).map((variant) => h("li", {}, variantText(variant, words, format))),
    more > 0 && h("li", { class: "soft" }, words.say("andMore", { count: more })),
  );
}

function variantText({ version, platform, artifact }, words, format) {
  const parts = [h("span", {}, [version, platform].filter(Boolean).join(" · ") || "–")];
  if (!artifact) return parts;
  const size = [artifact.type, Number.isFinite(artifact.size_bytes) && format.bytes(artifact.size_bytes)].filter(Boolean).join(" ");
  const sha = artifact.sha256;
  return [...parts, size && h("span", { class: "soft" }, size), sha && h("code", { title: `${words.say("sha")} ${sha}` }, sha.slice(0, SHA_SHOWN))].filter(Boolean);
}

function typeTable(words, format) {
  return new Table({
    caption: words.say("types"),
    empty: words.say("typesEmpty"),
    keyOf: (row) => row.type,
    kind: "bars",
    columns: [
      { label: words.say("type"), kind: "name", value: (row) => row.type },
      { label: words.say("share"), kind: "drawing", value: (row, { most }) => [row.used / most, row.count / most], show: ([used, whole]) => bar(used, whole) },
      { label: words.say("nodes"), kind: "number", value: (row) => row.count, show: (value) => format.number(value) },
      { label: words.say("inUse"), kind: "number", value: (row) => row.used, show: (value) => format.number(value) },
    ],
  });
}

function showTypes(table, nodes) {
  const rows = Object.entries(nodes.type_node_counts).map(([type, count]) => ({ type, count, used: nodes.type_in_use_counts[type] ?? 0 }));
  rows.sort((one, other) => other.count - one.count || one.type.localeCompare(other.type));
  table.show(rows, { most: Math.max(1, ...rows.map((row) => row.count)) });
}
