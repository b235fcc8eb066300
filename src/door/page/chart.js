// SPDX-License-Identifier: Apache-2.0
// Charts of values over the last minutes, ten at most, as SVG. A pointer or the arrow keys choose a time, whose values the legend
// then shows. Colours come from the style sheet: .s0, .s1, …
"use strict";

const SPAN = 600; // seconds
const WIDTH = 600;
const HEIGHT = 100;

function svg(tag, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}

// The ages in seconds of `n` values, one each `every` ms, of which the last is `last` ms old.
function agesOf(n, every, last) {
  return Array.from({ length: n }, (_, i) => (last + (n - 1 - i) * every) / 1000);
}

// How many seconds a chart shows: no more than there are values for.
function spanOf(ages, lines) {
  const first = ages.findIndex((_, i) => lines.some((values) => values[i] !== null));
  const oldest = first < 0 ? 0 : ages[first];
  return [60, 120, 300].find((s) => oldest <= s) || SPAN;
}

const minutesOf = (span) => (span > 60 ? `${span / 60} minutes` : "minute");

// The next round number above x: axes end there.
function roundUp(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return power * [1, 2, 5, 10].find((n) => n * power >= x * 0.9999);
}

// Where the points are between the beginning of the chart, 0, and now.
function across(ages, span) {
  return ages.map((age) => WIDTH * (1 - age / span));
}

// SVG's path through the points; null ends a line. A point without neighbours is a short line, or it would not show.
function path(x, values, most) {
  const y = (v) => (HEIGHT * (1 - v / most)).toFixed(1);
  let text = "";
  let open = false;
  values.forEach((v, i) => {
    if (v === null) {
      open = false;
      return;
    }
    text += `${open ? "L" : "M"}${x[i].toFixed(1)} ${y(v)}`;
    if (!open && (values[i + 1] === null || i + 1 === values.length)) text += "h1";
    open = true;
  });
  return text;
}

class TimeChart {
  // `names` are those of the lines. format(value) gives text for people.
  constructor(title, names, format) {
    Object.assign(this, { title, names, format, chosen: null, ages: [], lines: [], span: SPAN });
    this.figure = element("figure", "time");
    this.caption = element("figcaption");
    this.caption.append(element("span", "title", title));
    this.keys = names.map((name, i) => {
      const key = element("span", `key s${i}`);
      key.append(element("span", "swatch"), element("span", "label", name), element("span", "now"));
      this.caption.append(key);
      return key.lastChild;
    });
    this.when = element("span", "when");
    this.caption.append(this.when);
    this.plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", tabindex: "0" });
    this.paths = names.map((_, i) => svg("path", { class: `line s${i}` }));
    this.cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" });
    this.plot.append(svg("path", { class: "grid", d: `M0 ${HEIGHT / 2}H${WIDTH}M0 0H${WIDTH}` }), ...this.paths, this.cursor);
    const axis = element("div", "axis");
    const box = element("div", "plot");
    this.most = element("span", "most");
    this.begin = element("span");
    axis.append(this.begin, element("span", "", "now"));
    box.append(this.most, this.plot, axis);
    this.figure.append(this.caption, box);
    this.listen();
  }

  listen() {
    const choose = (i, aloud) => {
      this.chosen = i;
      this.caption.setAttribute("aria-live", aloud ? "polite" : "off");
      this.showLegend();
    };
    this.plot.addEventListener("pointermove", (event) => {
      const box = this.plot.getBoundingClientRect();
      const age = this.span * (1 - (event.clientX - box.left) / box.width);
      choose(this.nearest(age), false);
    });
    this.plot.addEventListener("pointerleave", () => choose(null, false));
    this.plot.addEventListener("blur", () => choose(null, false));
    this.plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") choose(null, false);
      if (!step || !this.ages.length) return;
      event.preventDefault();
      const from = this.chosen === null ? this.ages.length : this.chosen;
      choose(Math.min(this.ages.length - 1, Math.max(0, from + step)), true);
    });
  }

  nearest(age) {
    if (!this.ages.length) return null;
    const distance = (i) => Math.abs(this.ages[i] - age);
    return this.ages.reduce((best, _, i) => (distance(i) < distance(best) ? i : best), 0);
  }

  // `ages` are the points' in seconds, the oldest first; `lines` has a list of values for each name, with null where there is
  // none.
  show(ages, lines) {
    this.ages = ages;
    this.lines = lines.map((values) => values.map((v) => (Number.isFinite(v) ? v : null)));
    if (this.chosen !== null && this.chosen >= ages.length) this.chosen = null;
    this.span = spanOf(ages, this.lines);
    const x = across(ages, this.span);
    const top = Math.max(...this.lines.map((values) => Math.max(0, ...values)));
    const most = top > 0 ? roundUp(top) : 1;
    this.paths.forEach((p, i) => p.setAttribute("d", path(x, this.lines[i], most)));
    setText(this.most, top > 0 ? this.format(most) : "");
    setText(this.begin, `${this.span / 60} min ago`);
    this.plot.setAttribute("aria-label", this.describe());
    this.showLegend();
  }

  describe() {
    const each = this.names.map((name, i) => {
      const known = this.lines[i].filter((v) => v !== null);
      if (!known.length) return `${name} not known`;
      return `${name} ${this.format(known[known.length - 1])}, at most ${this.format(Math.max(...known))}`;
    });
    return `${this.title} in the last ${minutesOf(this.span)}: ${each.join("; ")}`;
  }

  showLegend() {
    const i = this.chosen === null ? this.ages.length - 1 : this.chosen;
    this.keys.forEach((key, k) => {
      const v = this.lines[k] && i >= 0 ? this.lines[k][i] : null;
      setText(key, v === null ? "–" : this.format(v));
    });
    setText(this.when, this.chosen === null ? "" : `${age(1000 * this.ages[i])} ago`);
    const x = this.chosen === null ? 0 : WIDTH * (1 - this.ages[i] / this.span);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.cursor.setAttribute("visibility", this.chosen === null ? "hidden" : "visible");
  }
}

// A line without axes, for a row of a table. `name` says what it shows.
function sparkline(plot, name, ages, values, format) {
  const known = values.filter((v) => v !== null);
  const top = Math.max(0, ...known);
  const span = spanOf(ages, [values]);
  plot.firstChild.setAttribute("d", path(across(ages, span), values, top > 0 ? top : 1));
  plot.setAttribute("aria-label", known.length ? `${name} in the last ${minutesOf(span)}: at most ${format(top)}` : `${name}: not known`);
}

function newSparkline() {
  const plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", class: "spark" });
  plot.append(svg("path", { class: "line s0" }));
  return plot;
}
