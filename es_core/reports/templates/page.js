"use strict";
// Draws the charts of a page from the JSON in it. Everything that comes from a run is set as text, never as markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
const AXES = { generations: "generation", steps: "environment steps", seconds: "seconds", stretches: "times the range" };
const HEIGHT = { wide: 330, narrow: 220 };
const number = rounded(4);

// The axis; where on it the reader points (null: at its end), and since when [ms].
const chosen = { axis: null, at: null, since: 0 };
const kept = recall();
if (kept.theme) document.documentElement.dataset.theme = kept.theme;
document.querySelectorAll("details").forEach((fold) => { fold.open = kept.folds?.[nameOf(fold)] ?? fold.open; });
document.querySelectorAll(".map").forEach(prepareMap);
const views = [...document.querySelectorAll(".chart")].map(prepare);

document.querySelectorAll("[data-axis]").forEach((button) => {
  button.addEventListener("click", () => choose(button.dataset.axis));
});
document.getElementById("theme")?.addEventListener("click", () => {
  const preferred = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (preferred ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
});
document.querySelectorAll("button.copy").forEach((button) => {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    button.textContent = "copied";
    say("copied");
  });
});
if (views.length) {
  const axes = Object.keys(AXES).filter((axis) => Object.values(DATA.grids).some((grid) => axis in grid));
  choose(axes.includes(kept.axis) ? kept.axis : axes[0]);
  const byFigure = new Map(views.map((view) => [view.figure, view]));
  const observer = new ResizeObserver((changes) => changes.forEach((change) => draw(byFigure.get(change.target))));
  byFigure.forEach((_, figure) => observer.observe(figure)); // one in a closed fold has no size
}
addEventListener("pagehide", keep);
if (kept.scroll) {
  history.scrollRestoration = "manual";
  scrollTo(0, kept.scroll);
}
const refresh = Number(document.documentElement.dataset.refresh ?? 0);
if (refresh) setInterval(() => { if (!isInUse()) location.reload(); }, 1000 * refresh);

/** Numbers of so many digits, thousands apart; from a million on such as 2.5M, if they are ticks, which are round. */
function rounded(digits, { percent = false, ticks = false } = {}) {
  const style = { maximumSignificantDigits: digits, ...(percent && { style: "percent" }) };
  const plain = new Intl.NumberFormat("en", style), short = new Intl.NumberFormat("en", { ...style, notation: "compact" });
  const format = (value) => (ticks && Math.abs(value) >= 1e6 ? short : plain).format(value);
  return { format: (value) => format(value).replaceAll(",", "\u202f").replace("%", "\u202f%") };
}

/** Lets a reader choose a place of a map of policies, by clicking, touching or the arrow keys. */
function prepareMap(figure) {
  const svg = figure.querySelector("svg"), places = [...svg.querySelectorAll("[data-cell]")];
  const [words, code] = ["p", "code"].map((name) => figure.querySelector(`.command ${name}`));
  const copy = figure.querySelector("button.copy");
  const at = (place) => ["x", "y"].map((name) => Number(place.getAttribute(name)));
  const choose = (place) => {
    if (place.classList.contains("chosen")) return;
    svg.querySelector(".chosen")?.classList.remove("chosen");
    place.classList.add("chosen");
    svg.append(place); // above its neighbours
    words.textContent = `Cell ${place.dataset.cell}: ${place.textContent}`;
    code.textContent = place.dataset.command;
    copy.textContent = "copy";
    copy.setAttribute("aria-label", `copy the command: ${words.textContent}`);
  };
  svg.addEventListener("click", (event) => { if (event.target.dataset.cell) choose(event.target); });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [x, y] = at(svg.querySelector(".chosen"));
    const way = (place) => {
      const [right, down] = [at(place)[0] - x, at(place)[1] - y];
      const ahead = right * step[0] + down * step[1], aside = Math.abs(right * step[1]) + Math.abs(down * step[0]);
      return ahead > 0 ? ahead + 3 * aside : Infinity;
    };
    const next = places.reduce((best, place) => (way(place) < way(best) ? place : best));
    if (way(next) === Infinity) return;
    choose(next);
    say(words.textContent);
  });
}

/** Tells those who hear the page what has changed. */
function say(words) { document.getElementById("said").textContent = words; }

/** What this page remembers from before it was loaded again. */
function recall() {
  if (performance.getEntriesByType("navigation")[0]?.type !== "reload") return {};
  try { return JSON.parse(sessionStorage.getItem(location.pathname)) ?? {}; } catch { return {}; }
}

function keep() {
  const folds = Object.fromEntries([...document.querySelectorAll("details")].map((fold) => [nameOf(fold), fold.open]));
  const { theme } = document.documentElement.dataset;
  try {
    sessionStorage.setItem(location.pathname, JSON.stringify({ axis: chosen.axis, theme, folds, scroll: scrollY }));
  } catch { /* a browser without memory shows the page as it was made */ }
}

function nameOf(fold) { return fold.querySelector("summary").textContent.trim(); }

/** True while loading the page again would disturb its reader. */
function isInUse() {
  const plays = [...document.querySelectorAll("video")].some((film) => !film.paused);
  const points = chosen.at !== null && performance.now() - chosen.since < 20_000;
  return document.hidden || plays || points || String(getSelection()) || document.querySelector(":focus-visible");
}

function choose(axis) {
  Object.assign(chosen, { axis, at: null });
  document.querySelectorAll("[data-axis]").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
  });
  views.forEach(draw);
}

/** What stays the same in a chart, whatever its size and axis. */
function prepare(figure) {
  const chart = DATA.charts[Number(figure.dataset.chart)];
  const svg = element("svg", { role: "img", tabindex: 0, "aria-label": `${chart.title}. ${chart.note}` });
  const legend = figure.querySelector(".legend");
  const head = legend.appendChild(document.createElement("li"));
  const view = { figure, chart, svg, head, wide: figure.classList.contains("wide"), entries: new Map() };
  chart.marks.forEach((mark) => {
    if (mark.thin || view.entries.has(mark.label)) return; // the same curve on another axis
    const entry = legend.appendChild(document.createElement("li"));
    const key = entry.appendChild(document.createElement("i"));
    key.className = `key ${mark.colour} ${kind(mark)}`;
    entry.append(` ${mark.label} `);
    view.entries.set(mark.label, entry.appendChild(document.createElement("b")));
  });
  figure.insertBefore(svg, legend);
  svg.addEventListener("pointermove", (event) => {
    const place = (event.clientX - svg.getBoundingClientRect().left - view.left) / view.inner;
    point(Math.min(1, Math.max(0, place)) * view.end);
  });
  svg.addEventListener("pointerleave", () => point(null));
  svg.addEventListener("blur", () => point(null));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const here = nearest(view.places, chosen.at ?? view.end);
    point(view.places[Math.min(view.places.length - 1, Math.max(0, here + step))]);
    const values = [...view.entries].map(([label, entry]) => `${label} ${entry.textContent}`);
    say([view.head.textContent, ...values].join(", "));
  });
  return view;
}

function kind(mark) {
  if (mark.rule !== null) return "rule";
  return mark.values === null ? "band" : mark.dots ? "dots" : "line";
}

/** The marks that the chosen axis can show, as points that have a value. */
function shown(chart) {
  const unit = timeUnit();
  return chart.marks.flatMap((mark) => {
    if (mark.rule !== null) return [{ ...mark, kind: "rule" }];
    const places = DATA.grids[mark.grid][chosen.axis];
    if (!places) return [];
    const points = places.map((x, k) => ({
      x: x / unit.size, y: mark.values?.[k] ?? null, low: mark.low?.[k] ?? null, high: mark.high?.[k] ?? null,
    }));
    return [{ ...mark, kind: kind(mark), points: points.filter((each) => each.y !== null || each.low !== null) }];
  });
}

function timeUnit() {
  const longest = Math.max(0, ...Object.values(DATA.grids).map((grid) => grid.seconds?.at(-1) ?? 0));
  if (chosen.axis !== "seconds" || longest < 300) return { size: 1, name: AXES[chosen.axis] };
  return longest < 7200 ? { size: 60, name: "minutes" } : { size: 3600, name: "hours" };
}

function draw(view) {
  const { chart, svg } = view;
  const width = view.figure.clientWidth;
  if (!width) return; // in a closed fold
  const height = view.wide && width > 600 ? HEIGHT.wide : HEIGHT.narrow;
  view.drawn = shown(chart);
  const places = new Set(view.drawn.flatMap((mark) => mark.points?.map((each) => each.x) ?? []));
  view.places = [...places].sort((a, b) => a - b);
  view.end = greatest(Object.values(DATA.grids).map((grid) => grid[chosen.axis]?.at(-1) ?? 0)) / timeUnit().size || 1;
  const [low, high] = chart.limits ?? span(view.drawn);
  const levels = ticks(low, high, height / 55);
  // As many digits as tell one level from the next; of values between two levels, one more.
  const { percent } = chart;
  const labelled = (digits) => levels.map(rounded(digits, { percent, ticks: true }).format);
  let digits = 4, labels = labelled(digits);
  while (new Set(labels).size < levels.length && digits < 12) labels = labelled(++digits);
  view.number = rounded(percent ? 3 : digits === 4 ? 4 : digits + 1, { percent });
  view.left = 14 + 6.4 * Math.max(...labels.map((label) => label.length));
  view.inner = width - view.left - 10;
  const top = 10, inner = height - top - 40;
  const x = (value) => (value / view.end) * view.inner;
  const y = (value) => inner - ((value - low) / (high - low)) * inner;
  Object.assign(view, { x, y });

  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  levels.forEach((level, k) => {
    const at = top + y(level);
    svg.append(element("line", { class: "grid", x1: view.left, x2: width - 10, y1: at, y2: at }));
    svg.append(text(labels[k], view.left - 8, at + 4, "end"));
  });
  ticks(0, view.end, view.inner / 90).forEach((place) => {
    if (chosen.axis !== "generations" || Number.isInteger(place)) {
      svg.append(text(rounded(4, { ticks: true }).format(place), view.left + x(place), height - 20, "middle"));
    }
  });
  svg.append(text(timeUnit().name, width - 10, height - 3, "end"));
  // An inner svg cuts off what lies outside of the axes, but for half a dot.
  const frame = { width: view.inner + 10, height: inner + 10 };
  const plot = element("svg", { ...frame, x: view.left - 5, y: top - 5, viewBox: `-5 -5 ${frame.width} ${frame.height}` });
  view.drawn.forEach((mark) => plot.append(...shapes(mark, x, y, view.inner)));
  const distant = view.drawn.filter((mark) => mark.distant);
  view.cursor = plot.appendChild(element("line", { class: "cursor", y1: 0, y2: inner }));
  distant.reduce((right, mark) => nameInChart(mark, right, view, inner), width - 14); // the curves go over the names
  svg.append(plot);
  read(view);
}

/** Writes the name of a distant rule beside its line, or at the edge beyond which it lies; returns where it begins. */
function nameInChart(mark, right, view, height) {
  const at = view.y(mark.rule);
  const beyond = at > height ? "↓" : at < 0 ? "↑" : null;
  const line = Math.max(0, Math.min(height, at));
  const gaps = view.drawn.filter((other) => other.kind === "rule").map((other) => line - view.y(other.rule));
  const isCrossed = gaps.some((gap) => gap > 0 && gap < 16);
  const isBelow = line < 18 || (isCrossed && height - line >= 18); // at the top, or where another rule would cross it
  const name = text(mark.label, right, 10 + (isBelow ? line + 15 : line - 5), "end");
  if (beyond) name.textContent += ` ${view.number.format(mark.rule)} ${beyond}`;
  name.setAttribute("class", "name");
  view.svg.append(name);
  return right - name.getComputedTextLength() - 16;
}

/**
 * Ends of the vertical axis: all of the lines, bands and rules; distant rules if most of the height is left to the
 * others.
 */
function span(marks) {
  const edges = (mark) => mark.points?.flatMap((each) => [each.low, each.high].filter((value) => value !== null)) ?? [];
  const lines = marks.flatMap((mark) => mark.points?.flatMap((each) => each.y ?? []) ?? (mark.distant ? [] : mark.rule));
  const bands = marks.flatMap(edges);
  let low = least([...lines, ...bands]), high = greatest([...lines, ...bands]);
  const beside = (high - low) / 3 || Infinity;
  const distant = marks.filter((mark) => mark.distant).map((mark) => mark.rule);
  const near = distant.filter((rule) => rule >= low - beside && rule <= high + beside);
  low = least([low, ...near]);
  high = greatest([high, ...near]);
  const margin = 0.05 * (high - low) || Math.abs(high) / 10 || 1;
  return [low >= 0 && low < margin ? 0 : low - margin, high + margin];
}

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(2, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

function shapes(mark, x, y, width) {
  const path = (points, value) => points.map((each, k) => `${k ? "L" : "M"}${round(x(each.x))} ${round(y(value(each)))}`);
  if (mark.kind === "rule") {
    return [element("line", { class: `rule ${mark.colour}`, x1: 0, x2: width, y1: y(mark.rule), y2: y(mark.rule) })];
  }
  if (mark.kind === "dots") {
    return mark.points.map((each) => element("circle", { class: mark.colour, cx: x(each.x), cy: y(each.y), r: 3.5 }));
  }
  const edges = mark.points.filter((each) => each.low !== null && each.high !== null);
  const outline = [...path(edges, (each) => each.high), ...path(edges.toReversed(), (each) => each.low)];
  const band = { class: `band ${mark.colour}`, d: outline.join("").replace(/(?!^)M/g, "L") + (outline.length ? "Z" : "") };
  const line = path(mark.points.filter((each) => each.y !== null), (each) => each.y).join("");
  // "h0": a line of one point is a dot.
  return [element("path", band), element("path", { class: `line ${mark.colour}${mark.thin ? " thin" : ""}`, d: line + (line && !line.includes("L") ? "h0" : "") })];
}

function point(at) {
  Object.assign(chosen, { at, since: performance.now() });
  views.forEach(read);
}

/** Writes the numbers where the reader points, or at the end, beside the legend. */
function read(view) {
  if (!view.drawn) return; // in a fold that was never open
  const at = Math.min(chosen.at ?? view.end, view.end);
  view.cursor.setAttribute("x1", view.x(at));
  view.cursor.setAttribute("x2", view.x(at));
  view.cursor.classList.toggle("shown", chosen.at !== null);
  const place = number.format(view.places[nearest(view.places, at)] ?? at);
  const unit = timeUnit().name;
  view.head.textContent = chosen.axis === "generations" ? `at ${unit} ${place}` : `at ${place} ${unit}`;
  view.entries.forEach((entry) => { entry.textContent = ""; });
  view.drawn.filter((mark) => !mark.thin).forEach((mark) => {
    view.entries.get(mark.label).textContent = value(mark, at, view.number);
  });
}

function value(mark, at, number) {
  if (mark.kind === "rule") return number.format(mark.rule);
  const each = mark.points[nearest(mark.points.map((every) => every.x), at)];
  if (!each) return "";
  const edges = each.low === null || each.high === null ? "" : `${number.format(each.low)} to ${number.format(each.high)}`;
  return each.y === null ? edges : number.format(each.y) + (edges && ` (${edges})`);
}

/** Index of the place in an ascending list that is nearest to `at`; -1 in an empty one. */
function nearest(places, at) {
  let low = 0, high = places.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[middle] + places[middle + 1] < 2 * at) low = middle + 1;
    else high = middle;
  }
  return high < 0 ? -1 : low;
}

// Not Math.min(...values): a long run has more numbers than a call may have arguments.
function least(values) { return values.reduce((a, b) => Math.min(a, b), Infinity); }
function greatest(values) { return values.reduce((a, b) => Math.max(a, b), -Infinity); }
function round(value) { return Math.round(value * 100) / 100; }

function text(content, x, y, anchor) {
  const node = element("text", { x, y, "text-anchor": anchor });
  node.textContent = content;
  return node;
}

function element(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, content]) => node.setAttribute(key, content));
  return node;
}
