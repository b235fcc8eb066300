// SPDX-License-Identifier: Apache-2.0
// What the pages of gpuwire have in common: elements, numbers for people, and the loop that asks a server. Names come from
// strangers: they become text, never markup.
"use strict";

const PATIENCE = 5000; // ms for one answer
const byId = (id) => document.getElementById(id);

// ---- elements

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

// An element that stays as it was is not read out again, and keeps the focus and the selection.
function setText(e, text) {
  if (e.textContent !== String(text)) e.textContent = text;
}

// The children of `parent` become those of `items`, in this order. make(item) gives a new one and update(child, item) fills
// it. A child of the same key stays.
function keepChildren(parent, items, keyOf, make, update) {
  const old = parent.kept || new Map();
  const now = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const child = old.get(key) || make(item);
    now.set(key, child);
    update(child, item);
  }
  for (const [key, child] of old) if (now.get(key) !== child) child.remove();
  let at = parent.firstElementChild;
  for (const child of now.values()) {
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  parent.kept = now;
}

function newTile() {
  const t = element("div", "tile");
  t.append(element("div", "value"), element("div", "name"));
  return t;
}

// `list` has [name, value] of each, and may have a class for the value.
function setTiles(parent, list) {
  keepChildren(parent, list, (one) => one[0], newTile, (t, [name, value, kind]) => {
    setText(t.firstChild, value);
    setText(t.lastChild, name);
    t.firstChild.className = kind ? `value ${kind}` : "value";
  });
}

// ---- numbers for people

function number(n) {
  if (!Number.isFinite(n)) return "–";
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString("en") : n.toPrecision(2);
}

function time(s) {
  if (!Number.isFinite(s)) return "–";
  if (s > 0 && s < 1e-3) return `${number(s * 1e6)} µs`;
  return s < 1 ? `${number(s * 1e3)} ms` : `${number(s)} s`;
}

// How long something has lasted: two units are enough.
function age(ms) {
  if (!Number.isFinite(ms)) return "–";
  const s = Math.floor(ms / 1000);
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex((u) => s >= u[1]);
  if (first < 0) return "0 s";
  const [name, size] = units[first];
  const next = units[first + 1];
  const rest = next ? Math.floor((s % size) / next[1]) : 0;
  return rest && s < 10 * size ? `${Math.floor(s / size)} ${name} ${rest} ${next[0]}` : `${Math.floor(s / size)} ${name}`;
}

const percent = (x) => (Number.isFinite(x) ? `${number(x * 100)} %` : "–");
const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

// ---- asking the server

let token = "";
let heard = null; // when the last answer came

function say(kind, text) {
  byId("state").className = kind;
  setText(byId("state"), text);
}

class TokenWanted extends Error {}

// The answer to GET `path`. Throws when there is none, and TokenWanted when it takes a token.
async function get(path) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 401) throw new TokenWanted();
  if (answer.ok) return answer;
  const why = (await answer.json().catch(() => ({}))).error;
  throw new Error(why?.message || why || `status ${answer.status}`, { cause: "refused" });
}

function showContent() {
  byId("content").hidden = false;
  byId("content").classList.remove("stale");
  if (byId("ask")) byId("ask").hidden = true;
  heard = new Date();
}

function loseServer(name, error) {
  byId("content").classList.add("stale");
  if (error.cause === "refused") say("bad", `The ${name} refuses: ${error.message}`);
  else say("bad", heard ? `The ${name} has gone; its last answer came at ${heard.toLocaleTimeString()}` : `The ${name} does not answer`);
}

function wantToken() {
  byId("content").hidden = true;
  byId("ask").hidden = false;
  say("warn", token ? "That is not the token" : "");
  token = "";
}

// Calls look() again and again: `every` ms after it has ended, or later where it takes its time. lose() is called when there
// was no answer. A page that nobody sees asks more seldom. One without an element `ask` takes no token.
function watch(name, every, look, lose) {
  const ask = byId("ask");
  let unseen = 0;
  const once = async () => {
    try {
      await look();
    } catch (error) {
      if (error instanceof TokenWanted) return wantToken();
      lose();
      loseServer(name, error);
    }
  };
  const run = async () => {
    const begun = performance.now();
    unseen = document.hidden ? unseen + 1 : 0;
    if ((!ask || ask.hidden) && unseen % 5 === 0) await once();
    setTimeout(run, Math.max(every, 10 * (performance.now() - begun)));
  };
  ask?.addEventListener("submit", (event) => {
    event.preventDefault();
    token = byId("token").value;
    byId("token").value = "";
    once();
  });
  run();
}
