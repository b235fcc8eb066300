// SPDX-License-Identifier: Apache-2.0
// Shows what the controller tells of workers and models, every two seconds.
"use strict";

const EVERY = 2000; // ms
const SHOWN = 200;

function row(cells) {
  const make = () => {
    const r = element("tr");
    const name = element("th");
    name.scope = "row";
    r.append(name, ...Array.from({ length: cells - 1 }, () => element("td")));
    return r;
  };
  return make;
}

function fill(table, items, textsOf) {
  const shown = items.slice(0, SHOWN);
  const cells = byId(table).tHead.rows[0].cells.length;
  keepChildren(byId(table).tBodies[0], shown, (one) => `${one.name} ${one.version || ""}`, row(cells), (r, one) => {
    textsOf(one).forEach((text, i) => setText(r.cells[i], text));
  });
}

// Which part of the requests was answered in time. Clients count an answer that is late as late, not as an answer.
function kept(m) {
  const all = m.answered + m.late + m.refused;
  return all ? percent(m.answered / all) : "–";
}

function workerTexts(w) {
  return [w.name, w.state, `${number(w.gpu_used)} of ${number(w.gpu_pages)}`, number(w.models), number(w.leases),
    number(w.queue), w.answered + w.late ? percent(w.late / (w.answered + w.late)) : "–"];
}

function modelTexts(m) {
  const on = m.places.filter((p) => p.where === "gpu").map((p) => p.worker);
  return [`${m.name} ${m.version}`, on.slice(0, 4).join(", ") + (on.length > 4 ? ` and ${on.length - 4} more` : ""),
    number(m.clients), number(m.rate), kept(m)];
}

function show(fleet) {
  setText(byId("server"), `${fleet.fleet} on ${location.host}, term ${fleet.term}`);
  setTiles(byId("all"), [
    ["workers", number(fleet.workers.filter((w) => w.state !== "gone").length)],
    ["models", number(fleet.models_known)],
    ["clients", number(fleet.clients)],
    ["leases", number(fleet.leases)],
    ["requests/s", number(fleet.models.reduce((n, m) => n + m.rate, 0))],
    ["a round takes", time(fleet.round_us / 1e6)],
  ]);
  fill("workers", fleet.workers, workerTexts);
  fill("models", [...fleet.models].sort((a, b) => b.rate - a.rate), modelTexts);
  showContent();
  if (!fleet.leads) say("warn", "another controller leads");
  else if (fleet.frozen) say("bad", "etcd is away: what was granted goes on, and nothing new is granted");
  else say("good", "live");
}

watch("controller", EVERY, async () => show(await (await get("v1/fleet")).json()), () => {});
