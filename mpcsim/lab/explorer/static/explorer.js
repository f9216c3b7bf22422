/* The round explorer in the browser: draws a view, sends commands back. No dependencies.
 *
 * The Python side (mpcsim/lab/explorer/model/model.py) says what the view holds, and puts these files one
 * after the other (mpcsim/lab/explorer/browser_files.py).
 */

import { dark, make, ms, put, reveal } from "./basics.js";
import { Diagram } from "./diagram.js";
import { KnowledgePanel } from "./knowledge.js";
import { MessagePanel } from "./message.js";
import { Search } from "./search.js";
import { TimingPanel } from "./timing.js";

const PATIENCE_MS = 6000;  // before a command without an answer is given up

class Explorer {
  constructor(model, el) {
    this.model = model;
    this.id = `mx-${Math.random().toString(36).slice(2, 10)}`;  // several may share a page
    this.tab = "message";
    this.asked = 0;
    this.busy = false;
    this.altering = false;
    this.typed = null;  // the input that the last command came from
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
    this.banner = make("div", { class: "mx-banner" });
    this.problem = make("div", { class: "mx-problem", role: "alert" });
    this.diagram = new Diagram(this);
    this.search = new Search(this);
    this.save = make("div", { class: "mx-buttons" });
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
    this.message = new MessagePanel(this, this.panels.message);
    this.knowledge = new KnowledgePanel(this, this.panels.knowledge);
    this.timing = new TimingPanel(this, this.panels.timing);
    this.root = make("div", { class: "mx", role: "group", tabindex: 0,
      // JupyterLab's own shortcuts (arrows, D D, ...) must not fire while somebody works here.
      "data-lm-suppress-shortcuts": "true" },
      make("div", { class: "mx-head" },
        this.title,
        make("div", { class: "mx-bars" },
          make("div", { class: "mx-controls", role: "toolbar", "aria-label": "Steps" },
            press("First step (Home)", "|◀", () => this.go(0)), this.back, this.slider,
            this.forward, press("Last step (End)", "▶|", () => this.go(Infinity)), this.counter),
          this.search.root, this.save),
        this.banner, this.problem),
      make("div", { class: "mx-body" }, this.diagram.root,
        make("div", { class: "mx-side" }, this.now, this.tabs, Object.values(this.panels))),
      make("div", { class: "mx-foot" },
        "Keys: ← → step · Home End first, last · ↑ ↓ previous, next message · Enter its fields · " +
        "/ search · n N next, previous hit · + − 0 zoom (or Ctrl and wheel) · PgUp PgDn move · " +
        "Esc none"));
    el.append(this.root);
  }

  listen() {
    this.handlers = {
      "change:view": () => this.everything(),
      "change:details": () => this.contents(),
      "change:step": () => this.stepped(),
      "change:selected": () => {
        this.message.editing = null;
        this.diagram.marks();
        this.message.redraw();
        this.panels.message.scrollTop = 0;
      },
      "change:problem": () => this.said(),
      "change:answered": () => this.answered(),
      "msg:custom": (sent) => { if (sent.page) offer(sent.file, sent.page); },
    };
    for (const [name, act] of Object.entries(this.handlers)) this.model.on(name, act);
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.tabs.addEventListener("keydown", (event) => this.tabKey(event));
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
    this.diagram.close();
    this.themes.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
  }

  theme() { this.root.dataset.theme = dark() ? "dark" : "light"; }

  // -------------------------------------------------------------------------- commands

  /** Ask Python for something. While it works, the latest position of each slider waits.
   *
   * typed: the input that says if it was refused.
   */
  ask(command, typed = null) {
    if (this.busy && ["link", "seed"].includes(command.do)) {
      this.queued.set(`${command.a} ${command.b} ${command.what}`, [command, typed]);
      return;
    }
    this.busy = true;
    this.typed = typed;
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
    const refused = Boolean(this.model.get("problem"));
    if (this.altering && !refused && this.aborts.length) this.visit(this.aborts[0]);
    this.altering = false;
    if (refused) this.typed?.setAttribute("aria-invalid", "true");
    else this.timing.redraw();  // a number may be written in another way, and be the same
    for (const [key, next] of this.queued) {
      this.queued.delete(key);
      this.ask(...next);
      return;
    }
  }

  /** Have a field altered; the answer leads to where it was caught. */
  alter(edit) {
    this.ask({ do: "edit", ...edit });
    this.altering = true;
    this.root.focus({ preventScroll: true });
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
    const failed = this.message.checks.querySelector(".failed");
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
    if (at.matches("select, input[type=text]")) {
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
      PageDown: () => this.diagram.pan(1),
      PageUp: () => this.diagram.pan(-1),
      "+": () => this.diagram.zoomBy(1),
      "=": () => this.diagram.zoomBy(1),  // where + needs the shift key
      "-": () => this.diagram.zoomBy(-1),
      "0": () => this.diagram.zoom(1),
      "/": () => { this.search.box.focus(); this.search.box.select(); },
      n: () => this.search.go(1),
      N: () => this.search.go(-1),
      Escape: () => {
        if (this.search.active) this.search.clear();
        else this.choose("");
        this.root.focus();
      },
    };
    if (range && event.key !== "Escape") return;
    if ((event.key === "Enter" || event.key === " ") && at.closest(".mx-message")) {
      this.open(at.closest(".mx-message").dataset.key);
      if (event.key === "Enter") this.panels.message.focus();
    } else if (event.key === "Enter" && at === this.root && this.selected) {
      this.show("message");
      this.panels.message.focus();
    } else if (acts[event.key]) {
      if (acts[event.key]() === false) return;  // nothing to do here: the page may scroll
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
    this.diagram.focusOn(next.key);
  }

  // -------------------------------------------------------------------------- drawing it all

  everything() {
    const { view } = this;
    this.root.setAttribute("aria-label", `Round explorer: ${view.name}`);
    this.head();
    this.said();
    this.diagram.redraw();
    this.timing.redraw();
    this.stepped();
    this.contents();
    this.show(this.tab);
  }

  /** What is in the messages: the panel, and what a search finds. */
  contents() {
    this.message.redraw();
    this.search.look();
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
      make("span", { class: "mx-soft mx-network" }, view.network),
      view.revealed
        ? make("span", { class: "mx-badge secret" }, "⚠ SECRET values are shown") : null,
      this.model.get("saved") ? make("span", { class: "mx-badge mx-saved", title: view.frozen },
        "saved session: editing and links are off") : null);
    put(this.save, this.saving());
    const [first, ...others] = this.aborts.map((abort) => this.abort(abort));
    put(this.banner, this.alterations(), first, this.stalls(), others.length ? make("details", {},
      make("summary", {}, `${others.length} more ${others.length > 1 ? "parties" : "party"} ` +
        "found a reason to break off"), others) : null);
  }

  /** What saves the session, with secrets if they are here and asked for. */
  saving() {
    if (this.model.get("saved")) return null;
    const button = (text, reveal) => make("button", { type: "button", class: "mx-button mx-save",
      title: "One file that opens in a browser, without Python",
      onclick: () => this.ask({ do: "save", reveal }) }, text);
    return this.view.revealed
      ? [button("Save as HTML, without secrets", false),
        button("Save as HTML, with SECRETS", true)]
      : button("Save as HTML", false);
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
        [["undo", "Undo the last"], ["reset", "Back to the honest run"]].map(([act, text]) =>
          make("button", { type: "button", class: "mx-button", disabled: Boolean(view.frozen),
            title: view.frozen || null, onclick: () => this.ask({ do: act }) }, text))))];
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
    this.diagram.marks();
    this.diagram.follow();
    this.message.outcomes();
    this.knowledge.redraw();
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
}

/** Let the browser keep a page as a file. */
function offer(name, page) {
  const address = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function render({ model, el }) {
  const explorer = new Explorer(model, el);
  return () => explorer.close();
}

export default { render };
