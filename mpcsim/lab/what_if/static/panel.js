/* What-if panel in the browser: draws a view, and sends commands back.
 *
 * The view is defined in mpcsim/lab/what_if/views.py.
 */

import { element, isDark, replaceContent, svgElement, tickStep } from "../../static/elements.js";
import { downloadPicture } from "../../static/pictures.js";

const SIDES = ["a", "b"];
const TYPING_MS = 250;  // from the last key until a number is sent
const BUSY_MS = 400;  // until a command counts as slow
const PATIENCE_MS = 30_000;  // time-out of a command
const LEAVE_LOG = 4;  // ratio of the longest to the shortest time from which the scale is logarithmic
const DOTS = { 50: 0.5, 95: 0.05, 99: 0.01 };
const LOWEST = 1e-3;

// ---------------------------------------------------------------------------- small helpers

/** Return milliseconds as text, with a decimal below 100 ms. */
function formatMs(value) {
  const digits = Math.abs(value) < 99.95 ? 1 : 0;
  return value.toLocaleString("en", { minimumFractionDigits: digits,
    maximumFractionDigits: digits });
}

function formatDifference(value) {
  const text = formatMs(Math.abs(value));
  if (!Number(text.replaceAll(",", ""))) return text;
  return `${value < 0 ? "−" : "+"}${text}`;
}

function formatShare(value, of) {
  if (!of) return "";
  const percent = Math.round((100 * value) / of);
  return percent ? ` (${percent < 0 ? "−" : "+"}${Math.abs(percent).toLocaleString("en")} %)` : "";
}

/** Return the next of 0, ..., 0.1, 0.2, 0.5, 1, 2, 5, ... above or below a number. */
function nextInSeries(value, up) {
  const near = value > 0 ? Math.floor(Math.log10(value)) : -2;
  const series = [-1, 0, 1].flatMap((at) =>
    [1, 2, 5].map((m) => Number((m * 10 ** (near + at)).toPrecision(1))));
  if (up) return series.find((each) => each > value * 1.000001);
  return series.findLast((each) => each < value * 0.999999 && each >= 0.01) ?? 0;
}

// ---------------------------------------------------------------------------- the widget

class Panel {
  constructor(model, el) {
    this.model = model;
    this.id = `wi-${Math.random().toString(36).slice(2, 10)}`;  // a page may have several
    this.asked = 0;
    this.busy = false;
    this.queued = new Map();
    this.typing = new Map();
    this.inputs = new Map();
    this.buildFrame(el);
    this.addListeners();
    this.redrawAll();
  }

  get view() { return this.model.get("view"); }

  // -------------------------------------------------------------------------- frame

  buildFrame(el) {
    const button = (text, key, act) => element("button", { type: "button", class: "wi-button",
      title: `${text} (${key})`, "data-key": key, onclick: act }, text);
    this.problem = element("div", { class: "wi-problem", role: "alert", hidden: true });
    this.status = element("span", { class: "wi-status", role: "status" });
    this.figures = element("div", { class: "wi-top", "aria-live": "polite" });
    this.tail = element("div", { class: "wi-chart wi-tail" });
    this.path = element("div", { class: "wi-chart wi-path" });
    this.parts = element("div", { class: "wi-parts" });
    this.code = element("code");
    this.text = element("pre", { class: "wi-python", tabindex: 0, "aria-label": "Python" },
      this.code);
    this.controls = element("table", { class: "wi-settings" });
    const heading = (text, note) => element("div", { class: "wi-h" }, text,
      element("span", { class: "wi-soft" }, ` ${note}`));
    this.count = element("span");
    this.root = element("div", { class: "wi", role: "group", "aria-label": "What if", tabindex: 0,
      // JupyterLab's own shortcuts (C, S, D D, ...) must not fire here.
      "data-lm-suppress-shortcuts": "true" },
      element("div", { class: "wi-head" },
        element("strong", {}, "What if"),
        element("span", { class: "wi-soft" }, "POST /v3/wallet/sign, ", this.count),
        this.status,
        element("div", { class: "wi-tools", role: "toolbar", "aria-label": "Sides" },
          button("Copy A to B", "C", () => this.sendCommand({ do: "copy" })),
          button("Swap A and B", "S", () => this.sendCommand({ do: "swap" })),
          ["svg", "png"].map((ending) => element("button", { type: "button", class: "wi-button",
            title: `Save both charts as ${ending.toUpperCase()}`, "data-save": ending,
            onclick: () => this.savePicture(ending) }, ending.toUpperCase())))),
      this.problem,
      element("div", { class: "wi-body" }, this.figures,
        element("div", { class: "wi-left" }, this.controls),
        element("div", { class: "wi-right" },
          heading("Calls that take longer", "share, on a log scale"), this.tail,
          heading("Critical path", "what the mean is made of"), this.path, this.parts)),
      element("div", { class: "wi-below" },
        element("div", { class: "wi-h wi-line" }, "The same in Python",
          button("Copy Python", "P", () => this.copyText())),
        this.text),
      element("div", { class: "wi-foot" },
        "Keys: Tab next · ↑ ↓ another value · Esc leaves a setting as it was, then: C copies A to " +
        "B · S swaps · P copies the Python lines"));
    this.buildSettings();
    el.append(this.root);
  }

  /** Build the table of inputs; it does not change. */
  buildSettings() {
    const rows = [element("tr", {}, element("td"), SIDES.map((side) => element("th", { scope: "col" },
      this.lineSample(side), side.toUpperCase())))];
    for (const group of this.view.groups) {
      rows.push(element("tr", { class: "wi-group" },
        element("th", { colspan: 3, scope: "colgroup" }, group.name)));
      for (const field of group.fields) {
        rows.push(element("tr", { "data-name": field.name },
          element("th", { scope: "row", title: field.hint }, field.label,
            field.unit ? element("span", { class: "wi-soft" }, ` ${field.unit}`) : null),
          SIDES.map((side) => element("td", {}, this.buildControl(side, field)))));
      }
    }
    replaceContent(this.controls, element("tbody", {}, rows));
  }

  buildControl(side, field) {
    const common = { "aria-label": `${field.label}, ${side.toUpperCase()}`,
      "data-at": `${side}.${field.name}` };
    const send = (value) => this.sendCommand({ do: "set", side, name: field.name, value });
    let input;
    if (field.kind === "choice") {
      input = element("select", { ...common, onchange: (event) => send(event.target.value) },
        field.choices.map((c) => element("option", { value: c.value }, c.text)));
    } else if (field.kind === "switch") {
      input = element("input", { ...common, type: "checkbox",
        onchange: (event) => send(event.target.checked) });
    } else {
      input = element("input", { ...common, type: "text", inputmode: "decimal", autocomplete: "off",
        spellcheck: "false", oninput: () => this.schedule(common["data-at"], () => send(input.value)),
        onchange: () => this.flush(common["data-at"]) });
      input.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
        event.preventDefault();
        const from = Number(input.value || this.view.sides[side].usual[field.name]);
        if (!Number.isFinite(from)) return;
        const next = nextInSeries(from, event.key === "ArrowUp");
        input.value = String(Math.max(field.low, Math.min(field.high, next)));
        this.schedule(common["data-at"], () => send(input.value));
      });
    }
    this.inputs.set(common["data-at"], { input, side, field });
    return input;
  }

  addListeners() {
    this.handlers = {
      "change:view": () => this.redrawAll(),
      "change:problem": () => this.showError(this.model.get("problem")),
      "change:answered": () => this.onAnswered(),
    };
    for (const [name, act] of Object.entries(this.handlers)) this.model.on(name, act);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.sizes = new ResizeObserver(() => {
      if (this.tail.clientWidth && this.tail.clientWidth !== this.drawnWidth) this.drawCharts();
    });
    this.sizes.observe(this.tail);
    this.themes = new MutationObserver(() => this.applyTheme());
    this.themes.observe(document.body, { attributes: true });
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.applyTheme();
    this.scheme.addEventListener("change", this.onScheme);
    this.applyTheme();
  }

  /** Save both charts as a file. */
  savePicture(ending) {
    const svgs = [this.tail, this.path].map((chart) => chart.querySelector("svg")).filter(Boolean);
    return downloadPicture("what-if", ending, svgs, getComputedStyle(this.root).backgroundColor);
  }

  close() {
    clearTimeout(this.patience);
    clearTimeout(this.working);
    for (const { timer } of this.typing.values()) clearTimeout(timer);
    for (const [name, act] of Object.entries(this.handlers)) this.model.off(name, act);
    this.sizes.disconnect();
    this.themes.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
  }

  applyTheme() { this.root.dataset.theme = isDark() ? "dark" : "light"; }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typed = event.target.matches("select, input");
    if (event.key === "Escape" && typed) {
      this.cancelScheduled(event.target.dataset.at);
      this.root.focus();
      this.refreshInputs();
      this.showError("");
      return;
    }
    if (typed) return;
    const button = this.root.querySelector(`[data-key="${CSS.escape(event.key.toUpperCase())}"]`);
    if (button) {
      event.preventDefault();
      button.click();
    }
  }

  // -------------------------------------------------------------------------- commands

  /** Send a number once nothing has been typed for a while. */
  schedule(at, act) {
    this.cancelScheduled(at);
    this.typing.set(at, { act, timer: setTimeout(() => this.flush(at), TYPING_MS) });
  }

  flush(at) {
    const waiting = this.typing.get(at);
    this.cancelScheduled(at);
    waiting?.act();
  }

  cancelScheduled(at) {
    clearTimeout(this.typing.get(at)?.timer);
    this.typing.delete(at);
  }

  /** Send a command to Python. While it is busy, the latest value of each setting waits. */
  sendCommand(command) {
    if (command.do !== "set") for (const at of [...this.typing.keys()]) this.flush(at);
    if (this.busy) {
      const what = command.do === "set" ? `${command.side}.${command.name}` : command.do;
      this.queued.delete(what);
      this.queued.set(what, command);
      return;
    }
    this.busy = true;
    this.command = command;
    this.asked = Math.max(this.asked, this.model.get("answered")) + 1;
    this.root.setAttribute("aria-busy", "true");
    this.model.send({ ...command, id: this.asked });
    clearTimeout(this.patience);
    clearTimeout(this.working);
    this.working = setTimeout(() => this.showStatus("working …"), BUSY_MS);
    this.patience = setTimeout(() => {
      this.endCommand();
      this.queued.clear();
      this.showError("No answer yet: the kernel is busy or gone. If it is gone, run the cell again.");
    }, PATIENCE_MS);
  }

  endCommand() {
    this.busy = false;
    clearTimeout(this.patience);
    clearTimeout(this.working);
    this.root.removeAttribute("aria-busy");
    this.showStatus("");
  }

  onAnswered() {
    if (this.model.get("answered") < this.asked) return;
    const { do: what, side, name } = this.command ?? {};
    const problem = this.model.get("problem");
    this.endCommand();
    this.showError(problem);
    this.refreshInputs(problem && what === "set" ? `${side}.${name}` : null);
    for (const [key, next] of this.queued) {
      this.queued.delete(key);
      this.sendCommand(next);
      return;
    }
  }

  showError(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  showStatus(text) { this.status.textContent = text; }

  async copyText() {
    const text = this.view.python;
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // no permission, or no secure page: select the text, and copy it
      getSelection().selectAllChildren(this.code);
      document.execCommand("copy");
    }
    this.showStatus("copied");
    setTimeout(() => { if (!this.busy) this.showStatus(""); }, 2000);
  }

  // -------------------------------------------------------------------------- drawing

  redrawAll() {
    this.refreshInputs();
    this.drawPercentiles();
    this.drawCharts();
    this.drawBreakdown();
    this.code.textContent = this.view.python;
    this.count.textContent = `${this.view.samples.toLocaleString("en")} calls simulated a side`;
  }

  /** Show the settings in force, except in an input that is being edited or was refused. */
  refreshInputs(refused = null) {
    const { a, b } = this.view.sides;
    for (const [at, { input, side, field }] of this.inputs) {
      const { values, usual, idle } = this.view.sides[side];
      const value = values[field.name];
      if (field.kind === "switch") input.checked = value;
      else if (field.kind === "choice") input.value = value;
      else {
        const editing = this.typing.has(at) || document.activeElement === input;
        if (!editing && at !== refused) input.value = value;
        input.placeholder = usual[field.name];
        if (at === refused) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      }
      const why = idle[field.name];
      input.disabled = Boolean(why) && value !== true;
      input.title = why ?? "";
      const row = input.closest("tr");
      row.classList.toggle("differs", a.values[field.name] !== b.values[field.name]);
    }
  }

  lineSample(side) {
    return svgElement("svg", { class: "wi-sample", viewBox: "0 0 22 8", width: 22, height: 8,
      "aria-hidden": "true" },
    svgElement("line", { class: `wi-curve ${side}`, x1: 1, y1: 4, x2: 21, y2: 4 }));
  }

  drawPercentiles() {
    const { a, b } = this.view.sides;
    const names = Object.keys(DOTS);
    const of = (side) => [...names.map((name) => side.percentiles[name]), side.mean_ms];
    const row = (side) => element("tr", { class: "wi-side", "data-side": side },
      element("th", { scope: "row" }, this.lineSample(side), side.toUpperCase()),
      of(this.view.sides[side]).map((value) => element("td", {}, formatMs(value))));
    const [ofA, ofB] = [of(a), of(b)];
    replaceContent(this.figures, element("table", { class: "wi-figures" },
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "ms"),
        [...names.map((name) => `p${name}`), "mean"].map((t) => element("th", { scope: "col" }, t)))),
      element("tbody", {}, row("a"), row("b"),
        element("tr", { class: "wi-side", "data-side": "difference" },
          element("th", { scope: "row" }, "B − A"),
          ofA.map((value, at) => element("td", {}, formatDifference(ofB[at] - value),
            element("span", { class: "wi-soft" }, formatShare(ofB[at] - value, value))))))));
  }

  drawCharts() {
    this.drawnWidth = this.tail.clientWidth;
    if (!this.drawnWidth) return;
    this.drawTail(this.drawnWidth);
    this.drawPath(this.drawnWidth);
  }

  drawTail(width) {
    const { a, b } = this.view.sides;
    const height = 200, left = 46, right = 34, top = 8, bottom = 32;
    const ends = [a, b].flatMap((side) => [side.tail[0][0], side.tail.at(-1)[0]]);
    const low = Math.min(...ends), high = Math.max(...ends);
    const log = high / low >= LEAVE_LOG;
    const scale = log ? Math.log : (value) => value;
    const margin = 0.04 * (scale(high) - scale(low)) || 0.02 * low || 1;
    const from = scale(low) - margin, to = scale(high) + margin;
    const x = (value) => left + (width - left - right) * (scale(value) - from) / (to - from);
    const y = (part) => top + (height - top - bottom) * Math.log(part) / Math.log(LOWEST);
    const grid = [];
    for (const part of [1, 0.1, 0.01, LOWEST]) {
      grid.push(svgElement("line", { class: "wi-grid", x1: left, x2: width - right, y1: y(part),
        y2: y(part) }),
      svgElement("text", { class: "wi-axis", x: left - 6, y: y(part) + 4, "text-anchor": "end" },
        `${100 * part} %`));
    }
    for (const value of log ? this.logTicks(low, high) : this.ticks(low, high, width)) {
      const at = x(value);
      if (at < left || at > width - right) continue;
      grid.push(svgElement("line", { class: "wi-grid", x1: at, x2: at, y1: top, y2: y(LOWEST) }),
        svgElement("text", { class: "wi-axis wi-x", x: at, y: height - 17, "text-anchor": "middle" },
          value.toLocaleString("en")));
    }
    for (const [name, part] of Object.entries(DOTS)) {
      grid.push(svgElement("line", { class: "wi-mark", x1: left, x2: width - right, y1: y(part),
        y2: y(part) }),
      svgElement("text", { class: "wi-axis", x: width - right + 4, y: y(part) + 4 }, `p${name}`));
    }
    grid.push(svgElement("text", { class: "wi-axis", x: (left + width - right) / 2, y: height - 3,
      "text-anchor": "middle" }, "ms"));
    const curves = ["b", "a"].map((side) => {
      const { tail, percentiles } = this.view.sides[side];
      const points = tail.map(([time, part]) => `${x(time).toFixed(1)},${y(part).toFixed(1)}`);
      return svgElement("g", { "data-side": side },
        svgElement("polyline", { class: `wi-curve ${side}`, points: points.join(" ") }),
        Object.entries(DOTS).map(([name, part]) => svgElement("circle", { class: `wi-dot ${side}`,
          cx: x(percentiles[name]), cy: y(part), r: side === "a" ? 3 : 4.5 },
        svgElement("title", {}, `${side.toUpperCase()}, p${name}: ${formatMs(percentiles[name])} ms`))));
    });
    replaceContent(this.tail, svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "Share of the calls that take longer than so many milliseconds" },
    grid, curves));
  }

  ticks(low, high, width) {
    const by = tickStep(Math.max(high - low, 1e-3), Math.max(2, width / 90));
    const first = Math.ceil((low - by) / by);
    return Array.from({ length: Math.ceil((high - low) / by) + 3 },
      (_, at) => Number(((first + at) * by).toPrecision(6)));
  }

  logTicks(low, high) {
    const powers = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p += 1) powers.push(p);
    const of = high / low > 1000 ? [1] : [1, 2, 5];
    return powers.flatMap((p) => of.map((m) => Number((m * 10 ** p).toPrecision(1))));
  }

  drawPath(width) {
    const left = 22, right = 34, bar = 24, gap = 8, bottom = 20;
    const height = 2 * bar + gap + bottom + 4;
    const most = Math.max(...SIDES.map((side) => this.view.sides[side].mean_ms)) || 1;
    const x = (value) => left + (width - left - right) * value / most;
    const parts = [svgElement("defs", {}, this.view.links.map((link, at) =>
      this.view.causes.map((cause) => this.pattern(`${this.id}-${at}-${cause.name}`, cause, link))))];
    const foot = 2 + 2 * bar + gap;
    for (const value of this.ticks(0, most, width)) {
      if (value < 0 || x(value) > width - right + 1) continue;
      parts.push(svgElement("line", { class: "wi-grid", x1: x(value), x2: x(value), y1: 0, y2: foot }),
        svgElement("text", { class: "wi-axis wi-x", x: x(value), y: foot + 14, "text-anchor": "middle" },
          value.toLocaleString("en")));
    }
    SIDES.forEach((side, row) => {
      const y = 2 + row * (bar + gap);
      parts.push(svgElement("text", { class: "wi-name", x: left - 8, y: y + bar / 2 + 4,
        "text-anchor": "end" }, side.toUpperCase()));
      let now = 0;
      for (const { link, cause, ms: spent } of this.view.sides[side].path) {
        const at = this.view.links.findIndex((each) => each.name === link);
        const { text } = this.view.causes.find((each) => each.name === cause);
        const wide = x(now + spent) - x(now);
        if (wide > 0.3) {
          parts.push(svgElement("g", { class: "wi-ink", style: this.colourStyle(this.view.links[at]) },
            svgElement("rect", { class: "wi-stretch", x: x(now), y, width: wide, height: bar,
              fill: `url(#${this.id}-${at}-${cause})`, "data-link": link, "data-cause": cause },
            svgElement("title", {}, `${side.toUpperCase()}: ${link}, ${text}: ${formatMs(spent)} ms`))));
        }
        now += spent;
      }
    });
    replaceContent(this.path, svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "Critical path of both sides, by link and cause; the table below has the same" },
    parts));
  }

  colourStyle({ colour }) { return `--on-light: ${colour.on_light}; --on-dark: ${colour.on_dark}`; }

  /** Return the fill pattern of a cause; without a link in grey. */
  pattern(id, cause, link = null) {
    const lines = { "/": "M0 6L6 0", "\\": "M0 0L6 6", x: "M0 6L6 0M0 0L6 6" }[cause.hatch];
    return svgElement("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse",
      class: "wi-ink", style: link ? this.colourStyle(link) : null },
    svgElement("rect", { class: "wi-ground", width: 6, height: 6 }),
    svgElement("rect", { class: "wi-shade", width: 6, height: 6, "fill-opacity": cause.shade }),
    lines ? svgElement("path", { class: "wi-hatch", d: lines }) : null,
    cause.hatch === "." ? svgElement("circle", { class: "wi-shade", cx: 3, cy: 3, r: 1.1 }) : null);
  }

  /** Draw the same as tables by link and by cause; they are the legend, too. */
  drawBreakdown() {
    const { a, b } = this.view.sides;
    const sum = (side, which, name) => side.path.filter((each) => each[which] === name)
      .reduce((total, each) => total + each.ms, 0);
    const table = (title, rows) => element("table", { class: "wi-made" },
      element("thead", {}, element("tr", {},
        [title, "A", "B", "B − A"].map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, rows.map(([swatch, name, x, y]) => element("tr", { "data-name": name },
        element("th", { scope: "row" }, swatch, name),
        [formatMs(x), formatMs(y), formatDifference(y - x)].map((text) => element("td", {}, text))))));
    const box = (...inside) => svgElement("svg", { class: "wi-swatch", width: 16, height: 12,
      viewBox: "0 0 16 12", "aria-hidden": "true" }, inside);
    const links = this.view.links.map((link) => [
      box(svgElement("g", { class: "wi-ink", style: this.colourStyle(link) },
        svgElement("rect", { class: "wi-shade", width: 16, height: 12 }))),
      link.name, sum(a, "link", link.name), sum(b, "link", link.name)]);
    const causes = this.view.causes.map((cause) => [
      box(svgElement("defs", {}, this.pattern(`${this.id}-${cause.name}`, cause)),
        svgElement("rect", { class: "wi-ink wi-stretch", width: 16, height: 12,
          fill: `url(#${this.id}-${cause.name})` })),
      cause.text, sum(a, "cause", cause.name), sum(b, "cause", cause.name)]);
    replaceContent(this.parts, table("by link, ms", links), table("by cause, ms", causes));
  }
}

function render({ model, el }) {
  const panel = new Panel(model, el);
  return () => panel.close();
}

export default { render };
