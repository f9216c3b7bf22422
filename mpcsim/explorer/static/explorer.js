/* The round explorer in the browser: draws a view, sends commands back. No dependencies.
 *
 * The Python side (mpcsim/explorer/model.py) says what the view holds. Text only ever enters the
 * page as text nodes.
 */

const SVG = "http://www.w3.org/2000/svg";
const PART_NAMES = {
  compute: "compute", propagation: "propagation", transmission: "transmission",
  window: "window (slow start)", handshake: "handshake", queueing: "queueing",
  recovery: "recovery (loss)", service: "service at the gateway", contention: "processor busy",
  fault: "delay by a fault", flight: "under way", idle: "nothing happened",
};
const PATIENCE_MS = 6000;  // before a command without an answer is given up
const MARK = { passed: "✓", failed: "✗", open: "○", ignored: "–" };
const SAID = {
  passed: "passed", failed: "failed", open: "not reached", later: "still to come",
  ignored: "ignored",
};

// ---------------------------------------------------------------------------- small helpers

function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("aria-")) node.setAttribute(name, value);
    else if (value === false) continue;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Put something in the place of all that is in a node. */
function put(node, ...children) {
  node.replaceChildren();
  return fill(node, {}, children);
}

function lock() {
  return draw("svg", { class: "mx-lock", viewBox: "0 0 12 14", width: 10, height: 12,
    "aria-hidden": "true" },
  draw("path", { d: "M3 6V4a3 3 0 0 1 6 0v2", fill: "none", stroke: "currentColor",
    "stroke-width": 1.6 }),
  draw("rect", { x: 1, y: 6, width: 10, height: 7, rx: 1.5, fill: "currentColor" }));
}

function ms(value) {
  return value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 999_950 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, font) {
  ruler.font = font;
  return ruler.measureText(text).width;
}

function overlap(a, b) {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/** A round step of 1, 2 or 5 times a power of ten. */
function tick(span, count) {
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
}

/** Scroll to a part of the page, no farther than it takes. */
function reveal(node) {
  node.scrollIntoView({ block: "nearest", inline: "nearest" });
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

class Explorer {
  constructor(model, el) {
    this.model = model;
    this.id = `mx-${Math.random().toString(36).slice(2, 10)}`;  // several may share a page
    this.even = null;
    this.tab = "message";
    this.editing = null;
    this.asked = 0;
    this.busy = false;
    this.altering = false;
    this.queued = new Map();
    this.build(el);
    this.listen();
    this.everything();
  }

  get view() { return this.model.get("view"); }
  get details() { return this.model.get("details"); }
  get step() { return Math.min(this.model.get("step"), this.view.steps.length); }
  get selected() {
    return this.view.messages.find((m) => m.key === this.model.get("selected")) ?? null;
  }

  // -------------------------------------------------------------------------- frame

  build(el) {
    const press = (label, sign, act) =>
      make("button", { type: "button", class: "mx-icon", "aria-label": label, title: label,
        onclick: act }, sign);
    this.title = make("div", { class: "mx-title" });
    this.back = press("Step back (left arrow)", "◀", () => this.go(this.step - 1));
    this.forward = press("Step forward (right arrow)", "▶", () => this.go(this.step + 1));
    this.slider = make("input", { type: "range", min: 0, "aria-label": "Step",
      oninput: (event) => this.go(Number(event.target.value)) });
    this.counter = make("output", { class: "mx-counter" });
    this.scale = make("button", { type: "button", class: "mx-toggle", onclick: () => {
      this.even = !this.even;
      this.diagram();
    } });
    this.banner = make("div", { class: "mx-banner" });
    this.problem = make("div", { class: "mx-problem", role: "alert" });
    this.canvas = make("div", { class: "mx-diagram" });
    this.now = make("section", { class: "mx-now", "aria-live": "polite",
      "aria-label": "This step" });
    this.tabs = make("div", { class: "mx-tabs", role: "tablist", "aria-label": "Details" },
      [["message", "Message"], ["knowledge", "Knowledge"], ["timing", "Timing"]].map(
        ([name, text]) => make("button", { type: "button", role: "tab", class: "mx-tab",
          id: `${this.id}-tab-${name}`, "aria-controls": `${this.id}-panel-${name}`,
          "data-tab": name, onclick: () => this.show(name) }, text)));
    this.panels = Object.fromEntries(["message", "knowledge", "timing"].map((name) => [
      name, make("div", { role: "tabpanel", class: "mx-panel", tabindex: 0,
        id: `${this.id}-panel-${name}`, "aria-labelledby": `${this.id}-tab-${name}` })]));
    this.fields = make("div");
    this.checks = make("div");
    this.facts = make("div");
    this.panels.message.append(this.facts, this.checks, this.fields);
    this.sliders = make("div");
    this.figures = make("div");
    this.panels.timing.append(this.sliders, this.figures);
    this.root = make("div", { class: "mx", role: "group", tabindex: 0,
      // JupyterLab's own shortcuts (arrows, D D, ...) must not fire while somebody works here.
      "data-lm-suppress-shortcuts": "true" },
      make("div", { class: "mx-head" },
        this.title,
        make("div", { class: "mx-controls", role: "toolbar", "aria-label": "Steps" },
          press("First step (Home)", "|◀", () => this.go(0)), this.back, this.slider, this.forward,
          press("Last step (End)", "▶|", () => this.go(Infinity)), this.counter, this.scale),
        this.banner, this.problem),
      make("div", { class: "mx-body" }, this.canvas,
        make("div", { class: "mx-side" }, this.now, this.tabs, Object.values(this.panels))),
      make("div", { class: "mx-foot" },
        "Keys: ← → step · Home End first, last · ↑ ↓ previous, next message · Enter its fields · " +
        "Esc none"));
    el.append(this.root);
  }

  listen() {
    this.handlers = {
      "change:view": () => this.everything(),
      "change:details": () => this.message(),
      "change:step": () => this.stepped(),
      "change:selected": () => {
        this.editing = null;
        this.marks();
        this.message();
        this.panels.message.scrollTop = 0;
      },
      "change:problem": () => this.said(),
      "change:answered": () => this.answered(),
    };
    for (const [name, act] of Object.entries(this.handlers)) this.model.on(name, act);
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.tabs.addEventListener("keydown", (event) => this.tabKey(event));
    this.sizes = new ResizeObserver(() => {
      const width = this.canvas.clientWidth;
      if (width && width !== this.drawnWidth) this.diagram();
    });
    this.sizes.observe(this.canvas);
    this.themes = new MutationObserver(() => this.theme());
    this.themes.observe(document.body, { attributes: true });
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.theme();
    this.scheme.addEventListener("change", this.onScheme);
    this.theme();
  }

  close() {
    clearTimeout(this.patience);
    for (const [name, act] of Object.entries(this.handlers)) this.model.off(name, act);
    this.sizes.disconnect();
    this.themes.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
  }

  theme() { this.root.dataset.theme = dark() ? "dark" : "light"; }

  // -------------------------------------------------------------------------- commands

  /** Ask Python for something. While it works, each slider's latest position waits. */
  ask(command) {
    if (this.busy && command.do === "latency") {
      this.queued.set(`${command.a} ${command.b}`, command);
      return;
    }
    this.busy = true;
    this.asked = Math.max(this.asked, this.model.get("answered")) + 1;
    this.root.setAttribute("aria-busy", "true");
    this.model.send({ ...command, id: this.asked });
    const asked = this.asked;
    clearTimeout(this.patience);
    this.patience = setTimeout(() => {
      if (this.model.get("answered") >= asked) return;
      this.busy = false;
      this.queued.clear();
      this.root.removeAttribute("aria-busy");
      this.complain("No answer yet: the kernel is busy or gone. Stepping works without it; " +
        "otherwise run the cell again.");
    }, PATIENCE_MS);
  }

  complain(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  answered() {
    if (this.model.get("answered") < this.asked) return;
    this.said();
    this.busy = false;
    this.root.removeAttribute("aria-busy");
    if (this.altering && !this.model.get("problem") && this.aborts.length) this.visit(this.aborts[0]);
    this.altering = false;
    for (const [key, next] of this.queued) {
      this.queued.delete(key);
      this.ask(next);
      return;
    }
  }

  said() { this.complain(this.model.get("problem")); }

  go(step) {
    const wanted = Math.max(0, Math.min(step, this.view.steps.length));
    if (wanted === this.model.get("step")) return;
    this.model.set("step", wanted);
    const arriving = wanted ? this.view.steps[wanted - 1].message : null;
    if (arriving !== null) this.model.set("selected", this.view.messages[arriving].key);
    this.model.save_changes();
  }

  choose(key) {
    this.model.set("selected", key);
    this.model.save_changes();
    if (key) this.show("message");
  }

  /** A message and what is in it, wherever on the page that is. */
  open(key) {
    this.choose(key);
    reveal(this.panels.message);
  }

  /** Where a check failed: that step, that message, that check. */
  visit(found) {
    const end = this.endOf(found);
    if (end >= 0) this.go(end + 1);
    this.panels.message.scrollTop = 0;
    if (found.message !== null) this.choose(this.view.messages[found.message].key);
    this.show("message");
    reveal(this.panels.message);
    const failed = this.checks.querySelector(".failed");
    if (failed) reveal(failed);
  }

  /** The aborts, those of honest parties first. */
  get aborts() {
    const cheats = (abort) => this.view.parties.some((p) => p.id === abort.party && p.cheats);
    return [...this.view.aborts].sort((a, b) => cheats(a) - cheats(b));
  }

  /** Index of the step in which a party aborted; -1: none of those shown. */
  endOf(abort) {
    return this.view.steps.findIndex((s) => s.party === abort.party && s.ended === "aborted");
  }

  show(name) {
    this.tab = name;
    for (const tab of this.tabs.children) {
      const here = tab.dataset.tab === name;
      tab.setAttribute("aria-selected", here);
      tab.tabIndex = here ? 0 : -1;
    }
    for (const [each, panel] of Object.entries(this.panels)) panel.hidden = each !== name;
  }

  key(event) {
    const at = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (at.matches("select, input[type=text], input[type=number]")) {
      if (event.key === "Escape") this.root.focus();
      return;
    }
    const range = at.matches("input[type=range]");
    const acts = {
      ArrowRight: () => this.go(this.step + 1),
      ArrowLeft: () => this.go(this.step - 1),
      ArrowDown: () => this.neighbour(1),
      ArrowUp: () => this.neighbour(-1),
      Home: () => this.go(0),
      End: () => this.go(Infinity),
      Escape: () => { this.choose(""); this.root.focus(); },
    };
    if (range && event.key !== "Escape") return;
    if ((event.key === "Enter" || event.key === " ") && at.closest(".mx-message")) {
      this.open(at.closest(".mx-message").dataset.key);
      if (event.key === "Enter") this.panels.message.focus();
    } else if (event.key === "Enter" && at === this.root && this.selected) {
      this.show("message");
      this.panels.message.focus();
    } else if (acts[event.key]) {
      acts[event.key]();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  tabKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const all = [...this.tabs.children];
    const at = all.findIndex((tab) => tab.dataset.tab === this.tab);
    const next = all[(at + by + all.length) % all.length];
    this.show(next.dataset.tab);
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  neighbour(by) {
    const all = this.view.messages;
    if (!all.length) return;
    const at = all.findIndex((m) => m.key === this.model.get("selected"));
    const next = all[(at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by + all.length) % all.length];
    this.choose(next.key);
    this.focusOn(next.key);
  }

  focusOn(key) {
    this.canvas.querySelector(`.mx-message[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  // -------------------------------------------------------------------------- drawing it all

  everything() {
    const { view } = this;
    this.root.setAttribute("aria-label", `Round explorer: ${view.name}`);
    this.head();
    this.said();
    this.diagram();
    this.message();
    this.timing();
    this.stepped();
    this.show(this.tab);
  }

  head() {
    const { view } = this;
    const change = view.finished_ms - view.at_first_ms;
    const moved = Math.abs(change) >= 0.005
      ? make("span", { class: "mx-soft" }, ` (${change > 0 ? "+" : "−"}${ms(Math.abs(change))} ms)`)
      : null;
    put(this.title,
      make("strong", {}, view.name),
      make("span", { class: `mx-badge ${view.good ? "good" : "bad"}` },
        `${view.good ? "✓" : "✗"} ${view.verdict}`),
      make("span", {}, `${ms(view.finished_ms)} ms`, moved),
      make("span", { class: "mx-soft mx-network" }, view.network));
    const [first, ...others] = this.aborts.map((abort) => this.abort(abort));
    put(this.banner, this.alterations(), first, this.stalls(), others.length ? make("details", {},
      make("summary", {}, `${others.length} more ${others.length > 1 ? "parties" : "party"} ` +
        "found a reason to break off"), others) : null);
  }

  /** For whom the others wait, in a run that came to a halt. */
  stalls() {
    return this.view.verdict !== "stalled" ? [] : this.view.parties
      .filter((party) => party.status === "waiting")
      .map((party) => make("div", { class: "mx-box mx-abort" },
        make("div", {}, make("strong", {}, `… Party ${party.id}: `), party.text)));
  }

  alterations() {
    const { view } = this;
    if (!view.edits.length) return [];
    return [make("div", { class: "mx-box mx-altered" },
      make("div", {}, make("strong", {}, "✎ Altered: "),
        view.edits.map((text) => make("div", {}, text))),
      make("div", { class: "mx-buttons" },
        make("button", { type: "button", class: "mx-button", onclick: () => this.ask({ do: "undo" }) },
          "Undo the last"),
        make("button", { type: "button", class: "mx-button",
          onclick: () => this.ask({ do: "reset" }) }, "Back to the honest run")))];
  }

  abort(found) {
    const { view } = this;
    const list = (who) => `${who.length > 1 ? "parties" : "party"} ${who.join(", ")}`;
    const blamed = found.culprits.length ? `${list(found.culprits)} certainly deviated`
      : found.suspects.length > 1 ? `at least one of ${list(found.suspects)}`
        : found.suspects.length ? `${list(found.suspects)} is suspected` : "nobody can be named";
    const cheats = view.parties.find((p) => p.id === found.party)?.cheats
      ? " Only its messages are altered: its own checks go on." : "";
    return make("div", { class: "mx-box mx-abort" },
      make("div", {},
        make("strong", {}, `✗ Party ${found.party} caught it ${found.where}: `),
        `${found.text}${found.detail ? ` (${found.detail})` : ""}`,
        make("div", {}, make("b", {}, "Who: "), blamed, " · ", make("b", {}, "check: "),
          make("code", {}, found.reason), " · ", make("b", {}, "what to do: "), found.what_to_do),
        make("div", { class: "mx-soft" }, `Blame: ${found.blame}: ${found.strength}.${cheats}`)),
      make("div", { class: "mx-buttons" }, this.endOf(found) < 0 ? null
        : make("button", { type: "button", class: "mx-button",
          onclick: () => this.visit(found) }, "Go there")));
  }

  stepped() {
    const { view, step } = this;
    this.slider.max = view.steps.length;
    this.slider.value = step;
    const shown = step ? view.steps[step - 1] : null;
    this.slider.setAttribute("aria-valuetext",
      shown ? `${step}: ${shown.title}, ${ms(shown.at_ms)} ms` : "before the first step");
    this.back.disabled = step === 0;
    this.forward.disabled = step === view.steps.length;
    this.counter.textContent =
      `step ${step} of ${view.steps.length}${shown ? ` · ${ms(shown.at_ms)} ms` : ""}`;
    this.card(shown);
    this.marks();
    this.outcomes();
    this.knowledge();
  }

  card(shown) {
    const { view } = this;
    if (!shown) {
      put(this.now, make("div", { class: "mx-card-title" }, "Before the first step"),
        make("div", { class: "mx-soft" },
          "Nothing has been sent. Step forward with ▶ or the right arrow key."));
      return;
    }
    const sent = shown.sent.map((n) => view.messages[n]);
    put(this.now,
      make("div", { class: "mx-card-title" }, this.badge(shown.party), ` ${shown.title}`),
      shown.rounds.map((round) => make("div", {},
        make("b", {}, `runs round ${round.number} (${round.name})`),
        round.steps.length
          ? make("ol", { class: "mx-taken" }, round.steps.map((text) => make("li", {}, text)))
          : null)),
      sent.length ? make("div", {}, "sends ", sent.map((m, at) => [at ? ", " : "",
        make("button", { type: "button", class: "mx-link", onclick: () => this.open(m.key) },
          `${m.kind} → ${m.receiver}`)])) : null,
      make("div", { class: shown.ended === "aborted" ? "mx-bad" : "mx-soft" },
        `${shown.ended === "done" ? "✓ " : shown.ended === "aborted" ? "✗ " : "… "}` +
        `${shown.standing}`));
  }

  badge(party) {
    return make("span", { class: "mx-party", style: this.colours(party) }, String(party));
  }

  /** A party's colours as a style; the theme says which of them is shown. */
  colours(party) {
    const colour = this.view.parties.find((p) => p.id === party)?.colour;
    return colour ? `--on-light:${colour.on_light};--on-dark:${colour.on_dark}` : null;
  }

  // -------------------------------------------------------------------------- diagram

  diagram() {
    this.drawnWidth = this.canvas.clientWidth;
    if (!this.drawnWidth) return;  // not on the page yet
    const width = Math.max(this.drawnWidth, 330);
    const focused = document.activeElement?.closest?.(".mx-message")?.dataset.key;
    const within = this.canvas.contains(document.activeElement);
    let plan = null;
    for (const grow of [1, 1.2, 1.45, 1.75]) {
      const next = this.plan(width, Boolean(this.even), grow);
      if (!plan || next.hidden < plan.hidden) plan = next;
      if (!plan.hidden) break;
    }
    if (this.even === null) {  // to scale, unless that leaves labels out
      this.even = plan.hidden > 0;
      if (this.even) plan = this.plan(width, true);
    }
    this.scale.textContent = this.even ? "Draw time to scale" : "Space events evenly";
    this.scale.title = this.even
      ? "Now every event has a row of its own. Press for a time axis to scale."
      : "Now the time axis is to scale. Press to give every event a row of its own.";
    put(this.canvas, this.picture(plan), this.legend());
    this.marks();
    if (within && focused) this.focusOn(focused);
  }

  /** Where everything goes: columns, rows, and labels that hide neither each other nor a line. */
  plan(width, even, grow = 1) {
    const { view } = this;
    const left = 96, right = 18, top = 52;
    const gap = (width - left - right) / view.parties.length;
    const x = new Map(view.parties.map((p, at) => [p.id, left + gap * (at + 0.5)]));
    const end = Math.max(view.finished_ms,
      ...view.messages.map((m) => Math.min(m.received_ms ?? 0, view.finished_ms)), 0.001);
    const times = [...new Set([0, end, ...view.messages.flatMap((m) => [m.sent_ms, m.received_ms])]
      .filter((t) => t !== null && t <= end).map((t) => Number(t.toFixed(6))))]
      .sort((a, b) => a - b);
    const height = grow * (even
      ? Math.max(300, (times.length - 1) * 25)
      : Math.min(1000, Math.max(500, 150 + view.messages.length * 32)));
    const y = (t) => {
      if (!even) return top + (Math.min(t, end) / end) * height;
      let at = times.findIndex((other) => other >= t - 1e-6);
      if (at < 0) at = times.length - 1;
      if (at === 0) return top;
      const share = (Math.min(t, times[at]) - times[at - 1]) / (times[at] - times[at - 1]);
      return top + ((at - 1 + share) / (times.length - 1)) * height;
    };
    const arrows = view.messages.filter((m) => x.has(m.receiver)).map((message) => {
      const x0 = x.get(message.sender), y0 = y(message.sent_ms);
      const there = message.received_ms !== null && message.received_ms <= end + 1e-6;
      const arrow = { message, x0, y0, x1: x.get(message.receiver), there,
        y1: y(message.received_ms ?? end), text: (message.altered ? "✎ " : "") + message.kind };
      if (message.received_ms === null) {
        arrow.x1 = x0 + (arrow.x1 - x0) * 0.45;
        arrow.y1 = Math.min(y0 + 24, top + height);
      } else if (!there) {  // cut where the run ends
        const share = (end - message.sent_ms) / (message.received_ms - message.sent_ms);
        const w = this.labelWidth(arrow.text), reach = Math.abs(arrow.x1 - x0) * share;
        arrow.y1 = top + height;
        arrow.stub = reach < w / 2 + 12 || reach < w + 26 && arrow.y1 - y0 < 40;
        if (!arrow.stub) arrow.x1 = x0 + (arrow.x1 - x0) * share;
      }
      return arrow;
    });
    const plan = { width, height, top, left, right, x, y, end, even, times, arrows };
    plan.tail = this.stubs(plan);
    plan.hidden = this.label(plan);
    return plan;
  }

  labelWidth(text) {
    return widthOf(text, `600 11px ${getComputedStyle(this.root).fontFamily}`) + 12;
  }

  /** Where the run ends before an arrow has room for its label, the arrow goes on below the end and
   * points at the label; returns how much height that takes. */
  stubs(plan) {
    const bottom = plan.top + plan.height, length = 26, h = 17, row = 21;
    const rows = [];
    for (const arrow of plan.arrows.filter((each) => each.stub)) {
      const right = arrow.x1 > arrow.x0;
      arrow.text += ` → ${arrow.message.receiver}`;
      const w = this.labelWidth(arrow.text);
      const x = right ? Math.min(arrow.x0 + length, plan.width - 2 - w)
        : Math.max(arrow.x0 - length - w, plan.left);
      const from = Math.min(x, arrow.x0) - 4, to = Math.max(x + w, arrow.x0) + 4;
      let at = rows.findIndex((taken) => taken.every((each) => to < each.from || each.to < from));
      if (at < 0) at = rows.push([]) - 1;
      rows[at].push({ from, to });
      arrow.x1 = right ? x - 1 : x + w + 1;
      arrow.y1 = bottom + 16 + at * row;
      arrow.label = { box: { x, y: arrow.y1 - h / 2, w, h }, cx: arrow.x1, cy: arrow.y1, lift: 0 };
    }
    return rows.length * row;
  }

  /** Finds a place for every label; returns how many found none. */
  label(plan) {
    const taken = [];
    const columns = [...plan.x.values()];
    let hidden = 0;
    const lines = plan.arrows;
    for (const arrow of plan.arrows.filter((each) => !each.stub).sort(
      (a, b) => Math.abs(a.x1 - a.x0) - Math.abs(b.x1 - b.x0))) {
      const w = this.labelWidth(arrow.text), h = 17;
      let best = null;
      for (let share = 0.12; share <= 0.881; share += 0.04) {
        const cx = arrow.x0 + share * (arrow.x1 - arrow.x0);
        const cy = arrow.y0 + share * (arrow.y1 - arrow.y0);
        for (const lift of [0, -1, 1, -2, 2, -3, 3, -4, 4]) {
          const box = { x: cx - w / 2, y: cy - h / 2 + lift * 9.5, w, h };
          let cost = 3 * Math.abs(share - 0.33) + (lift ? 1 + Math.abs(lift) : 0);
          if (best && cost >= best.cost) continue;
          if (box.y < plan.top - 4 || box.y + h > plan.top + plan.height + 4) continue;
          if (box.x < plan.left || box.x + w > plan.width - 2) continue;
          if (taken.some((other) => overlap(box, other))) continue;
          if (columns.some((c) => box.x - 8 < c && c < box.x + w + 8)) continue;
          for (const other of lines) {
            if (other !== arrow && crosses(other, box)) cost += 1.1;
          }
          if (!best || cost < best.cost) best = { cost, box, cx, cy, lift };
        }
      }
      arrow.label = best;
      if (best) taken.push({ x: best.box.x - 2, y: best.box.y - 1, w: w + 4, h: h + 2 });
      else hidden += 1;
    }
    return hidden;
  }

  picture(plan) {
    const { view } = this;
    const { width, height, top, left, x, y } = plan;
    const bottom = top + height, below = bottom + plan.tail + 36;
    const svg = draw("svg", { width, height: below, viewBox: `0 0 ${width} ${below}`,
      role: "group", "aria-label": `Sequence diagram of ${view.name}` });
    svg.append(draw("defs", {},
      ["", "hot"].map((kind) => draw("marker", { id: `${this.id}-head${kind}`, viewBox: "0 0 10 10",
        refX: 9, refY: 5, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse",
        orient: "auto-start-reverse" },
        draw("path", { d: "M0 1 L9 5 L0 9 z", class: `mx-head-${kind || "plain"}` })))));
    this.axis(svg, plan);
    this.bands(svg, plan);
    for (const party of view.parties) {
      const cx = x.get(party.id);
      svg.append(draw("line", { x1: cx, x2: cx, y1: top - 6, y2: bottom, class: "mx-life" }));
    }
    svg.append(draw("path", { d: this.critical(plan), class: "mx-critical" }));
    const ends = view.parties.map((party) => this.column(svg, plan, party));
    // All lines lie below all labels.
    svg.append(...plan.arrows.map((arrow) => this.arrow(arrow)), ...ends);
    svg.append(...plan.arrows.map((arrow) => this.chip(arrow)));
    this.line = draw("g", { class: "mx-nowline" },
      draw("line", { x1: left - 6, x2: width - 4 }), draw("path", { d: "M-7 -5 L0 0 L-7 5 z" }));
    svg.append(this.line);
    this.plans = plan;
    return svg;
  }

  axis(svg, plan) {
    const { top, height, left, width, y, even, end, times } = plan;
    const bottom = top + height;
    svg.append(draw("text", { x: 4, y: top - 12, class: "mx-axis" }, "ms"));
    const marks = [];
    if (even) {
      times.forEach((t) => marks.push(t));
    } else {
      const step = tick(end, height / 60);
      for (let n = 0; n * step <= end; n += 1) marks.push(n * step);
    }
    let last = -99;
    for (const t of marks) {
      const at = y(t);
      if (at - last < 13 || at > bottom + 1) continue;
      last = at;
      const text = even ? t.toFixed(t < 100 ? 2 : 1) : `${Number(t.toPrecision(6))}`;
      svg.append(draw("text", { x: 46, y: at + 4, class: "mx-axis", "text-anchor": "end" }, text),
        draw("line", { x1: left - 8, x2: width - 4, y1: at, y2: at, class: "mx-grid" }));
    }
  }

  /** The rounds beside the axis; they overlap, so odd and even ones have a strip each. */
  bands(svg, plan) {
    const { y } = plan;
    for (const round of this.view.rounds) {
      const at = 52 + 17 * ((round.number + 1) % 2);
      const y0 = y(round.start_ms), y1 = Math.max(y(round.end_ms), y0 + 3);
      const group = draw("g", { class: `mx-round ${round.number % 2 ? "odd" : "even"}` },
        draw("title", {}, `round ${round.number} (${round.name}): ` +
          `${ms(round.start_ms)} to ${ms(round.end_ms)} ms`),
        draw("rect", { x: at, y: y0, width: 15, height: y1 - y0, rx: 3 }));
      const name = `${round.number} ${round.name}`;
      const fits = widthOf(name, "11px sans-serif") + 8 < y1 - y0;
      if (fits) {
        group.append(draw("text", { class: "mx-round-name",
          transform: `translate(${at + 11.5} ${(y0 + y1) / 2}) rotate(-90)`,
          "text-anchor": "middle" }, name));
      } else if (y1 - y0 >= 13) {
        group.append(draw("text", { class: "mx-round-name", x: at + 7.5, y: (y0 + y1) / 2 + 4,
          "text-anchor": "middle" }, String(round.number)));
      }
      svg.append(group);
    }
  }

  column(svg, plan, party) {
    const { x, y, top } = plan;
    const style = this.colours(party.id);
    const cx = x.get(party.id);
    for (const step of this.view.steps) {
      if (step.party !== party.id) continue;
      const y0 = y(step.at_ms), y1 = Math.max(y(step.until_ms), y0 + (step.rounds.length ? 5 : 0));
      if (y1 > y0) {
        svg.append(draw("rect", { x: cx - 4.5, y: y0, width: 9, height: y1 - y0, rx: 2,
          class: "mx-work", style }, draw("title", {},
          `party ${party.id}: ${step.rounds.map((r) => r.name).join(", ") || "handles a message"}, ` +
          `${ms(step.until_ms - step.at_ms)} ms`)));
      }
    }
    const text = `${party.cheats ? "✎ " : ""}${party.id} ${party.role || party.site}`;
    const w = Math.min(widthOf(text, "600 12px sans-serif") + 24, 150);
    const head = draw("g", { class: "mx-column", style },
      draw("rect", { x: cx - w / 2, y: 8, width: w, height: 24, rx: 12 }),
      draw("text", { x: cx, y: 24.5, "text-anchor": "middle" }, text),
      draw("title", {}, `party ${party.id}, ${party.role}, at ${party.site}: ${party.status}`));
    const said = { done: "✓ done", aborted: "✗ aborted" }[party.status] ?? "… waiting";
    const end = draw("g", { class: `mx-end ${party.status}`, "data-end": party.id },
      draw("text", { x: cx, y: top + plan.height + plan.tail + 20, "text-anchor": "middle" },
        said));
    if (party.status !== "waiting") {
      const at = y(party.ended_ms);
      end.append(draw("circle", { cx, cy: at, r: 7.5 }), draw("path", {
        d: party.status === "done" ? `M${cx - 3.5} ${at} l2.5 3 l4.5 -6`
          : `M${cx - 3} ${at - 3} l6 6 m0 -6 l-6 6` }));
    }
    svg.append(head);
    return end;
  }

  critical(plan) {
    const { x, y } = plan;
    const parts = [];
    const done = new Set();
    for (const segment of this.view.critical) {
      if (segment.message !== null) {
        if (done.has(segment.message)) continue;
        done.add(segment.message);
        const arrow = plan.arrows.find((w) => w.message.number === segment.message);
        if (arrow) parts.push(`M${arrow.x0} ${arrow.y0} L${arrow.x1} ${arrow.y1}`);
        continue;
      }
      if (segment.party === null) continue;
      const cx = x.get(segment.party);
      parts.push(`M${cx} ${y(segment.start_ms)} L${cx} ${y(segment.end_ms)}`);
    }
    return parts.join(" ");
  }

  arrow(arrow) {
    const { message } = arrow;
    const lost = !["delivered", "duplicate"].includes(message.fate) || message.received_ms === null;
    const ends = { x1: arrow.x0, y1: arrow.y0, x2: arrow.x1, y2: arrow.y1 };
    const group = draw("g", { class: "mx-arrow", "data-number": message.number,
      "data-key": message.key, onclick: () => this.open(message.key) },
    draw("title", {}, `${message.kind} ${message.sender} → ${message.receiver}, ` +
      `${size(message.size)}, sent at ${ms(message.sent_ms)} ms`),
    draw("line", { ...ends, class: "mx-hit" }),
    draw("line", { ...ends, class: "mx-line", "marker-end": lost ? null : `url(#${this.id}-head)` }));
    if (lost) {
      group.append(draw("path", { class: "mx-cross",
        d: `M${arrow.x1 - 5} ${arrow.y1 - 5} l10 10 m0 -10 l-10 10` }));
    }
    group.classList.toggle("altered", message.altered);
    return group;
  }

  chip(arrow) {
    const { message } = arrow;
    const group = draw("g", { class: "mx-message", role: "button", tabindex: -1,
      "data-key": message.key, "data-number": message.number,
      "aria-label": `${message.kind} from party ${message.sender} to party ${message.receiver}, ` +
        `${message.round ? `round ${message.round}, ` : ""}${message.size} bytes, ` +
        (message.received_ms === null ? message.fate : `arrives at ${ms(message.received_ms)} ms`) +
        (message.altered ? ", altered" : "") + (message.critical ? ", on the critical path" : ""),
      onclick: () => this.open(message.key) });
    group.classList.toggle("altered", message.altered);
    if (!arrow.label) {  // no room: a dot stands for the name
      group.append(draw("circle", { cx: arrow.x0 + 0.5 * (arrow.x1 - arrow.x0),
        cy: arrow.y0 + 0.5 * (arrow.y1 - arrow.y0), r: 5, class: "mx-chip" }));
      return group;
    }
    const { box, cx, cy, lift } = arrow.label;
    if (lift) {
      group.append(draw("line", { x1: cx, y1: cy, x2: box.x + box.w / 2,
        y2: box.y + (lift > 0 ? 0 : box.h), class: "mx-leader" }));
    }
    group.append(
      draw("rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: 4, class: "mx-chip" }),
      draw("text", { x: box.x + box.w / 2, y: box.y + 12.5, "text-anchor": "middle",
        class: "mx-chip-text" }, arrow.text));
    return group;
  }

  legend() {
    return make("div", { class: "mx-legend", "aria-hidden": "true" },
      [["critical", "critical path"], ["arrived", "arrived"], ["flying", "under way"],
        ["future", "still to come"], ["work", "computing"]].map(([key, text]) =>
        make("span", {}, make("span", { class: `mx-key ${key}` }), text)));
  }

  /** What the present step changes in the diagram: classes and the line of now, nothing else. */
  marks() {
    const { view, step } = this;
    if (!this.plans) return;
    const sent = new Set(), arrived = new Set();
    view.steps.slice(0, step).forEach((s) => {
      s.sent.forEach((n) => sent.add(n));
      if (s.message !== null) arrived.add(s.message);
    });
    const shown = step ? view.steps[step - 1] : null;
    const selected = this.model.get("selected");
    for (const group of this.canvas.querySelectorAll(".mx-message, .mx-arrow")) {
      const n = Number(group.dataset.number);
      const here = group.dataset.key === selected;
      const out = sent.has(n) || arrived.has(n);
      group.classList.toggle("future", !out);
      group.classList.toggle("flying", out && !arrived.has(n));
      group.classList.toggle("current", shown?.message === n);
      group.classList.toggle("selected", here);
      const line = group.querySelector(".mx-line");
      if (line?.hasAttribute("marker-end")) {
        const hot = here || shown?.message === n;
        line.setAttribute("marker-end", `url(#${this.id}-head${hot ? "hot" : ""})`);
      }
    }
    const groups = [...this.canvas.querySelectorAll(".mx-message")];
    for (const group of groups) {
      const here = group.classList.contains("selected");
      group.setAttribute("aria-pressed", here);
      group.tabIndex = here ? 0 : -1;
    }
    if (!groups.some((group) => group.tabIndex === 0) && groups.length) groups[0].tabIndex = 0;
    const over = new Set(view.steps.slice(0, step).filter((s) => s.ended).map((s) => s.party));
    for (const end of this.canvas.querySelectorAll("[data-end]")) {
      const waits = end.classList.contains("waiting");
      const there = waits ? step === view.steps.length : over.has(Number(end.dataset.end));
      end.classList.toggle("hidden", !there);
    }
    this.line.style.display = shown ? "" : "none";
    if (shown) {
      const at = this.plans.y(shown.at_ms);
      this.line.querySelector("line").setAttribute("y1", at);
      this.line.querySelector("line").setAttribute("y2", at);
      this.line.querySelector("path").setAttribute("transform",
        `translate(${this.plans.left - 4} ${at})`);
    }
  }

  // -------------------------------------------------------------------------- message

  message() {
    const { selected, view } = this;
    if (!selected) {
      put(this.facts, make("p", { class: "mx-soft" },
        "Select a message: click it, or use the up and down arrow keys."));
      put(this.checks);
      put(this.fields);
      return;
    }
    const detail = this.details[selected.key] ?? { fields: [], operations: [], doc: "" };
    const facts = [
      selected.round ? `round ${selected.round}` : "notice of an abort",
      `${size(selected.size)} (${selected.size.toLocaleString("en")} bytes)`,
      detail.sealed === null ? null : detail.sealed ? "sealed end to end" : "not sealed",
      detail.broadcast === null ? null : detail.broadcast ? "the same to everyone" : "for one receiver",
      selected.received_ms === null ? `sent at ${ms(selected.sent_ms)} ms, ${selected.fate}`
        : `${ms(selected.sent_ms)} → ${ms(selected.received_ms)} ms ` +
          `(${ms(selected.received_ms - selected.sent_ms)} ms on the way)`,
      selected.critical ? "on the critical path" : null,
    ].filter(Boolean);
    put(this.facts,
      make("h4", { class: "mx-h" }, this.badge(selected.sender), " → ",
        this.badge(selected.receiver), ` ${selected.kind}`,
        selected.altered ? make("span", { class: "mx-badge bad" }, "✎ altered") : null),
      make("div", {}, detail.doc),
      make("div", { class: "mx-soft" }, facts.join(" · ")));
    put(this.fields,
      make("h4", { class: "mx-h" }, "What is in it"),
      detail.problem ? make("div", { class: "mx-bad" }, `✗ ${detail.problem}`) : null,
      detail.raw ? make("code", { class: "mx-value" }, detail.raw) : null,
      this.table(selected, detail),
      view.frozen ? make("p", { class: "mx-soft" }, view.frozen) : null);
    this.outcomes();
  }

  table(message, detail) {
    const rows = [];
    const add = (field, depth) => {
      rows.push(this.row(message, detail, field, depth));
      if (this.editing === field.path) rows.push(this.form(message, detail, field));
      field.fields.forEach((inner) => add(inner, depth + 1));
      if (field.omitted) {
        rows.push(make("tr", {}, make("td", { colspan: 4, class: "mx-soft",
          style: `padding-left:${(depth + 1) * 14 + 6}px` }, `… and ${field.omitted} more`)));
      }
    };
    detail.fields.forEach((field) => add(field, 0));
    if (!this.view.frozen && detail.operations.length) {
      const whole = { path: "", name: "whole message", type: "", size: detail.payload_bytes,
        doc: "withhold it, cut it, replace it", value: "", operations: detail.operations, fields: [] };
      rows.push(this.row(message, detail, whole, 0));
      if (this.editing === "") rows.push(this.form(message, detail, whole));
    }
    if (!rows.length) return null;
    return make("table", { class: "mx-table" },
      make("thead", {}, make("tr", {}, ["field", "bytes", "value", ""].map(
        (text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, rows));
  }

  row(message, detail, field, depth) {
    const can = !this.view.frozen && field.operations.length > 0;
    const value = field.receiver_only && field.value === null
      ? make("span", { class: "mx-hidden" }, lock(), ` for party ${message.receiver} only`)
      : field.value ? make("code", { class: "mx-value" }, field.value) : null;
    const open = this.editing === field.path;
    const leaf = field.path && !field.fields.length && detail.sealed !== null;
    const whose = !leaf ? "" : field.receiver_only ? " · secret"
      : detail.sealed && detail.broadcast ? " · for all parties" : " · public";
    return make("tr", { class: open ? "editing" : "" },
      make("th", { scope: "row", style: `padding-left:${depth * 14 + 6}px` },
        make("span", {}, field.name), make("div", { class: "mx-soft mx-small" }, field.type + whose)),
      make("td", { class: "mx-number" }, field.size === null || field.size === undefined ? ""
        : field.size.toLocaleString("en")),
      make("td", {}, value,
        field.doc ? make("div", { class: "mx-soft mx-small" }, field.doc) : null),
      make("td", {}, can ? make("button", { type: "button", class: "mx-button mx-edit",
        "aria-expanded": open, "aria-label": `Edit ${field.path || "the whole message"}`,
        "data-path": field.path, onclick: () => {
          this.editing = open ? null : field.path;
          this.message();
          this.fields.querySelector(open ? `[data-path="${CSS.escape(field.path)}"]` : "select")
            ?.focus();
        } }, "Edit") : null));
  }

  form(message, detail, field) {
    const choice = make("select", { "aria-label": "What to do" },
      field.operations.map((name) => make("option", { value: name }, name)));
    const hex = make("input", { type: "text", class: "mx-hex", spellcheck: "false",
      "aria-label": "New bytes in hexadecimal", placeholder: "new bytes in hexadecimal" });
    const many = detail.broadcast && this.view.parties.length > 2;
    const everyone = make("input", { type: "checkbox", checked: true, id: `${this.id}-all` });
    const adapt = () => { hex.hidden = choice.value !== "replace"; };
    choice.addEventListener("change", adapt);
    adapt();
    const submit = (event) => {
      event.preventDefault();
      const argument = hex.value.replace(/[\s…]/g, "").replace(/^0x/i, "");
      if (choice.value === "replace" && (argument.length % 2 || /[^0-9a-f]/i.test(argument))) {
        this.complain("new bytes: not whole bytes in hexadecimal");
        return;
      }
      this.editing = null;
      this.ask({ do: "edit", sender: message.sender, receiver: message.receiver,
        kind: message.kind, path: field.path, operation: choice.value,
        argument: choice.value === "replace" ? argument : "", everyone: many && everyone.checked });
      this.altering = true;  // the answer leads to where it was caught
      this.root.focus({ preventScroll: true });
    };
    return make("tr", { class: "editing" }, make("td", { colspan: 4 },
      make("form", { class: "mx-form", onsubmit: submit },
        make("span", {}, `Party ${message.sender} alters ${field.path || "the message"}:`),
        choice, hex,
        many ? make("label", { for: `${this.id}-all` }, everyone, " the same to everyone") : null,
        make("button", { type: "submit", class: "mx-button primary" }, "Run again with this"))));
  }

  /** The checks of the selected message, as far as the present step has come. */
  outcomes() {
    const { selected, view, step } = this;
    if (!selected) return;
    const past = view.steps.slice(0, step).filter((s) => s.party === selected.receiver);
    const here = past.some((s) => s.message === selected.number);
    const rows = selected.checks.map((check) => {
      const reached = check.round ? past.some((s) => s.rounds.some((r) => r.number === check.round))
        : here;
      const state = reached || check.outcome === "open" && step === view.steps.length
        ? check.outcome : "later";
      const where = check.round ? `in round ${check.round}` : "on receipt";
      return make("li", { class: `mx-check ${state}`, title: check.reason
        ? `if it fails: ${check.reason}` : "if it fails, the message is ignored" },
        make("span", { class: "mx-mark", "aria-hidden": "true" }, MARK[state] ?? "·"),
        make("span", {}, check.text,
          make("span", { class: "mx-soft mx-small" }, ` ${where}, ${SAID[state]}` +
            `${check.detail && state !== "later" ? ` (${check.detail})` : ""}`),
          state === "failed" ? make("code", {}, ` ${check.reason}`) : null));
    });
    put(this.checks,
      make("h4", { class: "mx-h" }, "What ", this.badge(selected.receiver), " checks"),
      make("ul", { class: "mx-checks" }, rows));
  }

  // -------------------------------------------------------------------------- knowledge

  knowledge() {
    const { view, step } = this;
    const columns = view.parties.map((party) => {
      const groups = { "own secret": [], received: [], public: [] };
      view.steps.slice(0, step).forEach((s, at) => {
        if (s.party !== party.id) return;
        for (const item of s.gained) groups[item.kind]?.push({ ...item, fresh: at === step - 1 });
      });
      const names = { "own secret": "Its own secrets", received: "Told by others",
        public: "Known to all parties" };
      const empty = Object.values(groups).every((items) => !items.length);
      return make("section", { class: "mx-knows" },
        make("h4", { class: "mx-h" }, this.badge(party.id), ` ${party.role || party.site} knows`),
        empty ? make("p", { class: "mx-soft" }, "nothing yet") : null,
        Object.entries(groups).filter(([, items]) => items.length).map(([kind, items]) => [
          make("h5", { class: "mx-h5" }, names[kind]),
          make("ul", { class: "mx-items" }, items.map((item) => this.item(item)))]),
        make("h5", { class: "mx-h5" }, "Must never learn"),
        make("ul", { class: "mx-items" }, (view.never[party.id] ?? []).map((n) => this.untold(n))));
    });
    columns.push(make("section", { class: "mx-knows" },
      make("h4", { class: "mx-h" }, "⇄ Whoever carries the messages knows"),
      make("ul", { class: "mx-items" }, view.network_sees.map((item) => this.item(item))),
      make("h5", { class: "mx-h5" }, "Must never learn"),
      make("ul", { class: "mx-items" }, (view.never.network ?? []).map((n) => this.untold(n)))));
    put(this.panels.knowledge, make("div", { class: "mx-columns" }, columns));
  }

  item(item) {
    return make("li", { class: item.fresh ? "fresh" : "" },
      make("b", {}, item.name), item.fresh ? make("span", { class: "mx-new" }, "new") : null,
      make("span", { class: "mx-soft" }, ` ${item.meaning}`),
      item.hidden ? make("div", { class: "mx-hidden mx-small" }, lock(), " value not shown") : null,
      item.value ? make("code", { class: "mx-value" }, item.value) : null);
  }

  untold(item) {
    return make("li", { class: item.found ? "mx-bad" : "" },
      make("b", {}, item.name), make("span", { class: "mx-soft" }, ` ${item.meaning}`),
      item.found === null ? null : make("div", { class: "mx-small" }, item.found
        ? "✗ found in a message it received"
        : "✓ searched for in all it received: not there"));
  }

  // -------------------------------------------------------------------------- timing

  timing() {
    const { view } = this;
    const shape = view.links.map((l) => `${l.a}|${l.b}|${l.at_first_ms}`).join() + view.fixed_times;
    if (shape !== this.shape) {
      this.shape = shape;
      this.inputs = view.links.map((link, at) => this.latency(link, at));
      put(this.sliders,
        make("h4", { class: "mx-h" }, "One-way latencies"),
        view.fixed_times ? make("p", { class: "mx-soft" },
          "Only a complete run without faults can be run over another network.") : null,
        this.inputs.map((input) => input.row),
        make("div", { class: "mx-buttons" }, make("button", { type: "button", class: "mx-button",
          disabled: view.fixed_times, onclick: () => view.links.forEach((l) => this.ask(
            { do: "latency", a: l.a, b: l.b, ms: l.at_first_ms })) }, "As it was")));
    }
    view.links.forEach((link, at) => {
      const { range, number } = this.inputs[at];
      if (document.activeElement !== range) range.value = link.one_way_ms;
      number.textContent = `${link.one_way_ms.toFixed(1)} ms`;
      range.setAttribute("aria-valuetext", `${link.one_way_ms.toFixed(1)} milliseconds`);
    });
    const total = view.critical.reduce((sum, s) => sum + s.end_ms - s.start_ms, 0) || 1;
    const share = (part) => `${((100 * part) / total).toFixed(1)} %`;
    put(this.figures,
      make("h4", { class: "mx-h" }, `Where the ${ms(view.finished_ms)} ms went`,
        make("span", { class: "mx-soft" }, ` at first ${ms(view.at_first_ms)} ms`)),
      make("div", { class: "mx-bar", role: "img", "aria-label": Object.entries(view.critical_parts)
        .map(([part, t]) => `${PART_NAMES[part] ?? part} ${ms(t)} ms`).join(", ") },
      Object.entries(view.critical_parts).map(([part, t]) => make("span", {
        class: `mx-part ${part}`, style: `flex-grow:${t}`,
        title: `${PART_NAMES[part] ?? part}: ${ms(t)} ms` }))),
      make("ul", { class: "mx-parts" }, Object.entries(view.critical_parts).map(([part, t]) =>
        make("li", {}, make("span", { class: `mx-swatch mx-part ${part}` }),
          `${PART_NAMES[part] ?? part} ${ms(t)} ms (${share(t)})`))),
      make("h4", { class: "mx-h" }, "Critical path"),
      make("table", { class: "mx-table" },
        make("thead", {}, make("tr", {}, ["from", "to (ms)", "where", "what"].map(
          (text) => make("th", { scope: "col" }, text)))),
        make("tbody", {}, view.critical.filter((s) => s.end_ms - s.start_ms >= 0.005).map((s) =>
          make("tr", {}, make("td", { class: "mx-number" }, ms(s.start_ms)),
            make("td", { class: "mx-number" }, ms(s.end_ms)), make("td", {}, s.where),
            make("td", {}, s.what))))));
  }

  latency(link, at) {
    const id = `${this.id}-link${at}`;
    const most = Math.max(250, Math.ceil((2 * link.at_first_ms) / 50) * 50);
    const send = (event) => this.ask({ do: "latency", a: link.a, b: link.b,
      ms: Number(event.target.value) });
    const range = make("input", { type: "range", id, min: 0, max: most, step: "any",
      disabled: this.view.fixed_times, oninput: send });
    range.addEventListener("keydown", (event) => {  // step="any" leaves the keys without a step
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10,
        PageDown: -10 }[event.key];
      if (!by) return;
      event.preventDefault();
      range.value = Math.max(0, Math.min(most, Number(range.value) + by));
      send({ target: range });
    });
    const number = make("output", { class: "mx-number", for: id });
    return { range, number, row: make("div", { class: "mx-latency" },
      make("label", { for: id }, `${link.a} – ${link.b}`), range, number) };
  }
}

/** Whether an arrow meets a box. */
function crosses(arrow, box) {
  let enter = 0, leave = 1;
  for (const [a, b, low, high] of [[arrow.x0, arrow.x1, box.x, box.x + box.w],
    [arrow.y0, arrow.y1, box.y, box.y + box.h]]) {
    if (a === b) {
      if (a < low || a > high) return false;
      continue;
    }
    const near = (low - a) / (b - a), far = (high - a) / (b - a);
    enter = Math.max(enter, Math.min(near, far));
    leave = Math.min(leave, Math.max(near, far));
  }
  return enter <= leave;
}

function render({ model, el }) {
  const explorer = new Explorer(model, el);
  return () => explorer.close();
}

export default { render };
