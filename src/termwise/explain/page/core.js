// The page draws itself: metadata come as JSON, charts are plain SVG.
const { facts, data, names } = JSON.parse(document.getElementById("facts").textContent);
const colours = ["--blue", "--vermilion", "--green", "--purple", "--orange", "--sky", "--grey"].map((c) => `var(${c})`);
const dashes = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "1 4"];
const styleOf = (k) => ({ stroke: colours[k % colours.length], "stroke-dasharray": dashes[k % dashes.length] });
const isPresent = (value) => value !== null && value !== undefined;
const byId = (id) => document.getElementById(id);
const nameOf = (criterion) => names[criterion] || criterion;

// -- elements and numbers -------------------------------------------------------------------------------------------

// Text is only ever set as text: a name that looks like markup stays a name.
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

// Significant digits; in a table with trailing zeros, so that decimal points are aligned.
function format(value, digits = 4, zeros = false) {
  if (!isPresent(value)) return "–";
  if (value === 0 || Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(digits));
  const plain = () => (Math.abs(rounded) < 10 ** digits ? rounded.toPrecision(digits) : String(rounded));
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 1) : plain();
  const trimmed = zeros ? text : text.replace(/(\.\d*?)0+(?=e|$)/, "$1").replace(/\.(?=e|$)/, "");
  return trimmed.replace("e+", "e").replace(/-/g, "−");
}

// A piece of a line as it is drawn, for a legend.
function swatch(style) {
  const piece = shape("line", { x1: 1, x2: 23, y1: 4, y2: 4, "stroke-width": 2.5, ...style });
  return shape("svg", { width: 24, height: 8, "aria-hidden": "true" }, piece);
}

function shorten(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

function ticksOf(low, high, count, least = 0) {
  const rough = (high - low) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough)), left = rough / power;
  const step = Math.max(least, power * (left > 7.07 ? 10 : left > 3.16 ? 5 : left > 1.41 ? 2 : 1));
  const first = Math.ceil(low / step - 1e-9), found = [];
  for (let k = first; k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
  return found.length < 2 && step > least ? ticksOf(low, high, 2 * count, least) : found;
}

function logTicks(low, high, count) {
  const found = [];
  const decades = Math.log10(high / low), every = Math.max(1, Math.round(decades / count));
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
    if (p % every) continue;
    for (const m of decades > 3 ? [1] : [1, 2, 5]) found.push(Number((m * 10 ** p).toPrecision(3)));
  }
  const inside = found.filter((t) => t >= low * (1 - 1e-9) && t <= high * (1 + 1e-9));
  return inside.length > 1 ? inside : ticksOf(low, high, count);
}

// A map from values to places, linear or logarithmic, with ticks.
function scale(low, high, from, to, { log = false, count = 5, least = 0 } = {}) {
  const f = log ? Math.log : (v) => v, a = f(low), b = f(high);
  const place = (value) => from + (b === a ? 0.5 : (f(value) - a) / (b - a)) * (to - from);
  place.back = (at) => { const v = a + (at - from) / (to - from) * (b - a); return log ? Math.exp(v) : v; };
  place.ticks = log ? logTicks(low, high, count) : ticksOf(low, high, count, least);
  place.low = low; place.high = high;
  return place;
}

function extent(values, room = 0.05) {
  const present = values.filter(isPresent);
  let low = Math.min(...present), high = Math.max(...present);
  if (low === high) { low -= 0.5 * (Math.abs(low) || 1); high += 0.5 * (Math.abs(high) || 1); }
  return [low - room * (high - low), high + room * (high - low)];
}

// -- tooltip --------------------------------------------------------------------------------------------------------

const tooltip = byId("tooltip");

function showTooltip(event, title, lines) {
  tooltip.replaceChildren(element("strong", {}, title), ...lines.map(([name, value]) =>
    element("div", {}, element("span", {}, name), element("span", {}, value))));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect(), gap = 14;
  let left = event.clientX + gap, top = event.clientY + gap;
  if (left + box.width > innerWidth - 6) left = event.clientX - gap - box.width;
  if (top + box.height > innerHeight - 6) top = event.clientY - gap - box.height;
  tooltip.style.left = `${Math.max(6, left)}px`;
  tooltip.style.top = `${Math.max(6, top)}px`;
}

function onPointer(svg, move, leave) {
  const inside = (event) => {
    const box = svg.getBoundingClientRect(), unit = svg.viewBox.baseVal.width / box.width;
    move(event, (event.clientX - box.left) * unit, (event.clientY - box.top) * unit);
  };
  svg.addEventListener("pointermove", inside);
  svg.addEventListener("pointerdown", inside);
  svg.addEventListener("pointerleave", () => { tooltip.hidden = true; leave(); });
}

// -- axes -----------------------------------------------------------------------------------------------------------

const drawn = [];  // [holder, draw]: drawn again when the width of the page changes

function drawIn(holder, draw) {
  if (!holder) return;
  const again = () => { holder.replaceChildren(); draw(holder, Math.max(220, holder.clientWidth)); };
  drawn.push({ holder, again, width: holder.clientWidth });
  again();
}

function redraw(holder) {
  drawn.filter((one) => holder.contains(one.holder)).forEach((one) => one.again());
}

addEventListener("resize", () => {
  for (const one of drawn.filter((each) => each.holder.isConnected && each.holder.clientWidth !== each.width)) {
    one.width = one.holder.clientWidth;
    one.again();
  }
});

// A frame with axes: margins as wide as the labels.
function frame(holder, options) {
  const { width, height, x, y, xTitle, yTitle, label, xLog, yLog, xLeast, xNames, yNames, grid = true } = options;
  const top = yTitle ? 26 : 10, bottom = height - (xTitle ? 42 : 24);
  const Y = scale(...y, bottom, top, { log: yLog, count: Math.max(2, Math.floor((bottom - top) / 42)) });
  const texts = yNames ? yNames.map((name) => shorten(name, 14)) : Y.ticks.map((t) => format(t));
  const left = Math.min(width * 0.4, 12 + 6.7 * Math.max(...texts.map((t) => t.length), 1)), right = width - 12;
  const X = scale(...x, left, right, { log: xLog, least: xLeast, count: Math.max(2, Math.floor((right - left) / 75)) });
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const yPlaces = yNames ? yNames.map((_, k) => k) : Y.ticks, xPlaces = xNames ? xNames.map((_, k) => k) : X.ticks;
  const everyRow = yNames ? Math.ceil(yNames.length * 13 / (bottom - top)) : 1;
  yPlaces.forEach((t, k) => {
    if (grid) svg.append(shape("line", { class: "grid", x1: left, x2: right, y1: Y(t), y2: Y(t) }));
    if (k % everyRow) return;
    svg.append(shape("text", { x: left - 7, y: Y(t) + 4, "text-anchor": "end" }, texts[k]));
  });
  svg.append(shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  // Of many names only some, which have room for about eight letters.
  const isCrowded = xNames && xNames.length * 24 > right - left;
  const every = isCrowded ? Math.ceil(xNames.length * 64 / (right - left)) : 1;
  const room = xNames ? Math.max(2, Math.floor(every * (right - left) / xNames.length / 7)) : 12;
  xPlaces.forEach((t, k) => k % every || svg.append(shape("text", { x: X(t), y: bottom + 17, "text-anchor": "middle" },
    xNames ? shorten(xNames[k], room) : format(t))));
  const below = { class: "title", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" };
  if (xTitle) svg.append(shape("text", below, shorten(xTitle, Math.floor((right - left) / 6.5))));
  if (yTitle) svg.append(shape("text", { class: "title", x: 2, y: 14 }, shorten(yTitle, Math.floor(width / 6.8))));
  holder.append(svg);
  return { svg, X, Y, left, right, top, bottom, width, height };
}

function line(points, attributes) {
  const path = points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  return shape("path", { class: "line", d: path, ...attributes });
}

// Nothing is drawn outside the axes.
function inside(axes, ...shapes) {
  const id = `clip${clips++}`, { left, right, top, bottom } = axes;
  const box = shape("rect", { x: left - 6, width: right - left + 12, y: top, height: bottom - top });
  axes.svg.append(shape("clipPath", { id }, box), shape("g", { "clip-path": `url(#${id})` }, ...shapes));
}
let clips = 0;

function upright(axes, x, kind) {
  return shape("line", { class: kind, x1: x, x2: x, y1: axes.top, y2: axes.bottom });
}

function nearest(values, wanted) {
  return values.reduce((best, value, k) => (Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? k : best), 0);
}

// A line that follows the pointer: call it with a place, or with nothing to hide it.
function follower(axes) {
  const mark = axes.svg.appendChild(upright(axes, 0, "pointer"));
  mark.setAttribute("visibility", "hidden");
  return (x) => fill(mark, isPresent(x) ? { x1: x, x2: x, visibility: "visible" } : { visibility: "hidden" }, []);
}
