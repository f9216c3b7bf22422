/* The what-if panel in the browser: draws a view, sends commands back. No dependencies.
 *
 * The Python side (mpcsim/lab/what_if/views.py) says what the view holds. Text only ever enters the page as
 * text nodes.
 */

const SVG = "http://www.w3.org/2000/svg";
const SIDES = ["a", "b"];
const TYPING_MS = 250;  // after the last key, before a number is sent
const BUSY_MS = 400;  // before it says that it is at work
const PATIENCE_MS = 30_000;  // before a command without an answer is given up
const LEAVE_LOG = 4;  // from this ratio of the longest to the shortest time on, a log scale
const DOTS = { 50: 0.5, 95: 0.05, 99: 0.01 };
const LOWEST = 1e-3;

// ---------------------------------------------------------------------------- small helpers

function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined));
  return node;
}

function put(node, ...children) {
  node.replaceChildren();
  return fill(node, {}, children);
}

/** As exact as it is of use: a tenth below 100 ms. */
function ms(value) {
  const digits = Math.abs(value) < 99.95 ? 1 : 0;
  return value.toLocaleString("en", { minimumFractionDigits: digits,
    maximumFractionDigits: digits });
}

function signed(value) {
  const text = ms(Math.abs(value));
  if (!Number(text.replaceAll(",", ""))) return text;
  return `${value < 0 ? "−" : "+"}${text}`;
}

function share(value, of) {
  if (!of) return "";
  const percent = Math.round((100 * value) / of);
  return percent ? ` (${percent < 0 ? "−" : "+"}${Math.abs(percent).toLocaleString("en")} %)` : "";
}

/** A round step of 1, 2 or 5 times a power of ten. */
function tick(span, count) {
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
}

/** The next of 0, ..., 0.1, 0.2, 0.5, 1, 2, 5, ... above or below a number. */
function step(value, up) {
  const near = value > 0 ? Math.floor(Math.log10(value)) : -2;
  const series = [-1, 0, 1].flatMap((at) =>
    [1, 2, 5].map((m) => Number((m * 10 ** (near + at)).toPrecision(1))));
  if (up) return series.find((each) => each > value * 1.000001);
  return series.findLast((each) => each < value * 0.999999 && each >= 0.01) ?? 0;
}

function dark() {
  const said = document.body.dataset.jpThemeLight;
  if (said !== undefined) return said === "false";
  const background = getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g);
  if (background && (background.length < 4 || Number(background[3]) > 0)) {
    const [r, g, b] = background.map(Number);
    return 0.299 * r + 0.587 * g + 0.114 * b < 128;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// ---------------------------------------------------------------------------- the widget

class Panel {
  constructor(model, el) {
    this.model = model;
    this.id = `wi-${Math.random().toString(36).slice(2, 10)}`;  // several may share a page
    this.asked = 0;
    this.busy = false;
    this.queued = new Map();
    this.typing = new Map();
    this.inputs = new Map();
    this.build(el);
    this.listen();
    this.everything();
  }

  get view() { return this.model.get("view"); }

  // -------------------------------------------------------------------------- frame

  build(el) {
    const button = (text, key, act) => make("button", { type: "button", class: "wi-button",
      title: `${text} (${key})`, "data-key": key, onclick: act }, text);
    this.problem = make("div", { class: "wi-problem", role: "alert", hidden: true });
    this.status = make("span", { class: "wi-status", role: "status" });
    this.figures = make("div", { class: "wi-top", "aria-live": "polite" });
    this.tail = make("div", { class: "wi-chart wi-tail" });
    this.path = make("div", { class: "wi-chart wi-path" });
    this.parts = make("div", { class: "wi-parts" });
    this.code = make("code");
    this.text = make("pre", { class: "wi-python", tabindex: 0, "aria-label": "Python" },
      this.code);
    this.controls = make("table", { class: "wi-settings" });
    const heading = (text, note) => make("div", { class: "wi-h" }, text,
      make("span", { class: "wi-soft" }, ` ${note}`));
    this.count = make("span");
    this.root = make("div", { class: "wi", role: "group", "aria-label": "What if", tabindex: 0,
      // JupyterLab's own shortcuts (C, S, D D, ...) must not fire while somebody works here.
      "data-lm-suppress-shortcuts": "true" },
      make("div", { class: "wi-head" },
        make("strong", {}, "What if"),
        make("span", { class: "wi-soft" }, "POST /v3/wallet/sign, ", this.count),
        this.status,
        make("div", { class: "wi-tools", role: "toolbar", "aria-label": "Sides" },
          button("Copy A to B", "C", () => this.ask({ do: "copy" })),
          button("Swap A and B", "S", () => this.ask({ do: "swap" })))),
      this.problem,
      make("div", { class: "wi-body" }, this.figures,
        make("div", { class: "wi-left" }, this.controls),
        make("div", { class: "wi-right" },
          heading("Calls that take longer", "share, on a log scale"), this.tail,
          heading("Critical path", "what the mean is made of"), this.path, this.parts)),
      make("div", { class: "wi-below" },
        make("div", { class: "wi-h wi-line" }, "The same in Python",
          button("Copy Python", "P", () => this.copyText())),
        this.text),
      make("div", { class: "wi-foot" },
        "Keys: Tab next · ↑ ↓ another value · Esc leaves a setting as it was, then: C copies A to " +
        "B · S swaps · P copies the Python lines"));
    this.settings();
    el.append(this.root);
  }

  /** The table of controls; what they are does not change. */
  settings() {
    const rows = [make("tr", {}, make("td"), SIDES.map((side) => make("th", { scope: "col" },
      this.sample(side), side.toUpperCase())))];
    for (const group of this.view.groups) {
      rows.push(make("tr", { class: "wi-group" },
        make("th", { colspan: 3, scope: "colgroup" }, group.name)));
      for (const field of group.fields) {
        rows.push(make("tr", { "data-name": field.name },
          make("th", { scope: "row", title: field.hint }, field.label,
            field.unit ? make("span", { class: "wi-soft" }, ` ${field.unit}`) : null),
          SIDES.map((side) => make("td", {}, this.control(side, field)))));
      }
    }
    put(this.controls, make("tbody", {}, rows));
  }

  control(side, field) {
    const common = { "aria-label": `${field.label}, ${side.toUpperCase()}`,
      "data-at": `${side}.${field.name}` };
    const send = (value) => this.ask({ do: "set", side, name: field.name, value });
    let input;
    if (field.kind === "choice") {
      input = make("select", { ...common, onchange: (event) => send(event.target.value) },
        field.choices.map((c) => make("option", { value: c.value }, c.text)));
    } else if (field.kind === "switch") {
      input = make("input", { ...common, type: "checkbox",
        onchange: (event) => send(event.target.checked) });
    } else {
      input = make("input", { ...common, type: "text", inputmode: "decimal", autocomplete: "off",
        spellcheck: "false", oninput: () => this.later(common["data-at"], () => send(input.value)),
        onchange: () => this.now(common["data-at"]) });
      input.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
        event.preventDefault();
        const from = Number(input.value || this.view.sides[side].usual[field.name]);
        if (!Number.isFinite(from)) return;
        const next = step(from, event.key === "ArrowUp");
        input.value = String(Math.max(field.low, Math.min(field.high, next)));
        this.later(common["data-at"], () => send(input.value));
      });
    }
    this.inputs.set(common["data-at"], { input, side, field });
    return input;
  }

  listen() {
    this.handlers = {
      "change:view": () => this.everything(),
      "change:problem": () => this.complain(this.model.get("problem")),
      "change:answered": () => this.answered(),
    };
    for (const [name, act] of Object.entries(this.handlers)) this.model.on(name, act);
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.sizes = new ResizeObserver(() => {
      if (this.tail.clientWidth && this.tail.clientWidth !== this.drawnWidth) this.charts();
    });
    this.sizes.observe(this.tail);
    this.themes = new MutationObserver(() => this.theme());
    this.themes.observe(document.body, { attributes: true });
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.theme();
    this.scheme.addEventListener("change", this.onScheme);
    this.theme();
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

  theme() { this.root.dataset.theme = dark() ? "dark" : "light"; }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typed = event.target.matches("select, input");
    if (event.key === "Escape" && typed) {
      this.drop(event.target.dataset.at);
      this.root.focus();
      this.values();
      this.complain("");
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

  /** Once nothing has been typed for a while. */
  later(at, act) {
    this.drop(at);
    this.typing.set(at, { act, timer: setTimeout(() => this.now(at), TYPING_MS) });
  }

  now(at) {
    const waiting = this.typing.get(at);
    this.drop(at);
    waiting?.act();
  }

  drop(at) {
    clearTimeout(this.typing.get(at)?.timer);
    this.typing.delete(at);
  }

  /** Ask Python for something. While it works, the latest value of each setting waits. */
  ask(command) {
    if (command.do !== "set") for (const at of [...this.typing.keys()]) this.now(at);
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
    this.working = setTimeout(() => this.say("working …"), BUSY_MS);
    this.patience = setTimeout(() => {
      this.rest();
      this.queued.clear();
      this.complain("No answer yet: the kernel is busy or gone. If it is gone, run the cell again.");
    }, PATIENCE_MS);
  }

  rest() {
    this.busy = false;
    clearTimeout(this.patience);
    clearTimeout(this.working);
    this.root.removeAttribute("aria-busy");
    this.say("");
  }

  answered() {
    if (this.model.get("answered") < this.asked) return;
    const { do: what, side, name } = this.command ?? {};
    const problem = this.model.get("problem");
    this.rest();
    this.complain(problem);
    this.values(problem && what === "set" ? `${side}.${name}` : null);
    for (const [key, next] of this.queued) {
      this.queued.delete(key);
      this.ask(next);
      return;
    }
  }

  complain(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  say(text) { this.status.textContent = text; }

  async copyText() {
    const text = this.view.python;
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // no permission, or no secure page: mark it, and copy as if by hand
      getSelection().selectAllChildren(this.code);
      document.execCommand("copy");
    }
    this.say("copied");
    setTimeout(() => { if (!this.busy) this.say(""); }, 2000);
  }

  // -------------------------------------------------------------------------- drawing

  everything() {
    this.values();
    this.numbers();
    this.charts();
    this.breakdown();
    this.code.textContent = this.view.python;
    this.count.textContent = `${this.view.samples.toLocaleString("en")} calls simulated a side`;
  }

  /** Settings as they are in force. What is being typed stays, and so does a refused number, for
   * correction. */
  values(refused = null) {
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

  sample(side) {
    return draw("svg", { class: "wi-sample", viewBox: "0 0 22 8", width: 22, height: 8,
      "aria-hidden": "true" },
    draw("line", { class: `wi-curve ${side}`, x1: 1, y1: 4, x2: 21, y2: 4 }));
  }

  numbers() {
    const { a, b } = this.view.sides;
    const names = Object.keys(DOTS);
    const of = (side) => [...names.map((name) => side.percentiles[name]), side.mean_ms];
    const row = (side) => make("tr", { class: "wi-side", "data-side": side },
      make("th", { scope: "row" }, this.sample(side), side.toUpperCase()),
      of(this.view.sides[side]).map((value) => make("td", {}, ms(value))));
    const [ofA, ofB] = [of(a), of(b)];
    put(this.figures, make("table", { class: "wi-figures" },
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "ms"),
        [...names.map((name) => `p${name}`), "mean"].map((t) => make("th", { scope: "col" }, t)))),
      make("tbody", {}, row("a"), row("b"),
        make("tr", { class: "wi-side", "data-side": "difference" },
          make("th", { scope: "row" }, "B − A"),
          ofA.map((value, at) => make("td", {}, signed(ofB[at] - value),
            make("span", { class: "wi-soft" }, share(ofB[at] - value, value))))))));
  }

  charts() {
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
      grid.push(draw("line", { class: "wi-grid", x1: left, x2: width - right, y1: y(part),
        y2: y(part) }),
      draw("text", { class: "wi-axis", x: left - 6, y: y(part) + 4, "text-anchor": "end" },
        `${100 * part} %`));
    }
    for (const value of log ? this.logTicks(low, high) : this.ticks(low, high, width)) {
      const at = x(value);
      if (at < left || at > width - right) continue;
      grid.push(draw("line", { class: "wi-grid", x1: at, x2: at, y1: top, y2: y(LOWEST) }),
        draw("text", { class: "wi-axis wi-x", x: at, y: height - 17, "text-anchor": "middle" },
          value.toLocaleString("en")));
    }
    for (const [name, part] of Object.entries(DOTS)) {
      grid.push(draw("line", { class: "wi-mark", x1: left, x2: width - right, y1: y(part),
        y2: y(part) }),
      draw("text", { class: "wi-axis", x: width - right + 4, y: y(part) + 4 }, `p${name}`));
    }
    grid.push(draw("text", { class: "wi-axis", x: (left + width - right) / 2, y: height - 3,
      "text-anchor": "middle" }, "ms"));
    const curves = ["b", "a"].map((side) => {
      const { tail, percentiles } = this.view.sides[side];
      const points = tail.map(([time, part]) => `${x(time).toFixed(1)},${y(part).toFixed(1)}`);
      return draw("g", { "data-side": side },
        draw("polyline", { class: `wi-curve ${side}`, points: points.join(" ") }),
        Object.entries(DOTS).map(([name, part]) => draw("circle", { class: `wi-dot ${side}`,
          cx: x(percentiles[name]), cy: y(part), r: side === "a" ? 3 : 4.5 },
        draw("title", {}, `${side.toUpperCase()}, p${name}: ${ms(percentiles[name])} ms`))));
    });
    put(this.tail, draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "Share of the calls that take longer than so many milliseconds" },
    grid, curves));
  }

  ticks(low, high, width) {
    const by = tick(Math.max(high - low, 1e-3), Math.max(2, width / 90));
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
    const parts = [draw("defs", {}, this.view.links.map((link, at) =>
      this.view.causes.map((cause) => this.pattern(`${this.id}-${at}-${cause.name}`, cause, link))))];
    const foot = 2 + 2 * bar + gap;
    for (const value of this.ticks(0, most, width)) {
      if (value < 0 || x(value) > width - right + 1) continue;
      parts.push(draw("line", { class: "wi-grid", x1: x(value), x2: x(value), y1: 0, y2: foot }),
        draw("text", { class: "wi-axis wi-x", x: x(value), y: foot + 14, "text-anchor": "middle" },
          value.toLocaleString("en")));
    }
    SIDES.forEach((side, row) => {
      const y = 2 + row * (bar + gap);
      parts.push(draw("text", { class: "wi-name", x: left - 8, y: y + bar / 2 + 4,
        "text-anchor": "end" }, side.toUpperCase()));
      let now = 0;
      for (const { link, cause, ms: spent } of this.view.sides[side].path) {
        const at = this.view.links.findIndex((each) => each.name === link);
        const { text } = this.view.causes.find((each) => each.name === cause);
        const wide = x(now + spent) - x(now);
        if (wide > 0.3) {
          parts.push(draw("g", { class: "wi-ink", style: this.ink(this.view.links[at]) },
            draw("rect", { class: "wi-stretch", x: x(now), y, width: wide, height: bar,
              fill: `url(#${this.id}-${at}-${cause})`, "data-link": link, "data-cause": cause },
            draw("title", {}, `${side.toUpperCase()}: ${link}, ${text}: ${ms(spent)} ms`))));
        }
        now += spent;
      }
    });
    put(this.path, draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "Critical path of both sides, by link and cause; the table below has the same" },
    parts));
  }

  ink({ colour }) { return `--on-light: ${colour.on_light}; --on-dark: ${colour.on_dark}`; }

  /** How a cause is filled; without a link in grey. */
  pattern(id, cause, link = null) {
    const lines = { "/": "M0 6L6 0", "\\": "M0 0L6 6", x: "M0 6L6 0M0 0L6 6" }[cause.hatch];
    return draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse",
      class: "wi-ink", style: link ? this.ink(link) : null },
    draw("rect", { class: "wi-ground", width: 6, height: 6 }),
    draw("rect", { class: "wi-shade", width: 6, height: 6, "fill-opacity": cause.shade }),
    lines ? draw("path", { class: "wi-hatch", d: lines }) : null,
    cause.hatch === "." ? draw("circle", { class: "wi-shade", cx: 3, cy: 3, r: 1.1 }) : null);
  }

  /** The same by link and by cause, in figures; legend of the bars, too. */
  breakdown() {
    const { a, b } = this.view.sides;
    const sum = (side, which, name) => side.path.filter((each) => each[which] === name)
      .reduce((total, each) => total + each.ms, 0);
    const table = (title, rows) => make("table", { class: "wi-made" },
      make("thead", {}, make("tr", {},
        [title, "A", "B", "B − A"].map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, rows.map(([swatch, name, x, y]) => make("tr", { "data-name": name },
        make("th", { scope: "row" }, swatch, name),
        [ms(x), ms(y), signed(y - x)].map((text) => make("td", {}, text))))));
    const box = (...inside) => draw("svg", { class: "wi-swatch", width: 16, height: 12,
      viewBox: "0 0 16 12", "aria-hidden": "true" }, inside);
    const links = this.view.links.map((link) => [
      box(draw("g", { class: "wi-ink", style: this.ink(link) },
        draw("rect", { class: "wi-shade", width: 16, height: 12 }))),
      link.name, sum(a, "link", link.name), sum(b, "link", link.name)]);
    const causes = this.view.causes.map((cause) => [
      box(draw("defs", {}, this.pattern(`${this.id}-${cause.name}`, cause)),
        draw("rect", { class: "wi-ink wi-stretch", width: 16, height: 12,
          fill: `url(#${this.id}-${cause.name})` })),
      cause.text, sum(a, "cause", cause.name), sum(b, "cause", cause.name)]);
    put(this.parts, table("by link, ms", links), table("by cause, ms", causes));
  }
}

function render({ model, el }) {
  const panel = new Panel(model, el);
  return () => panel.close();
}

export default { render };
