
// -- effects --------------------------------------------------------------------------------------------------------

const outputs = facts.model.outputs, many = outputs.length > 1;
const panel = { output: 0, height: 220 };  // the output that is shown
const nameAt = (k) => (many ? outputs[k] : "effect");
const bandOf = (effect, k) => (effect.band && effect.band[k]) || null;
const withBand = (effect, k, i) => (bandOf(effect, k) ? ` ± ${format(effect.band[k][i], 2)}` : "");
const effectLines = (effect, i) =>
  visibleOutputs().map((k) => [nameAt(k), format(effect.effect[k][i], 3) + withBand(effect, k, i)]);
const isNear = (effect, i) => !effect.support || effect.support[i];  // files of older versions have no support

// Scores of a few classes share one chart; other outputs, which differ in scale, are shown one at a time.
const together = facts.model.task === "classification" && outputs.length <= colours.length;
const visibleOutputs = () => (together ? outputs.map((_, k) => k) : [panel.output]);

function setUpEffects() {
  const most = 12, more = byId("more-effects");
  if (many) nameOutputs(byId("effect-outputs"));
  facts.effects.slice(0, most).forEach(addEffect);
  more.hidden = facts.effects.length <= most;
  more.textContent = `Show all ${facts.effects.length} effects`;
  more.addEventListener("click", () => {
    more.hidden = true;
    facts.effects.slice(most).forEach(addEffect);
  });
}

function nameOutputs(holder) {
  if (together) holder.append(...outputs.map((name, k) => element("span", { class: "key" }, swatch(styleOf(k)), name)));
  if (together && !facts.effects.some((one) => one.inputs.length === 2)) return;
  const select = element("select", { id: "effect-output" });
  select.append(...outputs.map((name, k) => element("option", { value: k }, name)));
  select.addEventListener("change", () => { panel.output = Number(select.value); redraw(byId("effect-plots")); });
  holder.append(element("label", {}, together ? "Interactions for " : "Effects on ", select));
}

function addEffect(effect) {
  const figure = byId("effect-plots").appendChild(element("figure"));
  const draw = effect.inputs.length === 2 ? drawSurface : effect.categories[0] ? drawBars : drawCurve;
  drawIn(figure, (holder, width) => {
    const largest = (values) => Math.max(...visibleOutputs().map((k) => values[k]));
    const share = effect.share ? `${(100 * largest(effect.share)).toFixed(1)} % of the variance, ` : "";
    const strength = `${share}strength ${format(largest(effect.strength), 3)}`;
    const title = element("h3", {}, effect.inputs.join("  ×  ")), chart = element("div", { class: "chart" });
    holder.append(element("figcaption", {}, title, element("span", { class: "note" }, strength)), chart);
    draw(chart, width - 24, effect);
  });
}

// Largest main effect near samples on the outputs shown, with its band: the scale of all curves.
function limit() {
  const single = facts.effects.filter((one) => one.inputs.length === 1);
  const reach = (one, k) => one.effect[k].map((value, i) =>
    (isNear(one, i) ? Math.abs(value) + (bandOf(one, k) ? one.band[k][i] : 0) : 0));
  return 1.05 * Math.max(...single.flatMap((one) => visibleOutputs().flatMap((k) => reach(one, k))), 1e-300);
}

// Histogram of the samples below a curve, one bar for each point of the grid.
function histogram(effect, { X, bottom, left, right }) {
  const [xs] = effect.values, most = Math.max(...effect.density), half = (X(xs[1]) - X(xs[0])) / 2;
  return effect.density.map((share, i) => {
    const from = Math.max(left, X(xs[i]) - half), to = Math.min(right, X(xs[i]) + half), height = 24 * share / most;
    return shape("rect", { class: "density", x: from, width: to - from, y: bottom - height, height });
  });
}

function bandShape(points, halves, { X, Y }, style) {
  const edge = (sign) => points.map(([x, y], i) => `${X(x).toFixed(1)} ${Y(y + sign * halves[i]).toFixed(1)}`);
  const outline = [...edge(1), ...edge(-1).reverse()].join("L");
  return shape("path", { class: "band", fill: style.stroke, d: `M${outline}Z` });
}

function drawCurve(holder, width, effect) {
  const [name] = effect.inputs, [xs] = effect.values, x = [xs[0], xs[xs.length - 1]];
  const axes = frame(holder, { width, height: panel.height, x, y: [-limit(), limit()], label: `Effect of ${name}` });
  const { svg, X, Y, left, right, bottom } = axes;
  if (effect.density) svg.append(...histogram(effect, axes));
  svg.append(shape("line", { class: "zero", x1: left, x2: right, y1: Y(0), y2: Y(0) }));
  for (const decile of effect.deciles[0] || []) {
    svg.append(shape("line", { class: "tick", x1: X(decile), x2: X(decile), y1: bottom, y2: bottom - 6 }));
  }
  const near = xs.map((_, i) => i).filter((i) => isNear(effect, i));
  for (const k of visibleOutputs()) {
    const style = styleOf(together ? k : 0), points = xs.map((at, i) => [at, effect.effect[k][i]]);
    const places = points.map(([at, value]) => [X(at), Y(value)]);
    if (bandOf(effect, k)) inside(axes, bandShape(points, effect.band[k], axes, style));
    inside(axes, line(places, { ...style, class: "line faint" }));  // lighter where there are few samples
    if (near.length > 1) inside(axes, line(near.map((i) => places[i]), style));
  }
  const follow = follower(axes);
  onPointer(svg, (event, place) => {
    const i = nearest(xs, X.back(place));
    follow(X(xs[i]));
    showTooltip(event, `${name} = ${format(xs[i])}`, effectLines(effect, i));
  }, follow);
}

function drawBars(holder, width, effect) {
  const [name] = effect.inputs, kinds = effect.values[0].map(String), count = kinds.length, q = visibleOutputs().length;
  const ranges = { height: panel.height, x: [-0.5, count - 0.5], y: [-limit(), limit()], xNames: kinds };
  const axes = frame(holder, { width, ...ranges, label: `Effect of ${name}` }), { svg, X, Y, left, right } = axes;
  const wide = 0.7 * (X(1) - X(0)) / q;
  visibleOutputs().forEach((output, k) => effect.effect[output].forEach((value, i) => {
    const from = X(i) - wide * q / 2 + k * wide, half = bandOf(effect, output) ? effect.band[output][i] : 0;
    inside(axes, shape("rect", {
      x: from, width: Math.max(wide - 1, 1), rx: 2, fill: styleOf(k).stroke, opacity: isNear(effect, i) ? 1 : 0.3,
      y: Math.min(Y(value), Y(0)), height: Math.max(Math.abs(Y(value) - Y(0)), 0.5),
    }));
    const middle = from + wide / 2, ends = { x1: middle, x2: middle, y1: Y(value - half), y2: Y(value + half) };
    if (half) inside(axes, shape("line", { class: "error", ...ends }));
  }));
  svg.append(shape("line", { class: "zero", x1: left, x2: right, y1: Y(0), y2: Y(0) }));
  onPointer(svg, (event, place) => {
    const i = categoryAt(kinds, X.back(place));
    showTooltip(event, `${name} = ${kinds[i]}`, effectLines(effect, i));
  }, () => {});
}

const categoryAt = (kinds, place) => Math.min(kinds.length - 1, Math.max(0, Math.round(place)));

// Orange below zero, purple above (distinct with any colour vision).
function heat(share) {
  const ends = share < 0 ? [179, 88, 6] : [84, 39, 136], t = Math.min(1, Math.abs(share));
  return ends.map((c) => Math.round(247 + (c - 247) * t ** 0.8));
}

function drawSurface(holder, width, effect) {
  const [xs, ys] = effect.values, [xCategories, yCategories] = effect.categories, [across, up] = effect.inputs;
  const isSeen = (i, j) => !effect.support || effect.support[i][j];
  const heights = effect.effect[panel.output].map((column, i) => column.map((v, j) => (isSeen(i, j) ? v : null)));
  const most = Math.max(...heights.flat().filter(isPresent).map(Math.abs)) || 1;
  const ends = (values, kind) => (kind ? [-0.5, values.length - 0.5] : [values[0], values[values.length - 1]]);
  const { svg, X, Y, left, right, top, bottom } = frame(holder, {
    width, height: panel.height, x: ends(xs, xCategories), y: ends(ys, yCategories), xTitle: across, yTitle: up,
    grid: false,
    xNames: xCategories ? xs.map(String) : null, yNames: yCategories ? ys.map(String) : null,
    label: `Effect of ${across} and ${up}`,
  });
  svg.append(shape("image", {
    href: painting(spread(heights, xCategories).map((column) => spread(column, yCategories)), most),
    x: left, y: top, width: right - left, height: bottom - top, preserveAspectRatio: "none",
  }));
  svg.append(shape("text", { x: right, y: 14, "text-anchor": "end" }, `±${format(most, 2)}`));
  const at = (values, kind, place) => (kind ? categoryAt(values, place) : nearest(values, place));
  const text = (value) => (typeof value === "number" ? format(value) : String(value));
  onPointer(svg, (event, x, y) => {
    const i = at(xs, xCategories, X.back(x)), j = at(ys, yCategories, Y.back(y));
    const value = isPresent(heights[i][j]) ? format(heights[i][j], 3) : "no samples near";
    const lines = [[across, text(xs[i])], [up, text(ys[j])], ["effect", value]];
    showTooltip(event, `${across} × ${up}`, lines);
  }, () => {});
}

// Many pixels for each category: browsers interpolate between pixels, but not between equal ones.
const spread = (values, kind) => (kind ? values.flatMap((value) => Array(40).fill(value)) : values);

function painting(heights, most) {
  const canvas = element("canvas"), m = heights.length, n = heights[0].length;
  canvas.width = m;
  canvas.height = n;
  const context = canvas.getContext("2d"), pixels = context.createImageData(m, n);
  const colour = (value) => (isPresent(value) ? [...heat(value / most), 255] : [128, 128, 128, 90]);
  const set = (value, i, j) => pixels.data.set(colour(value), 4 * ((n - 1 - j) * m + i));
  heights.forEach((column, i) => column.forEach((value, j) => set(value, i, j)));
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL();
}

// -- observed and predicted -----------------------------------------------------------------------------------------

function setUpFit(holder, fit) {
  if (!holder || !fit) return;
  const predicted = fit.loo || fit.fitted, how = fit.loo ? "leave-one-out prediction" : "prediction";
  const plots = fit.observed.flatMap((observed, q) => {
    const xs = predicted[q], which = many ? `${outputs[q]}: ` : "", both = extent([...observed, ...xs]);
    const rest = observed.map((value, i) => value - xs[i]);
    const plot = (name, ys, x, y, end) => (
      { title: `${which}${name} against ${how}`, name, xs, ys, x, y, end, how, rows: fit.rows });
    return [plot("observed", observed, both, both, both), plot("residual", rest, extent(xs), extent(rest), [0, 0])];
  });
  const figures = plots.map(() => holder.appendChild(element("figure", { class: "chart" })));
  plots.forEach((plot, k) => drawIn(figures[k], (place, width) => scatter(place, width, plot)));
}

function scatter(holder, width, { title, xs, ys, x, y, end, how, name, rows }) {
  const { svg, X, Y } = frame(holder, { width, height: 320, x, y, xTitle: how, yTitle: title, label: title });
  svg.append(shape("line", { class: "zero", x1: X(x[0]), x2: X(x[1]), y1: Y(end[0]), y2: Y(end[1]) }));
  const places = xs.map((value, i) => [X(value), Y(ys[i])]), radius = xs.length > 400 ? 2.4 : 3.2;
  const dot = { class: "point", r: radius };
  const points = places.map(([cx, cy]) => shape("circle", { ...dot, cx: cx.toFixed(1), cy: cy.toFixed(1) }));
  svg.append(...points);
  const clear = () => svg.querySelectorAll(".near").forEach((point) => point.classList.remove("near"));
  onPointer(svg, (event, px, py) => {
    clear();
    const away = places.map(([cx, cy]) => Math.hypot(cx - px, cy - py)), best = nearest(away, 0);
    tooltip.hidden = true;
    if (away[best] > 28) return;
    points[best].classList.add("near");
    showTooltip(event, rows ? `sample ${rows[best]}` : "", [[how, format(xs[best])], [name, format(ys[best])]]);
  }, clear);
}

// -- reliability ----------------------------------------------------------------------------------------------------

function setUpReliability() {
  const curves = facts.reliability.slice(0, colours.length), title = "Observed frequency against predicted probability";
  if (curves.length > 1) {
    byId("reliability-legend").append(
      ...curves.map((one, k) => element("span", { class: "key" }, swatch(styleOf(k)), one.class)));
  }
  drawIn(byId("reliability-chart"), (holder, width) => {
    const ranges = { x: [0, 1], y: [0, 1], xTitle: "predicted probability", yTitle: "observed frequency" };
    const axes = frame(holder, { width, height: 360, ...ranges, label: title });
    const { svg, X, Y } = axes;
    svg.append(shape("line", { class: "zero", x1: X(0), x2: X(1), y1: Y(0), y2: Y(1) }));
    const points = curves.flatMap((one, k) => one.predicted.map((x, i) => ({ one, k, x, y: one.observed[i] })));
    curves.forEach((one, k) => inside(axes, line(one.predicted.map((x, i) => [X(x), Y(one.observed[i])]), styleOf(k))));
    inside(axes, ...points.map(({ k, x, y }) =>
      shape("circle", { class: "dot", fill: styleOf(k).stroke, r: 4.5, cx: X(x), cy: Y(y) })));
    onPointer(svg, (event, px, py) => {
      const away = points.map(({ x, y }) => Math.hypot(X(x) - px, Y(y) - py)), { one, x, y } = points[nearest(away, 0)];
      showTooltip(event, one.class, [["predicted", format(x, 3)], ["observed", format(y, 3)]]);
    }, () => {});
  });
}

// -- the penalty ----------------------------------------------------------------------------------------------------

function setUpPenalty() {
  const { alpha: xs, dof, ...curves } = facts.penalty, named = Object.entries(curves), logs = xs.map(Math.log);
  const keys = named.map(([name], k) => element("span", { class: "key" }, swatch(styleOf(k)), nameOf(name)));
  byId("penalty-legend").append(...keys);
  const least = Math.min(...[...curves.gcv, ...curves.loo].filter((value) => value > 0));
  const most = Math.max(...named.flatMap(([, values]) => values).filter(isPresent));
  const y = [least / 1.6, Math.min(1.1 * most, 8 * least)];
  const ranges = { x: [xs[0], xs[xs.length - 1]], y, xLog: true, yLog: true };
  const titles = { xTitle: "penalty alpha", yTitle: "estimated squared error", label: "Criteria against the penalty" };
  drawIn(byId("penalty-chart"), (holder, width) => {
    const axes = frame(holder, { width, height: 300, ...ranges, ...titles }), { svg, X, Y } = axes;
    named.forEach(([, values], k) => {
      const positive = xs.map((x, i) => [x, values[i]]).filter(([, value]) => value > 0);
      inside(axes, line(positive.map(([x, value]) => [X(x), Y(value)]), styleOf(k)));
    });
    if (facts.model.alpha) inside(axes, upright(axes, X(facts.model.alpha), "picked"));
    const follow = follower(axes);
    onPointer(svg, (event, place) => {
      const i = nearest(logs, Math.log(X.back(place)));
      follow(X(xs[i]));
      const lines = named.map(([name, values]) => [nameOf(name), format(values[i])]);
      showTooltip(event, `alpha = ${format(xs[i], 3)}`, [["effective parameters", format(dof[i], 3)], ...lines]);
    }, follow);
  });
}

// -- start --------------------------------------------------------------------------------------------------------

if (path.length) setUpPath();
setUpTerms();
if ((facts.effects || []).length) setUpEffects();
if (facts.model.task === "regression") {
  setUpFit(byId("fit-plots"), facts.fit);
  setUpFit(byId("data-plots"), data && data.fit);
}
if (facts.reliability) setUpReliability();
if (facts.penalty) setUpPenalty();
