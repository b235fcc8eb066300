"use strict";
// Names enter the page as text, never as HTML. Where a token is needed, the page asks for it once.
const columns = ["worker", "address", "state", "weight", "connections", "new/s", "packets/s", "Mbit/s", "queue"];
let before = {}, last = 0;

function cell(row, text, name) {
  const c = row.insertCell();
  c.textContent = text;
  if (name) c.className = name;
}

async function ask(path) {
  const headers = {};
  if (sessionStorage.token) headers.Authorization = "Bearer " + sessionStorage.token;
  const answer = await fetch(path, { headers });
  if (answer.status === 401) {
    const token = prompt("Token (the file api.token in run_dir has it)");
    if (token) sessionStorage.token = token;
  }
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}

function table(service, now) {
  const t = document.createElement("table"), head = t.createTHead().insertRow(), body = t.createTBody();
  for (const name of columns) {
    const c = document.createElement("th");
    c.textContent = name;
    head.append(c);
  }
  for (const w of service.workers) {
    const row = body.insertRow(), key = service.name + " " + w.name, old = before[key] || w.flows;
    const seconds = Math.max((now - last) / 1000, .001), rate = name => Math.round((w.flows[name] - old[name]) / seconds);
    cell(row, w.name);
    cell(row, w.address + " " + w.port);
    cell(row, w.refused ? w.state + ": " + w.refused : w.state, w.state);
    cell(row, w.weight);
    cell(row, w.flows.live);
    cell(row, rate("opened"));
    cell(row, rate("packets"));
    cell(row, (rate("bytes") * 8 / 1e6).toFixed(1));
    cell(row, w.telemetry.queue);
    before[key] = w.flows;
  }
  return t;
}

async function show() {
  const said = document.getElementById("said");
  try {
    const stats = await ask("v1/stats"), answer = await ask("v1/services"), now = Date.now(), all = document.createElement("div");
    for (const s of answer.services) {
      const title = document.createElement("h2"), more = document.createElement("small");
      title.textContent = s.name + " ";
      more.textContent = s.address + " " + s.port + "/" + s.protocol + ", " + s.scheduler + ", " + s.forward;
      title.append(more);
      all.append(title, table(s, now));
    }
    last = now;
    document.getElementById("all").replaceWith(all);
    all.id = "all";
    const lost = stats.data && stats.data.sync && !stats.data.sync.connected;
    said.textContent = !stats.attached ? "NO DATA PLANE: it does not answer, and forwards nothing" :
      lost ? "NO STANDBY: it does not answer, or no active balancer speaks" : "";
  } catch (e) {
    said.textContent = "no answer: " + e.message;
  }
  setTimeout(show, 1000);
}
show();
