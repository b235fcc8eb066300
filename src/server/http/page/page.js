// SPDX-License-Identifier: Apache-2.0
// Shows what GET metrics tells, every two seconds, and every five what the models did in the last ten minutes.
"use strict";

const EVERY = 2000; // ms
let last = null; // the answer before: rates are differences
let begun = null; // when the first answer came, which the machine's charts begin with
const HISTORY_EVERY = 5000; // ms
let historyAt = -Infinity;
const past = new Map(); // of each model: what it did in the last ten minutes
const keyOf = (name, version) => JSON.stringify([name, version]);

// ---- the text format of Prometheus

// `name{label="value",…} number`, as {name, labels, value}; null for what is no such line.
function parseLine(line) {
  const begin = /^([a-zA-Z_:][\w:]*)/.exec(line);
  if (!begin) return null;
  const labels = {};
  let at = begin[0].length;
  if (line[at] === "{") {
    const one = /[{,]([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/y;
    one.lastIndex = at;
    for (let m; (m = one.exec(line)); at = one.lastIndex) {
      labels[m[1]] = m[2].replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    if (line[at] !== "}") return null;
    at++;
  }
  const value = Number(line.slice(at).trim().split(" ")[0].replace("+Inf", "Infinity"));
  return Number.isNaN(value) ? null : { name: begin[1], labels, value };
}

function newModel(labels) {
  return { name: labels.model, version: labels.version, value: {}, batches: [], buckets: [] };
}

function parse(text) {
  const all = { models: new Map(), gpus: new Map(), value: {}, cpu: {}, info: {}, at: performance.now() };
  const entry = (map, key, make) => map.get(key) || map.set(key, make()).get(key);
  for (const line of text.split("\n")) {
    const s = parseLine(line);
    if (!s) continue;
    if (s.labels.model !== undefined) {
      const m = entry(all.models, keyOf(s.labels.model, s.labels.version), () => newModel(s.labels));
      if (s.labels.le !== undefined) m.buckets.push([Number(s.labels.le.replace("+Inf", "Infinity")), s.value]);
      else if (s.labels.batch_size !== undefined) {
        if (s.name === "gpuwire_batch_exec_count") m.batches.push([Number(s.labels.batch_size), s.value]);
      }
      else m.value[s.name] = s.value;
    } else if (s.labels.gpu_uuid !== undefined) {
      entry(all.gpus, s.labels.gpu_uuid, () => ({}))[s.name] = s.value;
    } else if (s.name === "gpuwire_cpu_seconds_total") {
      all.cpu[s.labels.part] = s.value;
    } else if (s.name === "gpuwire_server_info") {
      all.info = s.labels;
    } else {
      all.value[s.name] = s.value;
    }
  }
  return all;
}

// The bound below which so large a part of the requests lies.
function quantile(buckets, part) {
  const all = buckets.length ? buckets[buckets.length - 1][1] : 0;
  if (!all) return NaN;
  const hit = buckets.find((b) => b[1] >= all * part);
  return Number.isFinite(hit[0]) ? hit[0] : buckets[buckets.length - 2][0];
}

// ---- the last ten minutes

// A chart without anything in it would hide the others.
function showChart(chart, ages, lists) {
  chart.figure.hidden = !lists.some((values) => values.some((v) => v > 0));
  chart.show(ages, lists);
}

// Values that this page has seen, in lists by name.
class Seen {
  constructor(names) {
    this.names = names;
    this.at = [];
    this.lists = names.map(() => []);
  }

  add(at, values) {
    this.at.push(at);
    this.names.forEach((name, i) => this.lists[i].push(values[name]));
    while (at - this.at[0] > SPAN * 1000) [this.at, ...this.lists].forEach((list) => list.shift());
  }

  show(chart) {
    const end = this.at[this.at.length - 1];
    showChart(chart, this.at.map((at) => (end - at) / 1000), this.lists);
  }
}

async function lookBack() {
  if (performance.now() - historyAt < HISTORY_EVERY) return;
  historyAt = performance.now();
  const answer = await (await get("history")).json();
  past.clear();
  for (const m of answer.models) {
    const scaled = (name, factor) => m[name].map((v) => (v === null ? null : v * factor));
    const perSecond = 1000 / answer.every_ms;
    past.set(keyOf(m.name, m.version), {
      ages: agesOf(m.success.length, answer.every_ms, answer.age_ms),
      requests: [scaled("success", perSecond)],
      latency: [scaled("median_ns", 1e-9), scaled("p99_ns", 1e-9), scaled("queue_ns", 1e-9)],
      refused: [scaled("failed", perSecond), scaled("late", perSecond), scaled("refused", perSecond)],
    });
  }
}

// ---- models

function histogram(buckets) {
  const chart = element("div", "chart");
  const axis = element("div", "axis");
  const counts = buckets.map((b, i) => b[1] - (i ? buckets[i - 1][1] : 0));
  const first = counts.findIndex((n) => n > 0);
  if (first < 0) return [element("p", "axis", "no request was answered yet")];
  const behind = counts.length - [...counts].reverse().findIndex((n) => n > 0);
  const most = Math.max(...counts);
  for (let i = Math.max(0, first - 1); i < Math.min(counts.length, behind + 1); i++) {
    const bar = element("div");
    const from = i ? time(buckets[i - 1][0]) : "0";
    bar.style.height = `${counts[i] ? Math.max(2, (100 * counts[i]) / most) : 0}%`;
    bar.title = `${from} to ${time(buckets[i][0])}: ${number(counts[i])}`;
    chart.append(bar);
  }
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", `${number(buckets[buckets.length - 1][1])} requests by latency`);
  axis.append(element("span", "", first > 0 ? time(buckets[first - 1][0]) : "0"));
  axis.append(element("span", "", time(buckets[Math.min(behind, buckets.length - 2)][0])));
  return [chart, axis];
}

function batches(all) {
  const most = Math.max(...all.map((b) => b[1]), 1);
  return all.map(([size, count]) => {
    const row = element("div", "batch");
    const track = element("div", "track");
    const bar = element("div");
    bar.style.width = `${(100 * count) / most}%`;
    track.append(bar);
    row.append(element("span", "", `of ${size}`), track, element("span", "count", `${number(count)} runs`));
    return row;
  });
}

function newModelCard(key) {
  const card = element("article", "card model");
  const name = element("h2");
  const tiles = element("div", "tiles");
  const times = element("div", "times");
  const charts = {
    requests: new TimeChart("Requests", ["answered per second"], number),
    latency: new TimeChart("Latency", ["median", "99 %", "mean time in the queue"], time),
    refused: new TimeChart("Not answered, per second", ["failed", "late", "made no sense"], number),
  };
  const histogramBox = element("div");
  const batchBox = element("div");
  times.append(...Object.values(charts).map((c) => c.figure));
  card.append(name, tiles, times);
  card.append(element("h3", "", "Latency in the server, since the model is served"), histogramBox);
  card.append(element("h3", "", "Batches"), batchBox);
  card.parts = { name, tiles, charts, histogramBox, batchBox };
  card.key = key;
  return card;
}

function modelTiles(m, rate) {
  const v = m.value;
  return [
    ["requests/s", number(rate)],
    ["answered", number(v.nv_inference_request_success)],
    ["failed or refused", number(v.nv_inference_request_failure)],
    ["in the queue", number(v.nv_inference_pending_request_count)],
    ["latency, median", time(quantile(m.buckets, 0.5))],
    ["latency, 99 %", time(quantile(m.buckets, 0.99))],
    ["RDMA sessions", `${number(v.gpuwire_sessions_open)} of ${number(v.gpuwire_sessions_limit)}`],
    ["HTTP and gRPC slots", `${number(v.gpuwire_door_slots_taken)} of ${number(v.gpuwire_door_slots_limit)}`],
  ];
}

function showModel(card, m, before, seconds) {
  const was = before && before.models.get(card.key);
  const rate = was ? (m.value.nv_inference_request_success - was.value.nv_inference_request_success) / seconds : NaN;
  const { name, tiles, charts, histogramBox, batchBox } = card.parts;
  const did = past.get(card.key);
  setText(name, `${m.name}, version ${m.version}`);
  setTiles(tiles, modelTiles(m, rate));
  for (const [what, chart] of Object.entries(charts)) {
    if (did) showChart(chart, did.ages, did[what]);
    else chart.figure.hidden = true;
  }
  histogramBox.replaceChildren(...histogram(m.buckets));
  batchBox.replaceChildren(...batches(m.batches));
}

// ---- the machine

const machine = {
  cpu: new TimeChart("CPU, where 100 % is one core", ["server", "software NIC"], percent),
  cpuSeen: new Seen(["server", "nic"]),
  gpus: new Map(), // by uuid: a chart and its values
};
byId("machine-times").append(machine.cpu.figure);

function newGpu(i) {
  const gpu = { chart: new TimeChart(`GPU ${i}, busy`, ["share of time"], percent), seen: new Seen(["busy"]) };
  byId("machine-times").append(gpu.chart.figure);
  return gpu;
}

function showMachine(now, before, seconds) {
  const cpu = (part) => (before ? (now.cpu[part] - before.cpu[part]) / seconds : NaN);
  const use = { server: cpu("server"), nic: cpu("nic") };
  const tiles = [["CPU, server (100 % is one core)", percent(use.server)], ["CPU, software NIC", percent(use.nic)]];
  machine.cpuSeen.add(now.at, use);
  machine.cpuSeen.show(machine.cpu);
  [...now.gpus].forEach(([uuid, g], i) => {
    tiles.push([`GPU ${i}, busy`, percent(g.nv_gpu_utilization)]);
    tiles.push([`GPU ${i}, memory`, `${gib(g.nv_gpu_memory_used_bytes)} of ${gib(g.nv_gpu_memory_total_bytes)} GiB`]);
    tiles.push([`GPU ${i}, power`, `${number(g.nv_gpu_power_usage)} W`]);
    const gpu = machine.gpus.get(uuid) || newGpu(i);
    machine.gpus.set(uuid, gpu);
    gpu.seen.add(now.at, { busy: g.nv_gpu_utilization });
    gpu.seen.show(gpu.chart);
  });
  setTiles(byId("machine"), tiles);
}

// ---- the loop

function show(now) {
  const before = last && now.at > last.at ? last : null;
  const seconds = before ? (now.at - before.at) / 1000 : NaN;
  begun = begun || new Date();
  const where = now.info.executor === "gpu" ? "models on the GPU" : "models on the CPU";
  setText(byId("server"), `${now.info.version || ""} on ${location.host}, ${where}`);
  setText(byId("since"), `The machine's charts begin at ${begun.toLocaleTimeString()}, when this page was opened.`);
  showMachine(now, before, seconds);
  keepChildren(byId("models"), [...now.models], ([key]) => key, ([key]) => newModelCard(key), (card, [, m]) =>
    showModel(card, m, before, seconds));
  byId("none").hidden = now.models.size > 0;
  showContent();
  if (now.value.gpuwire_server_draining) say("warn", "about to end");
  else say("good", "live");
  last = now;
}

async function look() {
  const now = parse(await (await get("metrics")).text());
  await lookBack();
  show(now);
}

watch("server", EVERY, look, () => (last = null)); // it may be another one that comes back
