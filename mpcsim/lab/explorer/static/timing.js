/* Times: what links and seed are, what they may be made, and where the milliseconds went. */

import { LOST_MS, make, ms, put } from "./basics.js";

const PART_NAMES = {
  compute: "compute", propagation: "propagation", transmission: "transmission",
  window: "window (slow start)", handshake: "handshake", queueing: "queueing",
  recovery: "recovery (loss)", service: "service at the gateway", contention: "processor busy",
  fault: "delay by a fault", flight: "under way", idle: "nothing happened",
};

/** A number as people write it; nothing for one without limit. */
function written(value) {
  return value === null ? "" : String(Number(value.toPrecision(5)));
}

/** What can be set of a link. Sliders have a scale of their own: ``low`` to ``high``. */
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

/** One number of one link: typed, or moved by mouse and keys. */
class LinkNumber {
  constructor(ui, at, what) {
    this.ui = ui;
    this.at = at;
    this.what = what;
    const { name, unit, label, key, low, high } = NUMBERS[what];
    const id = `${ui.id}-${what}-${at}`;
    const fixed = Boolean(ui.view.fixed_times);
    this.text = make("input", { type: "text", id, class: "mx-typed", inputmode: "decimal",
      autocomplete: "off", disabled: fixed, placeholder: "no limit", "data-what": what,
      "aria-label": `${name} of ${this.where} in ${unit}`,
      onchange: () => this.send(NUMBERS[what].sent(this.text.value.trim()), this.text) });
    this.range = make("input", { type: "range", min: low, max: high(this.link.at_first[what]),
      step: "any", disabled: fixed, "data-what": what, "aria-label": `${name} of ${this.where}`,
      oninput: () => this.send(NUMBERS[what].offScale(Number(this.range.value))) });
    this.range.addEventListener("keydown", (event) => {  // step="any" leaves the keys without one
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
      ui.complain("");
    });
    this.root = make("div", { class: "mx-number-cell" },
      this.text, make("label", { for: id }, label), this.range);
  }

  get link() { return this.ui.view.links[this.at]; }
  get where() { return `${this.link.a} – ${this.link.b}`; }

  send(value, typed = null) {
    const { a, b } = this.link;
    this.ui.ask({ do: "link", a, b, what: this.what, value }, typed);
  }

  /** Show what it is now. */
  refresh() {
    const { unit, shown, onScale } = NUMBERS[this.what];
    const value = this.link.now[this.what];
    this.text.value = value === null ? "" : written(shown(value));
    this.text.removeAttribute("aria-invalid");
    if (document.activeElement !== this.range) this.range.value = onScale(value);
    this.range.setAttribute("aria-valuetext", `${this.text.value || "no limit"} ${unit}`);
  }
}

export class TimingPanel {
  constructor(ui, root) {
    this.ui = ui;
    this.links = make("div");
    this.figures = make("div");
    root.append(this.links, this.figures);
  }

  redraw() {
    const { view } = this.ui;
    const first = view.links.map((link) => [link.a, link.b, link.at_first]);
    const shape = JSON.stringify([first, view.fixed_times]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.settings();
    }
    this.numbers.forEach((number) => number.refresh());
    this.texts.forEach((node, at) => { node.textContent = view.links[at].text; });
    this.refreshSeed();
    put(this.drawn, this.losses());
    this.summary();
  }

  refreshSeed() {
    this.seed.value = this.ui.view.seed;
    this.seed.removeAttribute("aria-invalid");
  }

  /** The inputs; they stay while what they show changes. */
  settings() {
    const { ui } = this, { view } = ui;
    const fixed = Boolean(view.fixed_times);
    const id = `${ui.id}-seed`;
    this.texts = view.links.map(() => make("span", { class: "mx-soft mx-small" }));
    const cells = view.links.map((_, at) =>
      Object.keys(NUMBERS).map((what) => new LinkNumber(ui, at, what)));
    this.numbers = cells.flat();
    this.seed = make("input", { type: "text", id, class: "mx-typed", inputmode: "numeric",
      autocomplete: "off", disabled: fixed,
      onchange: () => ui.ask({ do: "seed", value: this.seed.value.trim() }, this.seed) });
    this.seed.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.refreshSeed();
      ui.complain("");
    });
    this.drawn = make("div", { class: "mx-soft" });
    put(this.links,
      make("h4", { class: "mx-h" }, "Links: mean one-way latency, bandwidth, loss"),
      fixed ? make("p", { class: "mx-soft" }, view.fixed_times) : null,
      view.links.map((link, at) => make("div", { class: "mx-linkset", role: "group",
        "aria-label": `${link.a} – ${link.b}` },
      make("div", {}, make("b", {}, `${link.a} – ${link.b} `), this.texts[at]),
      make("div", { class: "mx-number-cells" }, cells[at].map((cell) => cell.root)))),
      make("div", { class: "mx-seed" },
        make("label", { for: id }, make("b", {}, "Seed "), "of the draws"), this.seed,
        make("button", { type: "button", class: "mx-button", disabled: fixed,
          onclick: () => ui.ask({ do: "seed", value: ui.view.seed + 1 }) }, "Another seed"),
        make("button", { type: "button", class: "mx-button mx-restore", disabled: fixed,
          onclick: () => ui.ask({ do: "restore" }) }, "As it was")),
      this.drawn);
  }

  /** What the seed has drawn, as far as it is to be told in a sentence. */
  losses() {
    const { view } = this.ui;
    const hit = view.messages.filter((m) => m.recovery_ms >= LOST_MS);
    return ["Each latency and each loss is drawn from the seed: the same seed, the same picture. ",
      hit.length ? "With this one, these waited for lost packets to be sent again: "
        : "With this one, no message waits for a lost packet.",
      hit.map((m, at) => [at ? ", " : "", make("button", { type: "button", class: "mx-link",
        onclick: () => this.ui.open(m.key) }, `${m.kind} ${m.sender} → ${m.receiver}`),
      ` (${ms(m.recovery_ms)} ms)`]), hit.length ? "." : ""];
  }

  summary() {
    const { view } = this.ui;
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
}
