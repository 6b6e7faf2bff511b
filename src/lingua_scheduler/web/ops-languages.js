/** Languages: which are in use, and for every pair how many slots there are and how many sessions ask for them. */

import { bar } from "./ops-chart.js";
import { h, marked } from "./ops-dom.js";
import { Matrix } from "./ops-matrix.js";
import { section, settled } from "./ops-parts.js";
import { openPage } from "./ops-shell.js";
import { Table } from "./ops-table.js";

let lang = "";

openPage({
  name: "languages",
  addresses: () => ({
    stats: "/api/v1/stats",
    pairs: lang ? `/api/v1/pairs?${new URLSearchParams({ lang })}` : "/api/v1/pairs",
  }),
  build(main, { words, format, look }) {
    const top = usageTable(words, format, { caption: words.say("topLanguages"), empty: words.say("topLanguagesEmpty") });
    const every = usageTable(words, format, { caption: words.say("languageTable"), empty: words.say("topLanguagesEmpty") });
    const matrix = new Matrix(words, format);
    const demand = demandTable(words, format);
    main.append(
      h(
        "div",
        { class: "columns" },
        section(words.say("topLanguages"), words.say("topLanguagesAbout"), top.element),
        section(words.say("demand"), words.say("demandAbout"), demand.element),
      ),
      section(words.say("matrix"), words.say("matrixAbout"), chooser(words, look), matrix.element),
      section(words.say("languageTable"), null, every.element),
    );
    return ({ stats, pairs }) => {
      const usage = stats.web_clients.language_usage;
      const rows = Object.entries(usage).map(([language, use]) => ({ language, ...use }));
      rows.sort((one, other) => other.total - one.total || one.language.localeCompare(other.language));
      const most = Math.max(1, ...rows.map((row) => row.total));
      top.show(stats.web_clients.top_languages.map(({ language }) => ({ language, ...usage[language] })), { most });
      every.show(rows, { most });
      demand.show(pairs.demands);
      matrix.show(pairs);
    };
  },
});

function chooser(words, look) {
  const changed = settled(look);
  const box = h("input", { type: "search", id: "lang", maxlength: 35, placeholder: words.say("matrixLangAbout"), spellcheck: "false", autocapitalize: "off" });
  box.value = lang;
  box.addEventListener("input", () => {
    lang = box.value.trim().toLowerCase();
    changed();
  });
  return h("div", { class: "filters", role: "search" }, h("label", {}, h("span", {}, words.say("matrixLang")), box));
}

function usageTable(words, format, { caption, empty }) {
  const number = (key, name) => ({ label: words.say(key), kind: "number", value: (row) => row[name], show: (value) => format.number(value) });
  return new Table({
    caption,
    empty,
    keyOf: (row) => row.language,
    kind: "bars many",
    columns: [
      { label: words.say("language"), kind: "name", value: (row) => row.language, show: (tag) => format.language(tag) },
      { label: words.say("share"), kind: "drawing", value: (row, { most }) => row.total / most, show: (share) => bar(share) },
      number("asSource", "as_source"),
      number("asTarget", "as_target"),
      number("total", "total"),
    ],
  });
}

function demandTable(words, format) {
  const number = (key, name, about) => ({ label: words.say(key), about: about && words.say(about), kind: "number", value: (row) => row[name], show: (value) => format.number(value) });
  return new Table({
    caption: words.say("demand"),
    empty: words.say("demandEmpty"),
    keyOf: (row) => row.pair,
    kind: "cards",
    columns: [
      { label: words.say("pair"), kind: "name", value: (row) => format.pair(row.pair) },
      number("sessions", "sessions"),
      number("load", "load_slots", "loadAbout"),
      number("waiting", "waiting_jobs", "waitingAbout"),
      {
        label: words.say("slots"),
        kind: "number",
        value: (row) => [row.free_slots, row.total_slots],
        show: ([free, total]) => (total ? marked(`${format.number(free)}/${format.number(total)}`, free ? "" : "warn", { warn: words.say("legendFull") }) : marked(words.say("matrixNone"), "bad", { bad: words.say("legendUnserved") })),
      },
    ],
  });
}
