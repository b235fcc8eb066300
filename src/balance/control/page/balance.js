// SPDX-License-Identifier: Apache-2.0
// Shows what the balancer's API tells of services, workers and the data plane, every two seconds, and of the last ten minutes
// every five.
"use strict";

const EVERY = 2000; // ms
const HISTORY_EVERY = 5000;
const OPEN_FIRST = 6; // so few services are open from the beginning
const SERVICES_SHOWN = 50;
const WORKERS_SHOWN = 100;

let before = null; // the counts of the look before: rates are differences
let historyAt = -Infinity;
const past = new Map(); // by id of the service: its last ten minutes
const cards = new Map(); // by id of the service: what its card consists of

// ---- rates

function countsOf(services, stats) {
  const counts = { at: performance.now(), worker: new Map(), drops: (stats.data && stats.data.drops) || {} };
  for (const s of services) for (const w of s.workers) counts.worker.set(w.id, w.flows);
  return counts;
}

// A data plane that started again counts from 0.
function perSecond(now, then, seconds) {
  return then === undefined ? NaN : Math.max(0, now >= then ? now - then : now) / seconds;
}

function rateOf(w, seconds) {
  const then = before && before.worker.get(w.id);
  const of = (name) => perSecond(w.flows[name], then && then[name], seconds);
  return { opened: of("opened"), packets: of("packets"), megabits: (8 * of("bytes")) / 1e6 };
}

function sumOf(workers, seconds) {
  const sum = { live: 0, opened: 0, packets: 0, megabits: 0 };
  for (const w of workers) {
    const rate = rateOf(w, seconds);
    sum.live += w.flows.live;
    for (const name of ["opened", "packets", "megabits"]) sum[name] += rate[name] || 0;
  }
  if (!before) sum.opened = sum.packets = sum.megabits = NaN;
  return sum;
}

function rateTiles(sum) {
  return [
    ["connections", number(sum.live)],
    ["new connections/s", number(sum.opened)],
    ["packets/s", number(sum.packets)],
    ["Mbit/s", number(sum.megabits)],
  ];
}

// ---- the last ten minutes

// What the API tells, as the charts take it. A service without values did nothing, unless there was no room to keep them.
function pastOf(answer, every, ageMs) {
  const ages = answer.live ? agesOf(answer.live.length, every, ageMs) : agesOf(2, SPAN * 1000, 0);
  const nothing = answer.kept === false ? [null, null] : [0, 0];
  const scaled = (name, factor) => (answer[name] ? answer[name].map((v) => (v === null ? null : v * factor)) : nothing);
  return { ages, live: scaled("live", 1), opened: scaled("opened", 1000 / every), megabits: scaled("bytes", 8e-3 / every) };
}

function newCharts(parent) {
  const charts = {
    live: new TimeChart("Connections", ["live"], number),
    opened: new TimeChart("New connections", ["per second"], number),
    megabits: new TimeChart("Traffic", ["Mbit/s"], number),
  };
  parent.append(...Object.values(charts).map((c) => c.figure));
  return charts;
}

function showCharts(charts, values) {
  for (const [name, chart] of Object.entries(charts)) chart.show(values.ages, [values[name]]);
}

// By address, port and protocol: a name may have a slash.
function pathOf(service) {
  const address = service.address.includes(":") ? `[${service.address}]` : service.address;
  const port = service.port ? `:${service.port}` : "";
  return `v1/services/${address}${port}/${service.protocol}`;
}

// A service that was removed a moment ago.
function goneSince(error) {
  if (error.cause === "refused") return null;
  throw error;
}

async function lookBack(services) {
  if (performance.now() - historyAt < HISTORY_EVERY) return;
  historyAt = performance.now();
  const all = await (await get("v1/history")).json();
  if (all.live) showCharts(allCharts, pastOf(all, all.every_ms, all.age_ms));
  for (const s of services.filter((one) => cards.has(one.id) && cards.get(one.id).card.open)) {
    const answer = await get(`${pathOf(s)}/history`).then((a) => a.json(), goneSince);
    if (!answer) continue;
    const workers = answer.workers.map((w) => [w.name, pastOf(w, answer.every_ms, answer.age_ms)]);
    past.set(s.id, { service: pastOf(answer, answer.every_ms, answer.age_ms), workers: new Map(workers) });
  }
  for (const id of past.keys()) if (!services.some((s) => s.id === id)) past.delete(id);
}

// ---- services

function newService(service, open) {
  const card = element("details", "card service");
  const summary = element("summary");
  const parts = {
    card, name: element("h2"), where: element("span", "where"), counts: element("span"), tiles: element("div", "tiles"),
    note: element("p", "alarm"), table: newTable(service.name), more: element("p", "note"), idle: element("p", "note"),
  };
  parts.times = element("div", "times");
  parts.times.hidden = true;
  summary.append(parts.name, parts.where, parts.counts);
  parts.charts = newCharts(parts.times);
  card.append(summary, parts.tiles, parts.note, parts.idle, parts.times, parts.table, parts.more);
  card.open = open;
  card.addEventListener("toggle", () => (historyAt = -Infinity));
  cards.set(service.id, parts);
  return card;
}

// "2 up, 1 draining": each state in its colour.
function showCounts(parent, workers) {
  const counts = Object.keys(KIND).map((state) => [state, workers.filter((w) => w.state === state).length]);
  const shown = counts.filter(([state, n]) => n || state === "up");
  keepChildren(parent, shown, ([state]) => state, ([state]) => element("span", `count ${KIND[state]}`), (e, [state, n]) => {
    setText(e, `${number(n)} ${state}`);
    e.className = `count ${state === "up" && !n ? "bad" : KIND[state]}`;
  });
}

function notesOf(service) {
  const notes = [];
  if (service.refused) notes.push(`The data plane cannot run this service: ${service.refused}`);
  if (service.sorry) notes.push("Too few workers are up: the sorry server gets new connections");
  if (!service.workers.length) notes.push("It has no workers");
  else if (!service.workers.some((w) => w.state === "up")) notes.push("No worker is up: nothing serves new connections");
  return notes.join(". ");
}

function showWorkers(parts, service, seconds) {
  const all = service.workers;
  const isUp = (w) => w.state === "up";
  const first = all.length > WORKERS_SHOWN ? [...all.filter((w) => !isUp(w)), ...all.filter(isUp)].slice(0, WORKERS_SHOWN) : all;
  const history = past.get(service.id);
  keepChildren(parts.table.tBodies[0], first, (w) => w.id, newRow, (row, w) =>
    showRow(row, service, w, rateOf(w, seconds), history && history.workers.get(w.name)));
  parts.table.hidden = !all.length;
  setText(parts.more, all.length > first.length ? `${number(all.length - first.length)} more workers, which are not shown` : "");
}

// Empty charts would hide those that say something.
function showPast(parts, history) {
  if (!history) return;
  const values = history.service;
  const busy = [...values.live, ...values.opened, ...values.megabits].some((v) => v > 0);
  parts.times.hidden = !busy;
  setText(parts.idle, busy ? "" : values.live.includes(0) ? "No connections in the last ten minutes" : "Its last ten minutes are not kept");
  if (busy) showCharts(parts.charts, values);
}

function showService(service, seconds) {
  const parts = cards.get(service.id);
  const check = describeCheck(service.check) || "no check";
  const port = service.port ? ` port ${service.port}` : "";
  setText(parts.name, service.name);
  setText(parts.where, `${service.address}${port}/${service.protocol} · ${service.scheduler} · ${service.forward} · ${check}`);
  setText(parts.table.caption, `Workers of ${service.name}`);
  showCounts(parts.counts, service.workers);
  if (!parts.card.open) return;
  setTiles(parts.tiles, rateTiles(sumOf(service.workers, seconds)));
  setText(parts.note, notesOf(service));
  showWorkers(parts, service, seconds);
  showPast(parts, past.get(service.id));
}

function showServices(services, seconds) {
  const wanted = byId("filter").value.toLowerCase();
  const hits = services.filter((s) => `${s.name} ${s.address}:${s.port}/${s.protocol}`.toLowerCase().includes(wanted));
  const shown = hits.slice(0, SERVICES_SHOWN);
  const open = services.length <= OPEN_FIRST;
  keepChildren(byId("services"), shown, (s) => s.id, (s) => newService(s, open), (_, s) => showService(s, seconds));
  for (const id of cards.keys()) if (!shown.some((s) => s.id === id)) cards.delete(id);
  byId("find").hidden = services.length <= OPEN_FIRST;
  byId("none").hidden = services.length > 0;
  byId("more").hidden = shown.length === services.length;
  setText(byId("more"), `${number(shown.length)} of ${number(services.length)} services are shown`);
}

// ---- the balancer itself

function standbyTile(data, alive) {
  const sync = data.sync;
  if (!sync) return [];
  const name = sync.receives ? (sync.sends ? "the other balancers" : "the active balancer") : "the standby";
  const last = sync.heard_ms === undefined ? "never" : `${age(sync.heard_ms)} ago`;
  return [
    [`${name} spoke`, last, alive && sync.connected ? "good" : "bad"],
    ["connections told, learnt", `${number(sync.sent)}, ${number(sync.received)}`],
  ];
}

function showMachine(stats, services, seconds) {
  const workers = services.flatMap((s) => s.workers);
  const up = workers.filter((w) => w.state === "up").length;
  const data = stats.data || {};
  const some = up < workers.length ? "warn" : "";
  const tiles = [["workers that are up", `${number(up)} of ${number(workers.length)}`, some], ...rateTiles(sumOf(workers, seconds))];
  if (data.uptime_ms !== undefined)
    tiles.push([`data plane ${data.version}, up for`, age(data.uptime_ms), stats.attached ? "" : "bad"]);
  if (stats.restarts) tiles.push(["restarts of the data plane", number(stats.restarts), "warn"]);
  setTiles(byId("machine"), [...tiles, ...standbyTile(data, stats.attached)]);
}

function showDrops(now, seconds) {
  const all = Object.entries(now.drops).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const rate = ([name, n]) => perSecond(n, before ? before.drops[name] || 0 : undefined, seconds);
  const sum = all.reduce((n, one) => n + one[1], 0);
  byId("drops").hidden = !all.length;
  setText(byId("dropped"), `${number(sum)} in all, ${number(all.reduce((n, one) => n + rate(one), 0))} per second`);
  const make = () => {
    const row = element("tr");
    const name = element("th");
    name.scope = "row";
    row.append(name, element("td"), element("td"));
    return row;
  };
  keepChildren(byId("drops").querySelector("tbody"), all, (one) => one[0], make, (row, one) => {
    [one[0].replaceAll("_", " "), number(one[1]), number(rate(one))].forEach((text, i) => setText(row.cells[i], text));
  });
}

// What must be seen first. Each line stands once, so that it is read out once.
function troubles(stats) {
  const lines = [];
  const sync = stats.data && stats.data.sync;
  if (!stats.attached) lines.push("NO DATA PLANE: it does not answer, and forwards nothing");
  if (stats.attached && sync && !sync.connected) lines.push("NO STANDBY: it does not answer, or no active balancer speaks");
  if (stats.refused) lines.push(`The data plane refuses the configuration: ${stats.refused}`);
  return lines;
}

// ---- the loop

const allCharts = newCharts(byId("all"));

function show(stats, services) {
  const now = countsOf(services, stats);
  const seconds = before ? (now.at - before.at) / 1000 : NaN;
  setText(byId("server"), `${stats.version} on ${location.host}, up for ${age(stats.uptime_ms)}`);
  keepChildren(byId("trouble"), troubles(stats), (line) => line, (line) => element("li", "", line), () => {});
  showMachine(stats, services, seconds);
  showDrops(now, seconds);
  showServices(services, seconds);
  before = now;
  showContent();
  say(stats.attached ? "good" : "bad", stats.attached ? "live" : "no data plane");
}

async function look() {
  const stats = await (await get("v1/stats")).json();
  const { services } = await (await get("v1/services")).json();
  if (!cards.size) showServices(services, NaN); // it says which are open
  await lookBack(services);
  show(stats, services);
}

byId("filter").addEventListener("input", () => (historyAt = -Infinity));
watch("balancer", EVERY, look, () => (before = null));
