// SPDX-License-Identifier: Apache-2.0
// Asks the server for its numbers and shows them. Names come from strangers: they become text, never markup.
"use strict";

const EVERY = 500; // ms
const VERDICTS = [["match", "good"], ["no match", "bad"], ["unknown person", "warn"], ["memcached unavailable", "bad"], ["malformed", "bad"], ["busy", "warn"]];
const STOPS = [
  ["client", "sends name and picture", null],
  ["kernel", "receives; asks for the person", 0],
  ["memcached", "looks the person up, while the kernel makes the picture's histogram", 1],
  ["kernel", "compares the histograms", 2],
  ["kernel", "answers", 3],
];

// Microseconds for people; below 0: not known.
const micros = (us) => time(us < 0 ? NaN : us / 1e6);

function showTiles(s) {
  const rate = s.history.length ? s.history[s.history.length - 1] : NaN;
  const total = s.spans[4];
  const list = [
    ["requests/s", number(rate)],
    ["requests", number(s.requests)],
    ["median in the server", total ? micros(total.median) : "–"],
    ["99th percentile", total ? micros(total.p99) : "–"],
    ["threshold", s.threshold.toFixed(3)],
    ...VERDICTS.map(([name, kind], i) => [name, number(s.verdicts[i]), s.verdicts[i] ? kind : ""]).filter((_, i) => i < 3 || s.verdicts[i]),
  ];
  setTiles(byId("tiles"), list);
}

function showWay(s) {
  const way = byId("way");
  if (!way.children.length) {
    for (const [who, does, span] of STOPS) {
      const item = element("li");
      const stop = element("div", span === null ? "stop" : `stop h${span}`);
      stop.append(element("div", "who", who), element("div", "does", does), element("div", "took"));
      item.append(stop);
      way.append(item);
    }
    const end = element("li");
    const stop = element("div", "stop");
    stop.append(element("div", "who", "client"), element("div", "does", "has the verdict"), element("div", "took"));
    end.append(stop);
    way.append(end);
  }
  const medians = STOPS.map(([, , span]) => (span !== null && s.spans[span] ? s.spans[span].median : NaN));
  medians.forEach((us, i) => setText(way.children[i].querySelector(".took"), STOPS[i][2] === null ? "" : micros(us)));
  const known = medians.slice(1).map((us) => (Number.isFinite(us) ? us : 0));
  const share = byId("share");
  share.replaceChildren(...known.map((us, i) => {
    const part = element("div", `h${i}`);
    part.style.flexGrow = us;
    return part;
  }));
  share.setAttribute("aria-label", `Shares of the time: ${known.map((us, i) => `${STOPS[i + 1][0]} ${micros(us)}`).join(", ")}`);
  const samples = s.spans[4] ? s.spans[4].samples : 0;
  setText(byId("way-note"), samples ? `Medians of ${number(samples)} requests of the last ${s.window_s} seconds; under load a block notes one in 4 ms.`
    : `There were no requests in the last ${s.window_s} seconds.`);
}

function showRate(s) {
  const most = Math.max(1, ...s.history);
  const n = s.history.length;
  const points = s.history.map((v, i) => `${(600 * (60 - n + i + 1) / 60).toFixed(1)} ${(78 - 74 * v / most).toFixed(1)}`);
  byId("rate").firstElementChild.setAttribute("d", n ? `M${points.join("L")}` : "");
  byId("rate").setAttribute("aria-label", `Requests per second in the last minute: at most ${number(Math.max(0, ...s.history))}`);
  setText(byId("rate-note"), `The last minute; at most ${number(Math.max(0, ...s.history))}.`);
}

function showLast(s) {
  byId("none").hidden = s.last.length > 0;
  byId("last").hidden = s.last.length === 0;
  const rows = s.last.map((r) => {
    const row = element("tr");
    const [word, kind] = VERDICTS[r.verdict];
    const compared = r.verdict < 2;
    const all = r.us.every((us) => us >= 0) ? r.us.reduce((a, b) => a + b, 0) : NaN;
    const name = element("td");
    name.append(element("div", "", r.name));
    name.firstChild.title = r.name;
    row.append(name, element("td", kind, word), element("td", "n", compared ? r.distance.toFixed(4) : "–"),
      element("td", "n", micros(r.us[1])), element("td", "n", micros(all)), element("td", "n", r.age_ms < 1000 ? "now" : `${age(r.age_ms)} ago`));
    if (s.memcached[r.server]) row.children[3].title = s.memcached[r.server];
    return row;
  });
  byId("last").tBodies[0].replaceChildren(...rows);
}

let failed = Infinity; // requests that memcached had no answer for

async function look() {
  const s = await (await get("state")).json();
  showContent();
  setText(byId("server"), `${s.listens}; ${plural(s.blocks, "block", "blocks")} on ${s.exec}; memcached at ${s.memcached.join(", ")}`);
  showTiles(s);
  showWay(s);
  showRate(s);
  showLast(s);
  if (s.verdicts[3] > failed) say("bad", "memcached does not answer");
  else say("good", "running");
  failed = s.verdicts[3];
}

watch("server", EVERY, look, () => {});
