// SPDX-License-Identifier: Apache-2.0
// A worker's row: its state, and why it has it.
"use strict";

const CHECKS = { tcp: "TCP check", http: "HTTP check", https: "HTTPS check", rdma: "RDMA check", udp: "UDP check", script: "script" };
const KIND = { up: "good", draining: "warn", drained: "warn", down: "bad", refused: "bad" };
const COLUMNS = ["worker", "state", "weight", "connections", "new/s", "packets/s", "Mbit/s", "connections over time"];

// "HTTP check of port 81, /health"; "" where nothing is checked.
function describeCheck(check) {
  const kind = CHECKS[check.kind];
  if (!kind) return "";
  const of = check.port ? ` of port ${check.port}` : "";
  const what = check.kind === "script" || check.kind.startsWith("http") ? check.path : check.model;
  const others = check.others ? `, and ${check.others.length} more` : "";
  return `${kind}${of}${what ? `, ${what}` : ""}${others}`;
}

function checkOf(service, worker) {
  return worker.check || service.check;
}

function whyDown(service, w) {
  const check = checkOf(service, w);
  const h = w.health;
  if (w.silent) return [`It spoke ${age(w.telemetry.age_ms)} ago, and promised to each ${time(w.telemetry.beat_ms / 1000)}`];
  if (!h.known) return [`${describeCheck(check)}: no result yet`];
  const lines = [`${describeCheck(check)}: ${h.why || "it fails"}`];
  if (h.good) lines.push(`${h.good} of ${check.rise} good results in a row`);
  else lines.push(`${plural(h.bad, "failure", "failures")} in a row, the last ${age(h.last_ms)} ago; next check in ${age(h.next_ms)}`);
  return lines;
}

function whyUp(service, w) {
  const check = checkOf(service, w);
  const h = w.health;
  if (!describeCheck(check)) return w.origin === "itself" ? [] : ["It is not checked"];
  if (h.bad) return [`${describeCheck(check)}: ${h.why}`, `${h.bad} of ${check.fall} failures in a row`];
  return [`${describeCheck(check)}: ${plural(h.good, "good result", "good results")} in a row`];
}

function whyDrains(w) {
  const from = Math.max(w.flows.drain_from || 0, w.flows.live);
  const lines = [`${number(w.flows.live)} of ${plural(from, "connection", "connections")} left`];
  if (w.drain_left_ms) lines.push(`${age(w.drain_left_ms)} left; then its connections go to others`);
  else lines.push(w.drain_over ? "Its time is over: its connections go to others" : "No time limit");
  if (w.leave) lines.push("Then it is removed");
  return lines;
}

// What a worker that registered itself has announced.
function announced(w) {
  if (w.origin !== "itself" || w.telemetry.age_ms === undefined) return [];
  const pairs = w.queue_pairs ? `, ${plural(w.queue_pairs, "queue pair", "queue pairs")}` : "";
  const bytes = w.telemetry.bytes ? ` (${plural(w.telemetry.bytes, "byte", "bytes")})` : "";
  return [`It says: ${plural(w.telemetry.queue, "request waits", "requests wait")}${bytes}${pairs}; ${age(w.telemetry.age_ms)} ago`];
}

// The lines under a worker's state.
function reasons(service, w) {
  const lines = {
    refused: () => [`The data plane cannot run it: ${w.refused}`],
    down: () => whyDown(service, w),
    up: () => whyUp(service, w),
    draining: () => whyDrains(w),
    drained: () => [w.leave ? "It is removed next" : "No connection is left"],
  }[w.state]();
  if (w.sorry) lines.push("It serves only while the others are down");
  return [...lines, ...announced(w)];
}

function newRow() {
  const row = element("tr");
  const name = element("th");
  name.scope = "row";
  name.setAttribute("role", "rowheader");
  name.append(element("span"), element("span", "address"));
  row.setAttribute("role", "row");
  row.append(name);
  for (const column of COLUMNS.slice(1)) {
    const cell = element("td");
    cell.dataset.name = column;
    cell.setAttribute("role", "cell");
    row.append(cell);
  }
  row.cells[1].className = row.cells[COLUMNS.length - 1].className = "wide";
  row.cells[1].append(element("span", "state"), element("span", "for"), element("div"));
  row.cells[COLUMNS.length - 1].append(newSparkline());
  return row;
}

// A drain's bar is full when no connection is left.
function showProgress(parent, w) {
  let bar = parent.querySelector("progress");
  if (w.state !== "draining" || !w.flows.drain_from) {
    if (bar) bar.remove();
    return;
  }
  if (!bar) {
    bar = element("progress");
    bar.setAttribute("aria-label", "Connections that have ended");
    parent.append(bar);
  }
  bar.max = w.flows.drain_from;
  bar.value = Math.max(0, w.flows.drain_from - w.flows.live);
}

function showState(cell, service, w) {
  const [state, since, why] = cell.children;
  state.className = `state ${KIND[w.state]}`;
  setText(state, w.state);
  setText(since, w.health.state_ms === undefined ? "" : ` for ${age(w.health.state_ms)}`);
  const lines = reasons(service, w).map((text, i) => ({ i, text }));
  keepChildren(why, lines, (line) => line.i, () => element("span", "why"), (e, line) => setText(e, line.text));
  showProgress(cell, w);
}

// `rate` has what the worker does in a second; `past` its last ten minutes, or undefined.
function showRow(row, service, w, rate, past) {
  const cells = row.cells;
  const weight = w.health.weight === undefined ? w.weight : w.health.weight;
  setText(cells[0].firstChild, w.name);
  setText(cells[0].lastChild, `${w.address} ${w.port}`);
  showState(cells[1], service, w);
  const values = [weight, w.flows.live, rate.opened, rate.packets, rate.megabits];
  values.forEach((v, i) => setText(cells[2 + i], number(v)));
  if (past) sparkline(cells[7].firstChild, `Connections of ${w.name}`, past.ages, past.live, number);
}

function newTable(name) {
  const table = element("table", "workers");
  const head = table.createTHead().insertRow();
  table.setAttribute("role", "table");
  head.setAttribute("role", "row");
  for (const column of COLUMNS) {
    const cell = element("th", "", column);
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    head.append(cell);
  }
  table.createCaption().textContent = `Workers of ${name}`;
  table.createTBody().setAttribute("role", "rowgroup");
  return table;
}
