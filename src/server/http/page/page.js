// SPDX-License-Identifier: Apache-2.0
// Shows what GET metrics tells, every two seconds. Names come from strangers: they become text, never markup.
"use strict";

const EVERY = 2000; // ms
const PATIENCE = 5000; // ms for one answer
const byId = (id) => document.getElementById(id);
let token = "";
let last = null; // the answer before: rates are differences
let heard = null; // when the last answer came

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

// ---- numbers for people

function number(n) {
  if (!Number.isFinite(n)) return "–";
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString("en") : n.toPrecision(2);
}

function time(s) {
  if (!Number.isFinite(s)) return "–";
  if (s < 1e-3) return `${number(s * 1e6)} µs`;
  return s < 1 ? `${number(s * 1e3)} ms` : `${number(s)} s`;
}

const percent = (x) => (Number.isFinite(x) ? `${number(x * 100)} %` : "–");
const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);

// The bound below which so large a part of the requests lies.
function quantile(buckets, part) {
  const all = buckets.length ? buckets[buckets.length - 1][1] : 0;
  if (!all) return NaN;
  const hit = buckets.find((b) => b[1] >= all * part);
  return Number.isFinite(hit[0]) ? hit[0] : buckets[buckets.length - 2][0];
}

// ---- elements

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

function tile(name, value) {
  const t = element("div", "tile");
  t.append(element("div", "value", value), element("div", "name", name));
  return t;
}

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

function showModel(key, m, before, seconds) {
  const card = element("article", "model");
  const was = before && before.models.get(key);
  const v = m.value;
  const rate = was ? (v.nv_inference_request_success - was.value.nv_inference_request_success) / seconds : NaN;
  const tiles = element("div", "tiles");
  tiles.append(
    tile("requests/s", number(rate)),
    tile("answered", number(v.nv_inference_request_success)),
    tile("failed or refused", number(v.nv_inference_request_failure)),
    tile("in the queue", number(v.nv_inference_pending_request_count)),
    tile("latency, median", time(quantile(m.buckets, 0.5))),
    tile("latency, 99 %", time(quantile(m.buckets, 0.99))),
    tile("RDMA sessions", `${number(v.gpuwire_sessions_open)} of ${number(v.gpuwire_sessions_limit)}`),
    tile("HTTP and gRPC slots", `${number(v.gpuwire_door_slots_taken)} of ${number(v.gpuwire_door_slots_limit)}`),
  );
  card.append(element("h2", "", `${m.name}, version ${m.version}`), tiles);
  card.append(element("h3", "", "Latency in the server, since the model is served"), ...histogram(m.buckets));
  card.append(element("h3", "", "Batches"), ...batches(m.batches));
  return card;
}

function showMachine(now, before, seconds) {
  const cpu = (part) => (before ? (now.cpu[part] - before.cpu[part]) / seconds : NaN);
  const tiles = [tile("CPU, server (100 % is one core)", percent(cpu("server"))), tile("CPU, software NIC", percent(cpu("nic")))];
  [...now.gpus.values()].forEach((g, i) => {
    tiles.push(tile(`GPU ${i}, busy`, percent(g.nv_gpu_utilization)));
    tiles.push(tile(`GPU ${i}, memory`, `${gib(g.nv_gpu_memory_used_bytes)} of ${gib(g.nv_gpu_memory_total_bytes)} GiB`));
    tiles.push(tile(`GPU ${i}, power`, `${number(g.nv_gpu_power_usage)} W`));
  });
  return tiles;
}

// ---- the loop

function say(kind, text) {
  byId("state").className = kind;
  byId("state").textContent = text;
}

function show(now) {
  const before = last && now.at > last.at ? last : null;
  const seconds = before ? (now.at - before.at) / 1000 : NaN;
  byId("server").textContent = `${now.info.version || ""} on ${location.host}, ${now.info.executor === "gpu" ? "models on the GPU" : "models on the CPU"}`;
  byId("machine").replaceChildren(...showMachine(now, before, seconds));
  byId("models").replaceChildren(...[...now.models].map(([key, m]) => showModel(key, m, before, seconds)));
  byId("none").hidden = now.models.size > 0;
  byId("content").hidden = false;
  byId("content").classList.remove("stale");
  byId("ask").hidden = true;
  if (now.value.gpuwire_server_draining) say("warn", "about to end");
  else say("good", "live");
  last = now;
  heard = new Date();
}

function lose() {
  last = null; // it may be another one that comes back
  byId("content").classList.add("stale");
  say("bad", heard ? `The server has gone; its last answer came at ${heard.toLocaleTimeString()}` : "The server does not answer");
}

function wantToken() {
  byId("content").hidden = true;
  byId("ask").hidden = false;
  say("warn", token ? "That is not the token" : "");
  token = "";
}

async function look() {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch("metrics", { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 401) return wantToken();
  if (!answer.ok) throw new Error(answer.status);
  show(parse(await answer.text()));
}

async function run() {
  if (byId("ask").hidden && !document.hidden) {
    try {
      await look();
    } catch {
      lose();
    }
  }
  setTimeout(run, EVERY);
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value;
  byId("token").value = "";
  look().catch(lose);
});
run();
