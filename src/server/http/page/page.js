// SPDX-License-Identifier: Apache-2.0
// Shows what GET metrics tells, every two seconds, and what it told since the page was opened.
"use strict";

const EVERY = 2000; // ms
let last = null; // the answer before: rates are differences
let begun = null; // when the first answer came, which charts begin with

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
      const m = entry(all.models, JSON.stringify([s.labels.model, s.labels.version]), () => newModel(s.labels));
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

// Values that this page has seen, one list for each of `names`.
class Past {
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

  // A chart without anything in it would hide the others.
  show(chart, names) {
    const end = this.at[this.at.length - 1];
    const lists = names.map((name) => this.lists[this.names.indexOf(name)]);
    chart.figure.hidden = !lists.some((values) => values.some((v) => v > 0));
    chart.show(this.at.map((at) => (end - at) / 1000), lists);
  }
}

// What happened to a model's requests between two answers. A model that was loaded again counts from 0.
function since(m, was, seconds) {
  const nothing = { success: NaN, failed: NaN, late: NaN, refused: NaN, median: NaN, p99: NaN, queue: NaN };
  if (!was || m.value.nv_inference_request_success < was.value.nv_inference_request_success) return nothing;
  const more = (name) => m.value[name] - was.value[name];
  const success = more("nv_inference_request_success");
  const late = more("gpuwire_request_late");
  const refused = more("gpuwire_request_refused");
  const failed = more("nv_inference_request_failure") - late - refused;
  const buckets = m.buckets.map((b, i) => [b[0], b[1] - was.buckets[i][1]]);
  const queue = more("nv_inference_queue_duration_us") / 1e6 / success;
  return {
    success: success / seconds, failed: failed / seconds, late: late / seconds, refused: refused / seconds,
    median: quantile(buckets, 0.5), p99: quantile(buckets, 0.99), queue,
  };
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
  card.past = new Past(["success", "failed", "late", "refused", "median", "p99", "queue"]);
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

function showModel(card, m, before, seconds, at) {
  const did = since(m, before && before.models.get(card.key), seconds);
  const { name, tiles, charts, histogramBox, batchBox } = card.parts;
  card.past.add(at, did);
  setText(name, `${m.name}, version ${m.version}`);
  setTiles(tiles, modelTiles(m, did.success));
  card.past.show(charts.requests, ["success"]);
  card.past.show(charts.latency, ["median", "p99", "queue"]);
  card.past.show(charts.refused, ["failed", "late", "refused"]);
  histogramBox.replaceChildren(...histogram(m.buckets));
  batchBox.replaceChildren(...batches(m.batches));
}

// ---- the machine

const machine = {
  cpu: new TimeChart("CPU, where 100 % is one core", ["server", "software NIC"], percent),
  cpuPast: new Past(["server", "nic"]),
  gpus: new Map(), // by uuid: a chart and its values
};
byId("machine-times").append(machine.cpu.figure);

function newGpu(i) {
  const gpu = { chart: new TimeChart(`GPU ${i}, busy`, ["share of time"], percent), past: new Past(["busy"]) };
  byId("machine-times").append(gpu.chart.figure);
  return gpu;
}

function showMachine(now, before, seconds) {
  const cpu = (part) => (before ? (now.cpu[part] - before.cpu[part]) / seconds : NaN);
  const use = { server: cpu("server"), nic: cpu("nic") };
  const tiles = [["CPU, server (100 % is one core)", percent(use.server)], ["CPU, software NIC", percent(use.nic)]];
  machine.cpuPast.add(now.at, use);
  machine.cpuPast.show(machine.cpu, ["server", "nic"]);
  [...now.gpus].forEach(([uuid, g], i) => {
    tiles.push([`GPU ${i}, busy`, percent(g.nv_gpu_utilization)]);
    tiles.push([`GPU ${i}, memory`, `${gib(g.nv_gpu_memory_used_bytes)} of ${gib(g.nv_gpu_memory_total_bytes)} GiB`]);
    tiles.push([`GPU ${i}, power`, `${number(g.nv_gpu_power_usage)} W`]);
    const gpu = machine.gpus.get(uuid) || newGpu(i);
    machine.gpus.set(uuid, gpu);
    gpu.past.add(now.at, { busy: g.nv_gpu_utilization });
    gpu.past.show(gpu.chart, ["busy"]);
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
  setText(byId("since"), `The charts begin at ${begun.toLocaleTimeString()}, when this page was opened.`);
  showMachine(now, before, seconds);
  keepChildren(byId("models"), [...now.models], ([key]) => key, ([key]) => newModelCard(key), (card, [, m]) =>
    showModel(card, m, before, seconds, now.at));
  byId("none").hidden = now.models.size > 0;
  showContent();
  if (now.value.gpuwire_server_draining) say("warn", "about to end");
  else say("good", "live");
  last = now;
}

async function look() {
  show(parse(await (await get("metrics")).text()));
}

watch("server", EVERY, look, () => (last = null)); // it may be another one that comes back
