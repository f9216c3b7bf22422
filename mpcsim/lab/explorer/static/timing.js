/* Panel of times: inputs for links and seed, and the breakdown of the duration. */

import { element, replaceContent } from "../../static/elements.js";
import { LOST_MS, applyAtEnter, formatMs, markField } from "./basics.js";

const PART_NAMES = {
  compute: "compute", propagation: "propagation", transmission: "transmission",
  window: "window (slow start)", handshake: "handshake", queueing: "queueing",
  recovery: "recovery (loss)", service: "service at the gateway", contention: "processor busy",
  fault: "delay by a fault", flight: "under way", idle: "nothing happened",
};

/** Return a number as text; empty for null (no limit). */
function numberText(value) {
  return value === null ? "" : String(Number(value.toPrecision(5)));
}

/** Numbers of a link. Sliders have a scale of their own: ``low`` to ``high``. */
const NUMBERS = {
  one_way_ms: {
    name: "latency", unit: "ms", label: "ms", shown: (value) => value, key: 1, low: 0,
    high: (first) => Math.max(250, Math.ceil((2 * first) / 50) * 50),
    onScale: (value) => value, offScale: (at) => at, sent: (typed) => typed,
  },
  mbit_per_s: {
    name: "bandwidth", unit: "Mbit/s", label: "Mbit/s", shown: (value) => value, key: 0.05, low: -1,
    high: (first) => Math.max(4, Math.ceil(Math.log10(first ?? 1))),
    onScale: (value) => (value === null ? 99 : Math.log10(value)),
    offScale: (at) => Number((10 ** at).toPrecision(3)), sent: (typed) => typed,
  },
  loss: {
    name: "loss", unit: "%", label: "% loss", shown: (value) => 100 * value, key: 0.1, low: 0,
    high: (first) => Math.min(50, Math.max(10, Math.ceil(200 * first))),
    onScale: (value) => 100 * value, offScale: (at) => at / 100,
    sent: (typed) => (typed === "" || Number.isNaN(Number(typed)) ? typed : Number(typed) / 100),
  },
};

/** Input of one number of a link: text and slider. */
class LinkNumber {
  constructor(ui, at, what) {
    this.ui = ui;
    this.at = at;
    this.what = what;
    const { name, unit, label, key, low, high } = NUMBERS[what];
    const id = `${ui.id}-${what}-${at}`;
    const fixed = Boolean(ui.view.fixed_times);
    this.text = element("input", { type: "text", id, class: "mx-typed", inputmode: "decimal",
      autocomplete: "off", disabled: fixed, placeholder: "no limit", "data-what": what,
      "aria-label": `${name} of ${this.where} in ${unit}` });
    applyAtEnter(this.text, () => this.send(NUMBERS[what].sent(this.text.value.trim()), this.text));
    this.range = element("input", { type: "range", min: low, max: high(this.link.at_first[what]),
      step: "any", disabled: fixed, "data-what": what, "aria-label": `${name} of ${this.where}`,
      oninput: () => this.send(NUMBERS[what].offScale(Number(this.range.value))) });
    this.range.addEventListener("keydown", (event) => {  // with step="any" the keys have no step
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10,
        PageDown: -10 }[event.key];
      if (!by) return;
      event.preventDefault();
      this.range.value = Number(this.range.value) + by * key;
      this.send(NUMBERS[what].offScale(Number(this.range.value)));
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.refresh();
      ui.showError("");
    });
    this.root = element("div", { class: "mx-number-cell" },
      this.text, element("label", { for: id }, label), this.range);
  }

  get link() { return this.ui.view.links[this.at]; }
  get where() { return `${this.link.a} – ${this.link.b}`; }

  send(value, typed = null) {
    const { a, b } = this.link;
    this.ui.sendCommand({ do: "link", a, b, what: this.what, value }, typed);
  }

  /** Show the present value. */
  refresh() {
    const { unit, shown, onScale } = NUMBERS[this.what];
    const value = this.link.now[this.what];
    this.text.value = value === null ? "" : numberText(shown(value));
    markField(this.text, "");
    if (document.activeElement !== this.range) this.range.value = onScale(value);
    this.range.setAttribute("aria-valuetext", `${this.text.value || "no limit"} ${unit}`);
  }
}

export class TimingPanel {
  constructor(ui, root) {
    this.ui = ui;
    this.links = element("div");
    this.figures = element("div");
    root.append(this.links, this.figures);
  }

  redraw() {
    const { view } = this.ui;
    const first = view.links.map((link) => [link.a, link.b, link.at_first]);
    const shape = JSON.stringify([first, view.fixed_times]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.buildSettings();
    }
    this.numbers.forEach((number) => number.refresh());
    this.texts.forEach((node, at) => { node.textContent = view.links[at].text; });
    this.refreshSeed();
    replaceContent(this.drawn, this.lossText());
    this.drawSummary();
  }

  refreshSeed() {
    this.seed.value = this.ui.view.seed;
    markField(this.seed, "");
  }

  /** Build the inputs; their values change later. */
  buildSettings() {
    const { ui } = this, { view } = ui;
    const fixed = Boolean(view.fixed_times);
    const id = `${ui.id}-seed`;
    this.texts = view.links.map(() => element("span", { class: "mx-soft mx-small" }));
    const cells = view.links.map((_, at) =>
      Object.keys(NUMBERS).map((what) => new LinkNumber(ui, at, what)));
    this.numbers = cells.flat();
    this.seed = element("input", { type: "text", id, class: "mx-typed", inputmode: "numeric",
      autocomplete: "off", disabled: fixed });
    applyAtEnter(this.seed,
      () => ui.sendCommand({ do: "seed", value: this.seed.value.trim() }, this.seed));
    this.seed.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.refreshSeed();
      ui.showError("");
    });
    this.drawn = element("div", { class: "mx-soft" });
    replaceContent(this.links,
      element("h4", { class: "mx-h" }, "Links: mean one-way latency, bandwidth, loss"),
      fixed ? element("p", { class: "mx-soft" }, view.fixed_times) : null,
      view.links.map((link, at) => element("div", { class: "mx-linkset", role: "group",
        "aria-label": `${link.a} – ${link.b}` },
      element("div", {}, element("b", {}, `${link.a} – ${link.b} `), this.texts[at]),
      element("div", { class: "mx-number-cells" }, cells[at].map((cell) => cell.root)))),
      element("div", { class: "mx-seed" },
        element("label", { for: id }, element("b", {}, "Seed "), "of the draws"), this.seed,
        element("button", { type: "button", class: "mx-button", disabled: fixed,
          onclick: () => ui.sendCommand({ do: "seed", value: ui.view.seed + 1 }) }, "Another seed"),
        element("button", { type: "button", class: "mx-button mx-restore", disabled: fixed,
          onclick: () => ui.sendCommand({ do: "restore" }) }, "As it was")),
      this.drawn);
  }

  /** Return a sentence about the losses that the seed has drawn. */
  lossText() {
    const { view } = this.ui;
    const hit = view.messages.filter((m) => m.recovery_ms >= LOST_MS);
    return ["Each latency and each loss is drawn from the seed: the same seed, the same picture. ",
      hit.length ? "With this one, these waited for lost packets to be sent again: "
        : "With this one, no message waits for a lost packet.",
      hit.map((m, at) => [at ? ", " : "", element("button", { type: "button", class: "mx-link",
        onclick: () => this.ui.openMessage(m.key) }, `${m.kind} ${m.sender} → ${m.receiver}`),
      ` (${formatMs(m.recovery_ms)} ms)`]), hit.length ? "." : ""];
  }

  drawSummary() {
    const { view } = this.ui;
    const total = view.critical.reduce((sum, s) => sum + s.end_ms - s.start_ms, 0) || 1;
    const share = (part) => `${((100 * part) / total).toFixed(1)} %`;
    replaceContent(this.figures,
      element("h4", { class: "mx-h" }, `Where the ${formatMs(view.finished_ms)} ms went`,
        element("span", { class: "mx-soft" }, ` at first ${formatMs(view.at_first_ms)} ms`)),
      element("div", { class: "mx-bar", role: "img", "aria-label": Object.entries(view.critical_parts)
        .map(([part, t]) => `${PART_NAMES[part] ?? part} ${formatMs(t)} ms`).join(", ") },
      Object.entries(view.critical_parts).map(([part, t]) => element("span", {
        class: `mx-part ${part}`, style: `flex-grow:${t}`,
        title: `${PART_NAMES[part] ?? part}: ${formatMs(t)} ms` }))),
      element("ul", { class: "mx-parts" }, Object.entries(view.critical_parts).map(([part, t]) =>
        element("li", {}, element("span", { class: `mx-swatch mx-part ${part}` }),
          `${PART_NAMES[part] ?? part} ${formatMs(t)} ms (${share(t)})`))),
      element("h4", { class: "mx-h" }, "Critical path"),
      element("table", { class: "mx-table" },
        element("thead", {}, element("tr", {}, ["from", "to (ms)", "where", "what"].map(
          (text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, view.critical.filter((s) => s.end_ms - s.start_ms >= 0.005).map((s) =>
          element("tr", {}, element("td", { class: "mx-number" }, formatMs(s.start_ms)),
            element("td", { class: "mx-number" }, formatMs(s.end_ms)), element("td", {}, s.where),
            element("td", {}, s.what))))));
  }
}
