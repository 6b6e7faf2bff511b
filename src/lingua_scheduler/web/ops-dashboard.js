/** The dashboard: what is wrong, who talks, what is answered, and where the time goes. */

import { bar, Course } from "./ops-chart.js";
import { h, levelOf } from "./ops-dom.js";
import { section, Tiles } from "./ops-parts.js";
import { openPage } from "./ops-shell.js";
import { Table } from "./ops-table.js";
import { TroubleList } from "./ops-troubles.js";

const TOP_PACKAGES = 10;
const DEAD_BAD = 10;

openPage({
  name: "dashboard",
  addresses: () => ({
    troubles: "/api/v1/troubles",
    stats: "/api/v1/stats",
    cluster: "/api/v1/cluster?limit=1",
    trends: "/api/v1/trends",
  }),
  build(main, { words, format }) {
    const troubles = new TroubleList(words, format);
    const tiles = new Tiles(words.say("numbers"), tilesOf(words), words);
    const courses = coursesOf(words, format);
    const stages = stageTable(words, format);
    const languages = languageTable(words, format);
    const packages = packageTable(words, format);
    const stagesAbout = h("p", { class: "soft about" });
    main.append(
      troubles.element,
      tiles.element,
      h("div", { class: "grid" }, courses.map(({ course }) => course.element)),
      h(
        "div",
        { class: "columns" },
        section(words.say("latency"), null, stagesAbout, stages.element),
        section(words.say("topLanguages"), words.say("topLanguagesAbout"), languages.element, more("/languages", words)),
        section(words.say("topPackages"), null, packages.element, more("/models", words)),
      ),
    );
    return ({ troubles: wrong, stats, cluster, trends }) => {
      troubles.show(wrong);
      showTiles(tiles, { stats, cluster, trends }, { words, format });
      const { course } = trends;
      for (const { course: drawing, columns } of courses) drawing.show(course.at_ms, columns.map((name) => course[name]));
      stagesAbout.textContent = words.say("latencyAbout", { time: format.duration(trends.stages_window_s) });
      showStages(stages, trends.stages);
      const top = stats.web_clients.top_languages;
      languages.show(top, { most: top[0]?.count ?? 1 });
      showPackages(packages, stats.nodes.service_node_counts);
    };
  },
});

function tilesOf(words) {
  const tile = (key, name = key) => ({ key, label: words.say(name), about: words.say(`${name}About`) });
  return [
    tile("users"),
    { key: "nodesReady", label: words.say("nodesReady") },
    { key: "jobs", label: words.say("jobsOpen"), about: words.say("jobsAbout") },
    tile("answered"),
    tile("missing"),
    tile("refused"),
    tile("deadLetters"),
    tile("packages"),
    { key: "spare", label: words.say("spare") },
  ];
}

function showTiles(tiles, { stats, cluster, trends }, { words, format }) {
  const number = (value) => format.number(value);
  const power = stats.nodes.compute_power;
  const [answered, missing] = [trends.answered_last_min, trends.missing_last_min];
  tiles.show("users", number(stats.web_clients.active_users));
  const nodes = { online: number(cluster.online_nodes), total: number(cluster.total_nodes) };
  const noneReady = cluster.total_nodes > 0 && cluster.ready_nodes === 0;
  tiles.show("nodesReady", number(cluster.ready_nodes), { more: words.say("nodesOf", nodes), level: noneReady ? "bad" : "" });
  tiles.show("jobs", number(cluster.total_jobs));
  tiles.show("answered", number(answered));
  tiles.show("missing", number(missing), { level: missing === 0 ? "" : missing > answered ? "bad" : "warn" });
  tiles.show("refused", number(trends.refusals_per_min), { level: levelOf(trends.refusals_per_min, 0, Infinity) });
  tiles.show("deadLetters", number(cluster.total_dlq), { level: levelOf(cluster.total_dlq, 0, DEAD_BAD) });
  tiles.show("packages", number(stats.nodes.total_services));
  const others = { cpu: number(power.total_cpu_power), memory: number(power.total_memory_power) };
  tiles.show("spare", number(power.total_gpu_power), { more: words.say("spareAbout", others) });
}

function coursesOf(words, format) {
  const course = (name, columns, series) => ({
    columns,
    course: new Course({ title: words.say(name), about: words.say(`${name}About`), series: series.map((key) => words.say(key)) }, words, format),
  });
  return [
    course("sessionsCourse", ["sessions"], ["sessionsCourse"]),
    course("jobsCourse", ["jobs"], ["jobsCourse"]),
    course("answersCourse", ["answered", "missing"], ["answeredSeries", "missingSeries"]),
    course("nodesCourse", ["ready_nodes", "refused"], ["nodesSeries", "refusedSeries"]),
  ];
}

function stageTable(words, format) {
  return new Table({
    caption: words.say("latency"),
    empty: words.say("latencyEmpty"),
    keyOf: (row) => row.stage,
    kind: "bars",
    columns: [
      { label: words.say("stage"), kind: "name", value: (row) => row.stage, show: (stage) => words.known("stage", stage) },
      {
        label: words.say("share"),
        kind: "drawing",
        value: (row, { most }) => [(row.p50_ms ?? 0) / most, (row.p95_ms ?? 0) / most],
        show: ([p50, p95]) => bar(p50, p95),
      },
      { label: words.say("p50"), kind: "number", value: (row) => row.p50_ms, show: (value) => format.ms(value) },
      { label: words.say("p95"), kind: "number", value: (row) => row.p95_ms, show: (value) => format.ms(value) },
      { label: words.say("samples"), kind: "number", value: (row) => row.count, show: (value) => format.number(value) },
    ],
  });
}

function showStages(table, stages) {
  const measured = stages.filter((stage) => stage.count > 0);
  table.show(measured, { most: Math.max(1, ...measured.map((stage) => stage.p95_ms)) });
}

function languageTable(words, format) {
  return new Table({
    caption: words.say("topLanguages"),
    empty: words.say("topLanguagesEmpty"),
    keyOf: (row) => row.language,
    kind: "bars",
    columns: [
      { label: words.say("language"), kind: "name", value: (row) => row.language, show: (tag) => format.language(tag) },
      { label: words.say("share"), kind: "drawing", value: (row, { most }) => row.count / most, show: (share) => bar(share) },
      { label: words.say("uses"), kind: "number", value: (row) => row.count, show: (value) => format.number(value) },
    ],
  });
}

function packageTable(words, format) {
  return new Table({
    caption: words.say("topPackages"),
    empty: words.say("packagesEmpty"),
    keyOf: ([name]) => name,
    kind: "bars",
    columns: [
      { label: words.say("package"), kind: "name", value: ([name]) => name },
      { label: words.say("share"), kind: "drawing", value: ([, count], { most }) => count / most, show: (share) => bar(share) },
      { label: words.say("nodes"), kind: "number", value: ([, count]) => count, show: (value) => format.number(value) },
    ],
  });
}

function showPackages(table, counts) {
  const packages = Object.entries(counts).sort(([one, a], [other, b]) => b - a || one.localeCompare(other));
  table.show(packages.slice(0, TOP_PACKAGES), { most: packages[0]?.[1] ?? 1 });
}

function more(address, words) {
  return h("p", {}, h("a", { href: address }, words.say("all")));
}
