
// -- the path -------------------------------------------------------------------------------------------------------

const path = facts.path || [], chosen = facts.model.n_terms, choices = facts.choices || {};
const state = { size: chosen, output: 0, order: path.length ? "selection" : "ratio", all: false, zoom: false };
if (byId("order").querySelector("[value=effect]")) state.order = "effect";
state.shown = new Set();  // criteria
const has = (key) => path.some((row) => isPresent(row[key]));
const errors = (facts.criteria || []).filter((name) => has(name) && name !== "loo_error");
const style = Object.fromEntries(errors.map((name, k) => [name, styleOf(k)]));
const sizes = new Map((facts.sizes || []).map((size) => [size.size, size]));
const terms = (number) => `${number} term${number === 1 ? "" : "s"}`;

// One chart over the number of terms; series with a name can be switched off.
function pathChart(title, series, { log, height, label, band }) {
  const place = byId("path-charts").appendChild(element("div", { class: "chart" }));
  drawIn(place, (holder, width) => {
    const visible = series.filter((one) => !one.name || state.shown.has(one.name));
    const rows = path.filter((row) => visible.some((one) => isPresent(row[one.key])));
    if (!rows.length) return;
    const x = [path[0].size - 0.4, Math.max(path[path.length - 1].size, 1) + 0.4];
    const titles = { xTitle: "number of terms", yTitle: title, label };
    const axes = frame(holder, { width, height, x, xLeast: 1, ...range(rows, visible, log), ...titles });
    axes.svg.append(upright(axes, axes.X(chosen), "chosen"));
    const banded = rows.filter((row) => isPresent(row[band]) && isPresent(row.loo_se));
    if (state.shown.has(band)) drawBand(axes, banded, band);
    visible.forEach((one) => drawSeries(axes, rows.filter((row) => isPresent(row[one.key])), one));
    if (state.size !== chosen) axes.svg.append(upright(axes, axes.X(state.size), "picked"));
    listen(axes, rows, visible);
  });
}

function range(rows, visible, log) {
  const looked = state.zoom ? rows.filter((row) => row.size >= chosen / 2) : rows;
  const values = looked.flatMap((row) => visible.map((one) => row[one.key])).filter(isPresent);
  const low = Math.min(...values), high = Math.max(...values);
  if (log && low > 0 && high > 6 * low) return { y: [low / 1.15, high * 1.15], yLog: true };
  return { y: extent(log || state.zoom ? values : [...values, 0]) };
}

function drawSeries(axes, rows, one) {
  const { X, Y } = axes, best = rows.find((row) => row.size === choices[one.key]);
  const shapes = [line(rows.map((row) => [X(row.size), Y(row[one.key])]), one.style)];
  if (best) {
    const place = { cx: X(best.size), cy: Y(best[one.key]), r: 4.5 };
    shapes.push(shape("circle", { class: "dot", fill: one.style.stroke, ...place }));
  }
  inside(axes, ...shapes);
}

function drawBand(axes, rows, key) {
  const { X, Y } = axes, clip = (value) => Math.min(Math.max(value, Y.low), Y.high);
  const up = rows.map((row) => [X(row.size), Y(clip(row[key] + row.loo_se))]);
  const down = rows.map((row) => [X(row.size), Y(clip(row[key] - row.loo_se))]).reverse();
  const outline = [...up, ...down].map((point) => point.join(" ")).join("L");
  axes.svg.append(shape("path", { class: "band", fill: style[key].stroke, d: `M${outline}Z` }));
}

function listen(axes, rows, visible) {
  const { svg, X, width } = axes, follow = follower(axes);
  const at = (x) => rows[nearest(rows.map((row) => X(row.size)), x)];
  onPointer(svg, (event, x) => {
    const row = at(x);
    follow(X(row.size));
    const head = terms(row.size) + (row.term ? `: + ${row.term}` : "");
    showTooltip(event, head, visible.map((one) => [one.label, format(row[one.key])]));
  }, follow);
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    pick(at((event.clientX - box.left) * width / box.width).size);
  });
}

function setUpPath() {
  ["cv", "loo", "gcv"].filter((name) => errors.includes(name)).slice(0, 2).forEach((name) => state.shown.add(name));
  for (const name of errors) {
    const box = element("input", { type: "checkbox", value: name });
    box.checked = state.shown.has(name);
    box.addEventListener("change", () => {
      state.shown[box.checked ? "add" : "delete"](name);
      redraw(byId("path-charts"));
    });
    byId("criteria").append(element("label", { class: "chip" }, box, swatch(style[name]), nameOf(name)));
  }
  const zoom = element("input", { type: "checkbox", id: "zoom" });
  zoom.addEventListener("change", () => { state.zoom = zoom.checked; redraw(byId("path-charts")); });
  byId("criteria").append(element("label", { class: "chip tool" }, zoom, "zoom in"));
  setUpCharts();
  setUpSizes();
}

function setUpCharts() {
  const estimates = errors.map((name) => ({ key: name, name, label: nameOf(name), style: style[name] }));
  const label = "Error estimates against the number of terms", band = has("loo_se") ? "loo" : null;
  pathChart(`estimated ${facts.error_name || "squared error"}`, estimates, { log: true, height: 300, label, band });
  if (has("loo_error")) {
    const wrong = { key: "loo_error", label: "misclassified", style: { stroke: colours[1] } };
    pathChart("leave-one-out misclassification rate", [wrong],
      { height: 190, label: "Leave-one-out misclassification rate against the number of terms" });
  }
  if (has("reduction")) {
    pathChart("cost reduction of each term (dashed: expected of noise)", [
      { key: "reduction", label: "cost reduction", style: { stroke: colours[2] } },
      { key: "threshold", label: "expected of noise", style: { stroke: colours[6], "stroke-dasharray": "5 4" } },
    ], { log: true, height: 210, label: "Cost reduction of each term, and that expected of noise" });
  }
}

function setUpSizes() {
  const slider = byId("size"), kept = new Map([[chosen, ["this model"]]]);
  slider.closest(".controls").hidden = !sizes.size;
  slider.addEventListener("input", () => pick(Number(slider.value)));
  for (const [name, size] of Object.entries(choices)) kept.set(size, [...(kept.get(size) || []), nameOf(name)]);
  for (const [size, who] of [...kept].sort((a, b) => a[0] - b[0])) {
    const named = { class: "chip", type: "button", "data-size": size, "aria-pressed": size === state.size };
    const button = element("button", named, element("b", {}, size), element("span", {}, who.join(", ")));
    button.disabled = !sizes.size;
    button.addEventListener("click", () => pick(size));
    byId("choices").append(button);
  }
}

// Show the model at another size, or at the nearest one whose weights were computed.
function pick(wanted) {
  if (!sizes.size) return;
  const there = [...sizes.keys()];
  state.size = there[nearest(there, wanted)];
  byId("size").value = state.size;
  for (const button of byId("choices").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", Number(button.dataset.size) === state.size);
  }
  redraw(byId("path-charts"));
  drawTerms();
}

// -- terms ----------------------------------------------------------------------------------------------------------

function termsAt(size, output) {
  const of = (errors, k) => (errors ? errors[k] : null);
  if (size === chosen || !sizes.has(size)) {
    return facts.terms.map((term, k) => ({
      name: term.name, inputs: term.inputs, order: k + 1, weight: term.weight[output], error: of(term.std_error, output),
    }));
  }
  const { weights, std_errors: all } = sizes.get(size);
  const inputs = facts.path_inputs || [];
  return weights[output].map((weight, k) => (
    { name: facts.path_terms[k], inputs: inputs[k], order: k + 1, weight, error: of(all && all[output], k) }));
}

// Rows of terms, those of the same inputs together below a row with their names; the largest ratio decides.
function groupedRows(listed) {
  const groups = new Map();
  for (const term of listed) {
    const name = (term.inputs || []).join(" × ");
    groups.set(name, [...(groups.get(name) || []), term]);
  }
  return [...groups].flatMap(([name, members]) => {
    const count = element("span", { class: "note" }, terms(members.length));
    const head = element("th", { scope: "rowgroup", colspan: 5 }, element("span", {}, name), count);
    return [element("tr", { class: "group" }, head), ...members.map(termRow)];
  });
}

function drawTerms() {
  const most = 25, listed = termsAt(state.size, state.output), more = byId("more"), now = byId("size-now");
  const ratio = (term) => Math.abs(term.weight) / (term.error || Number.MIN_VALUE);
  if (state.order !== "selection") listed.sort((a, b) => ratio(b) - ratio(a));
  const shown = state.all ? listed : listed.slice(0, most);
  byId("term-rows").replaceChildren(...(state.order === "effect" ? groupedRows(shown) : shown.map(termRow)));
  more.hidden = listed.length <= most;
  more.textContent = state.all ? `Show ${most} terms` : `Show all ${listed.length} terms`;
  if (now) now.value = terms(state.size);
  const at = sizes.get(state.size);
  if (!at) return;
  const mean = state.size ? "" : ", which is the mean";
  const which = state.size === chosen ? `The model${mean}` : `The model truncated at ${terms(state.size)}${mean}`;
  byId("terms-summary").closest("section").querySelector("table").hidden = !listed.length;
  byId("terms-summary").textContent = `${which}: intercept ${format(at.intercept[state.output])}, ` +
    `effective parameters ${format(at.dof)}, leave-one-out error ${format(at.criteria.loo)}.`;
}

function termRow(term) {
  return element("tr", {},
    element("td", { class: "order" }, term.order),
    element("th", { scope: "row", class: "name" }, term.name),
    element("td", {}, format(term.weight, 4, true)),
    element("td", { class: "error" }, format(term.error, 3, true)),
    element("td", { class: "interval" }, ...(isPresent(term.error) ? [interval(term)] : [])));
}

// The weight and two standard errors on either side, to a scale of its own.
function interval({ weight, error }) {
  const reach = 2 * error, most = Math.abs(weight) + reach || 1, X = (value) => 50 + 48 * value / most;
  const thick = { "vector-effect": "non-scaling-stroke" };  // however the row is stretched
  const stroke = (kind, x1, x2, y1, y2) => shape("line", { class: kind, x1, x2, y1, y2, ...thick });
  return shape("svg", { viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" },
    stroke("axis", 50, 50, 0, 20),
    shape("g", Math.abs(weight) < reach ? { class: "insignificant" } : {},
      stroke("whisker", X(weight - reach), X(weight + reach), 10, 10),
      stroke("whisker weight", X(weight), X(weight), 4, 16)));
}

function setUpTerms() {
  const follow = (id, change) => {
    if (byId(id)) byId(id).addEventListener("change", (event) => { change(event.target.value); drawTerms(); });
  };
  byId("order").value = state.order;
  follow("order", (value) => { state.order = value; });
  follow("output", (value) => { state.output = Number(value); });
  byId("more").addEventListener("click", () => { state.all = !state.all; drawTerms(); });
  drawTerms();
}
