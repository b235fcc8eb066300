// SPDX-License-Identifier: Apache-2.0
// A chat with a model of this server. Its text comes as a stream, and becomes text of the page, never markup.
"use strict";

const EVERY = 2000; // ms between two looks at the server's numbers
const messages = []; // of the chat, as the server gets them
let running = null; // what stops the answer that comes

// ---- the server's numbers

// The sum of a metric over all models; undefined: there is none.
function metric(text, name) {
  let sum;
  for (const line of text.split("\n")) {
    if (!line.startsWith(`${name}{`)) continue;
    sum = (sum ?? 0) + Number(line.slice(line.lastIndexOf("}") + 1));
  }
  return sum;
}

let before = null;

function showLoad(text) {
  const now = { at: performance.now(), tokens: metric(text, "vllm:generation_tokens_total") };
  const rate = before ? ((now.tokens - before.tokens) / (now.at - before.at)) * 1000 : NaN;
  before = now;
  setTiles(byId("load"), [
    ["requests at work", number(metric(text, "vllm:num_requests_running"))],
    ["requests that wait", number(metric(text, "vllm:num_requests_waiting"))],
    ["pages in use", percent(metric(text, "vllm:kv_cache_usage_perc"))],
    ["tokens each second", number(rate)],
  ]);
}

function showModels(list) {
  const names = list.data.map((m) => m.id);
  keepChildren(byId("models"), names, (name) => name, (name) => element("option", "", name), (o, name) => { o.value = name; });
  setText(byId("server"), names.length === 1 ? names[0] : plural(names.length, "model", "models"));
}

async function look() {
  showModels(await (await get("v1/models")).json());
  showLoad(await (await get("metrics")).text());
  showContent();
  say("good", running ? "the answer comes" : "live");
}

// ---- the chat

function addTurn(role, words) {
  const turn = element("div", `turn ${role}`);
  turn.append(element("div", "words", words), element("p", "note"));
  byId("talk").append(turn);
  turn.scrollIntoView({ block: "end" });
  return turn;
}

// Calls take(object) for each event of the stream, and returns at [DONE].
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the stream ended before the answer did");
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: ?/, "");
      if (data === "[DONE]") return;
      take(JSON.parse(data));
    }
  }
}

function request() {
  const body = { model: byId("models").value, messages, stream: true, stream_options: { include_usage: true } };
  if (byId("temperature").value) body.temperature = Number(byId("temperature").value);
  if (byId("most").value) body.max_tokens = Number(byId("most").value);
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  return { method: "POST", headers, body: JSON.stringify(body), signal: running.signal };
}

async function readAnswer(turn, message) {
  const [words, note] = turn.children;
  const begun = performance.now();
  let first = null;
  const answer = await fetch("v1/chat/completions", request());
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  await readEvents(answer.body, (event) => {
    if (event.error) throw new Error(event.error.message);
    const more = event.choices[0]?.delta?.content;
    if (more) {
      first ??= performance.now();
      message.content += more;
      words.textContent = message.content;
      turn.scrollIntoView({ block: "end" });
    }
    if (!event.usage) return;
    const n = event.usage.completion_tokens;
    const rate = n > 1 ? `, ${number(((n - 1) / (performance.now() - first)) * 1000)} each second` : "";
    setText(note, `${plural(n, "token", "tokens")}${rate}; the first after ${time((first - begun) / 1000)}`);
  });
}

function setRunning(controller) {
  running = controller;
  byId("send").hidden = Boolean(running);
  byId("stop").hidden = !running;
}

async function send(text) {
  messages.push({ role: "user", content: text });
  addTurn("user", text);
  const message = { role: "assistant", content: "" };
  const turn = addTurn("assistant", "");
  setRunning(new AbortController());
  try {
    await readAnswer(turn, message);
  } catch (error) {
    setText(turn.lastChild, error.name === "AbortError" ? "stopped" : error.message);
    turn.lastChild.classList.toggle("bad", error.name !== "AbortError");
  }
  // A turn without an answer would make the next request one that no template expects.
  if (message.content) messages.push(message);
  else messages.pop();
  setRunning(null);
}

byId("say").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("words").value;
  if (running || !text.trim()) return;
  byId("words").value = "";
  send(text);
});
byId("words").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("say").requestSubmit();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("clear").addEventListener("click", () => {
  running?.abort();
  messages.length = 0;
  byId("talk").replaceChildren();
});
watch("server", EVERY, look, () => {});
