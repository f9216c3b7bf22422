/* Round explorer in the browser: draws a view, and sends commands back. No dependencies.
 *
 * The view is defined in mpcsim/lab/explorer/model/views.py; mpcsim/lab/browser_files.py
 * concatenates these files.
 */

import { element, isDark, replaceContent } from "../../static/elements.js";
import { downloadBlob, downloadPicture } from "../../static/pictures.js";
import { formatMs, markField, scrollToNode } from "./basics.js";
import { Diagram } from "./diagram.js";
import { KnowledgePanel } from "./knowledge.js";
import { MessagePanel } from "./message.js";
import { Search } from "./search.js";
import { TimingPanel } from "./timing.js";

const PATIENCE_MS = 6000;  // time-out of a command

class Explorer {
  constructor(model, el) {
    this.model = model;
    this.id = `mx-${Math.random().toString(36).slice(2, 10)}`;  // a page may have several
    this.tab = "message";
    this.asked = 0;
    this.busy = false;
    this.altering = false;
    this.typed = null;  // input of the last command
    this.queued = new Map();
    this.buildFrame(el);
    this.addListeners();
    this.redrawAll();
  }

  get view() { return this.model.get("view"); }
  get details() { return this.model.get("details"); }
  get step() { return Math.min(this.model.get("step"), this.view.steps.length); }
  get selected() {
    return this.view.messages.find((m) => m.key === this.model.get("selected")) ?? null;
  }

  // -------------------------------------------------------------------------- frame

  buildFrame(el) {
    const iconButton = (label, sign, act) =>
      element("button", { type: "button", class: "mx-icon", "aria-label": label, title: label,
        onclick: act }, sign);
    this.title = element("div", { class: "mx-title" });
    this.back = iconButton("Step back (left arrow)", "◀", () => this.goTo(this.step - 1));
    this.forward = iconButton("Step forward (right arrow)", "▶", () => this.goTo(this.step + 1));
    this.slider = element("input", { type: "range", min: 0, "aria-label": "Step",
      oninput: (event) => this.goTo(Number(event.target.value)) });
    this.counter = element("output", { class: "mx-counter" });
    this.banner = element("div", { class: "mx-banner" });
    this.problem = element("div", { class: "mx-problem", role: "alert" });
    this.diagram = new Diagram(this);
    this.search = new Search(this);
    this.save = element("div", { class: "mx-buttons" });
    this.now = element("section", { class: "mx-now", "aria-live": "polite",
      "aria-label": "This step" });
    this.tabs = element("div", { class: "mx-tabs", role: "tablist", "aria-label": "Details" },
      [["message", "Message"], ["knowledge", "Knowledge"], ["timing", "Timing"]].map(
        ([name, text]) => element("button", { type: "button", role: "tab", class: "mx-tab",
          id: `${this.id}-tab-${name}`, "aria-controls": `${this.id}-panel-${name}`,
          "data-tab": name, onclick: () => this.showTab(name) }, text)));
    this.panels = Object.fromEntries(["message", "knowledge", "timing"].map((name) => [
      name, element("div", { role: "tabpanel", class: "mx-panel", tabindex: 0,
        id: `${this.id}-panel-${name}`, "aria-labelledby": `${this.id}-tab-${name}` })]));
    this.message = new MessagePanel(this, this.panels.message);
    this.knowledge = new KnowledgePanel(this, this.panels.knowledge);
    this.timing = new TimingPanel(this, this.panels.timing);
    this.root = element("div", { class: "mx", role: "group", tabindex: 0,
      // JupyterLab's own shortcuts (arrows, D D, ...) must not fire here.
      "data-lm-suppress-shortcuts": "true" },
      element("div", { class: "mx-head" },
        this.title,
        element("div", { class: "mx-bars" },
          element("div", { class: "mx-controls", role: "toolbar", "aria-label": "Steps" },
            iconButton("First step (Home)", "|◀", () => this.goTo(0)), this.back, this.slider,
            this.forward, iconButton("Last step (End)", "▶|", () => this.goTo(Infinity)), this.counter),
          this.search.root),
        this.save,  // in the title's row; by Tab, the steps come first
        this.banner, this.problem),
      element("div", { class: "mx-body" }, this.diagram.root,
        element("div", { class: "mx-side" }, this.now, this.tabs, Object.values(this.panels))),
      element("div", { class: "mx-foot" },
        "Keys: ← → step · Home End first, last · ↑ ↓ previous, next message · Enter its fields · " +
        "/ search · n N next, previous hit · + − 0 zoom (or Ctrl and wheel) · PgUp PgDn move · " +
        "Esc none"));
    el.append(this.root);
  }

  addListeners() {
    this.handlers = {
      "change:view": () => this.redrawAll(),
      "change:details": () => this.redrawContents(),
      "change:step": () => this.onStep(),
      "change:selected": () => {
        this.message.editing = null;
        this.diagram.markStep();
        this.message.redraw();
        this.panels.message.scrollTop = 0;
      },
      "change:problem": () => this.showProblem(),
      "change:answered": () => this.onAnswered(),
      "msg:custom": (sent) => { if (sent.page) downloadPage(sent.file, sent.page); },
    };
    for (const [name, act] of Object.entries(this.handlers)) this.model.on(name, act);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.tabs.addEventListener("keydown", (event) => this.onTabKey(event));
    this.themes = new MutationObserver(() => this.applyTheme());
    this.themes.observe(document.body, { attributes: true });
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.applyTheme();
    this.scheme.addEventListener("change", this.onScheme);
    this.applyTheme();
  }

  close() {
    clearTimeout(this.patience);
    for (const [name, act] of Object.entries(this.handlers)) this.model.off(name, act);
    this.diagram.close();
    this.themes.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
  }

  applyTheme() { this.root.dataset.theme = isDark() ? "dark" : "light"; }

  // -------------------------------------------------------------------------- commands

  /** Send a command to Python. While it is busy, the latest position of each slider waits.
   *
   * typed: input that is marked if the command is refused.
   */
  sendCommand(command, typed = null) {
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
      this.showError("No answer yet: the kernel is busy or gone. Stepping works without it; " +
        "otherwise run the cell again.");
    }, PATIENCE_MS);
  }

  showError(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  onAnswered() {
    if (this.model.get("answered") < this.asked) return;
    this.showProblem();
    this.busy = false;
    this.root.removeAttribute("aria-busy");
    const refused = Boolean(this.model.get("problem"));
    if (this.altering && !refused && this.aborts.length) this.goToAbort(this.aborts[0]);
    this.altering = false;
    if (refused) markField(this.typed, this.model.get("problem"));
    else this.timing.redraw();  // normalise the text of the number
    for (const [key, next] of this.queued) {
      this.queued.delete(key);
      this.sendCommand(...next);
      return;
    }
  }

  /** Alter a field; then go to the check that failed. */
  alter(edit) {
    this.sendCommand({ do: "edit", ...edit });
    this.altering = true;
    this.root.focus({ preventScroll: true });
  }

  showProblem() { this.showError(this.model.get("problem")); }

  goTo(step) {
    const wanted = Math.max(0, Math.min(step, this.view.steps.length));
    if (wanted === this.model.get("step")) return;
    this.model.set("step", wanted);
    const arriving = wanted ? this.view.steps[wanted - 1].message : null;
    if (arriving !== null) this.model.set("selected", this.view.messages[arriving].key);
    this.model.save_changes();
  }

  select(key) {
    this.model.set("selected", key);
    this.model.save_changes();
    if (key) this.showTab("message");
  }

  /** Select a message, and scroll to its panel. */
  openMessage(key) {
    this.select(key);
    scrollToNode(this.panels.message);
  }

  /** Go to the step, the message and the check of an abort. */
  goToAbort(found) {
    const end = this.abortStep(found);
    if (end >= 0) this.goTo(end + 1);
    this.panels.message.scrollTop = 0;
    if (found.message !== null) this.select(this.view.messages[found.message].key);
    this.showTab("message");
    scrollToNode(this.panels.message);
    const failed = this.message.checks.querySelector(".failed");
    if (failed) scrollToNode(failed);
  }

  /** Aborts, those of honest parties first. */
  get aborts() {
    const cheats = (abort) => this.view.parties.some((p) => p.id === abort.party && p.cheats);
    return [...this.view.aborts].sort((a, b) => cheats(a) - cheats(b));
  }

  /** Return the index of the step of an abort; -1: it is in none. */
  abortStep(abort) {
    return this.view.steps.findIndex((s) => s.party === abort.party && s.ended === "aborted");
  }

  showTab(name) {
    this.tab = name;
    for (const tab of this.tabs.children) {
      const here = tab.dataset.tab === name;
      tab.setAttribute("aria-selected", here);
      tab.tabIndex = here ? 0 : -1;
    }
    for (const [each, panel] of Object.entries(this.panels)) panel.hidden = each !== name;
  }

  onKey(event) {
    const at = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (at.matches("select, input[type=text]")) {
      if (event.key === "Escape") this.root.focus();
      return;
    }
    const range = at.matches("input[type=range]");
    const acts = {
      ArrowRight: () => this.goTo(this.step + 1),
      ArrowLeft: () => this.goTo(this.step - 1),
      ArrowDown: () => this.selectNeighbour(1),
      ArrowUp: () => this.selectNeighbour(-1),
      Home: () => this.goTo(0),
      End: () => this.goTo(Infinity),
      PageDown: () => this.diagram.pan(1),
      PageUp: () => this.diagram.pan(-1),
      "+": () => this.diagram.zoomBy(1),
      "=": () => this.diagram.zoomBy(1),  // on keyboards where + needs shift
      "-": () => this.diagram.zoomBy(-1),
      "0": () => this.diagram.zoom(1),
      "/": () => { this.search.box.focus(); this.search.box.select(); },
      n: () => this.search.moveBy(1),
      N: () => this.search.moveBy(-1),
      Escape: () => {
        if (this.search.active) this.search.clear();
        else this.select("");
        this.root.focus();
      },
    };
    if (range && event.key !== "Escape") return;
    if ((event.key === "Enter" || event.key === " ") && at.closest(".mx-message")) {
      this.openMessage(at.closest(".mx-message").dataset.key);
      if (event.key === "Enter") this.panels.message.focus();
    } else if (event.key === "Enter" && at === this.root && this.selected) {
      this.showTab("message");
      this.panels.message.focus();
    } else if (acts[event.key]) {
      if (acts[event.key]() === false) return;  // not handled: the page may scroll
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  onTabKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const all = [...this.tabs.children];
    const at = all.findIndex((tab) => tab.dataset.tab === this.tab);
    const next = all[(at + by + all.length) % all.length];
    this.showTab(next.dataset.tab);
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  selectNeighbour(by) {
    const all = this.view.messages;
    if (!all.length) return;
    const at = all.findIndex((m) => m.key === this.model.get("selected"));
    const next = all[(at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by + all.length) % all.length];
    this.select(next.key);
    this.diagram.focusOn(next.key);
  }

  // -------------------------------------------------------------------------- drawing it all

  redrawAll() {
    const { view } = this;
    this.root.setAttribute("aria-label", `Round explorer: ${view.name}`);
    this.drawHead();
    this.showProblem();
    this.diagram.redraw();
    this.timing.redraw();
    this.onStep();
    this.redrawContents();
    this.showTab(this.tab);
  }

  /** Redraw what depends on the contents of messages: panel and search. */
  redrawContents() {
    this.message.redraw();
    this.search.runSearch();
  }

  drawHead() {
    const { view } = this;
    const change = view.finished_ms - view.at_first_ms;
    const moved = Math.abs(change) >= 0.005
      ? element("span", { class: "mx-soft" }, ` (${change > 0 ? "+" : "−"}${formatMs(Math.abs(change))} ms)`)
      : null;
    replaceContent(this.title,
      element("strong", {}, view.name),
      element("span", { class: `mx-badge ${view.good ? "good" : "bad"}` },
        `${view.good ? "✓" : "✗"} ${view.verdict}`),
      element("span", {}, `${formatMs(view.finished_ms)} ms`, moved),
      element("span", { class: "mx-soft mx-network" }, view.network),
      view.revealed
        ? element("span", { class: "mx-badge secret" }, "⚠ SECRET values are shown") : null,
      this.model.get("saved") ? element("span", { class: "mx-badge mx-saved", title: view.frozen },
        "saved session: editing and links are off") : null);
    replaceContent(this.save, this.saveButtons());
    const [first, ...others] = this.aborts.map((abort) => this.abortBox(abort));
    replaceContent(this.banner, this.alterationBox(), first, this.stalledParties(),
      others.length ? element("details", {}, element("summary", {}, `${others.length} more ${others.length > 1 ? "parties" : "party"} ` +
        "found a reason to break off"), others) : null);
  }

  /** Return the buttons that save the session, with secrets as an option if they are shown. */
  saveButtons() {
    const pictures = ["svg", "png"].map((ending) => element("button", { type: "button",
      class: "mx-button", title: `Save the diagram as ${ending.toUpperCase()}`,
      "data-save": ending, onclick: () => this.savePicture(ending) }, ending.toUpperCase()));
    if (this.model.get("saved")) return pictures;
    const button = (text, reveal) => element("button", { type: "button", class: "mx-button mx-save",
      title: "One file that opens in a browser, without Python",
      onclick: () => this.sendCommand({ do: "save", reveal }) }, text);
    return [pictures, this.view.revealed
      ? [button("Save as HTML, without secrets", false),
        button("Save as HTML, with SECRETS", true)]
      : button("Save as HTML", false)];
  }

  /** Save the diagram as a file: all of it, at the present zoom and step. */
  savePicture(ending) {
    const name = this.view.name.replaceAll(/\W+/g, "-");
    const background = getComputedStyle(this.root).backgroundColor;
    return downloadPicture(name, ending, [...this.diagram.frame.querySelectorAll(":scope > svg")],
      background);
  }

  /** Return what the parties of a stalled run wait for. */
  stalledParties() {
    return this.view.verdict !== "stalled" ? [] : this.view.parties
      .filter((party) => party.status === "waiting")
      .map((party) => element("div", { class: "mx-box mx-abort" },
        element("div", {}, element("strong", {}, `… Party ${party.id}: `), party.text)));
  }

  alterationBox() {
    const { view } = this;
    if (!view.edits.length) return [];
    return [element("div", { class: "mx-box mx-altered" },
      element("div", {}, element("strong", {}, "✎ Altered: "),
        view.edits.map((text) => element("div", {}, text))),
      element("div", { class: "mx-buttons" },
        [["undo", "Undo the last"], ["reset", "Back to the honest run"]].map(([act, text]) =>
          element("button", { type: "button", class: "mx-button", disabled: Boolean(view.frozen),
            title: view.frozen || null, onclick: () => this.sendCommand({ do: act }) }, text))))];
  }

  abortBox(found) {
    const { view } = this;
    const list = (who) => `${who.length > 1 ? "parties" : "party"} ${who.join(", ")}`;
    const blamed = found.culprits.length ? `${list(found.culprits)} certainly deviated`
      : found.suspects.length > 1 ? `at least one of ${list(found.suspects)}`
        : found.suspects.length ? `${list(found.suspects)} is suspected` : "nobody can be named";
    const cheats = view.parties.find((p) => p.id === found.party)?.cheats
      ? " Only its messages are altered: its own checks go on." : "";
    return element("div", { class: "mx-box mx-abort" },
      element("div", {},
        element("strong", {}, `✗ Party ${found.party} caught it ${found.where}: `),
        `${found.text}${found.detail ? ` (${found.detail})` : ""}`,
        element("div", {}, element("b", {}, "Who: "), blamed, " · ", element("b", {}, "check: "),
          element("code", {}, found.reason), " · ", element("b", {}, "what to do: "), found.what_to_do),
        element("div", { class: "mx-soft" }, `Blame: ${found.blame}: ${found.strength}.${cheats}`)),
      element("div", { class: "mx-buttons" }, this.abortStep(found) < 0 ? null
        : element("button", { type: "button", class: "mx-button",
          onclick: () => this.goToAbort(found) }, "Go there")));
  }

  onStep() {
    const { view, step } = this;
    this.slider.max = view.steps.length;
    this.slider.value = step;
    const shown = step ? view.steps[step - 1] : null;
    this.slider.setAttribute("aria-valuetext",
      shown ? `${step}: ${shown.title}, ${formatMs(shown.at_ms)} ms` : "before the first step");
    this.back.disabled = step === 0;
    this.forward.disabled = step === view.steps.length;
    this.counter.textContent =
      `step ${step} of ${view.steps.length}${shown ? ` · ${formatMs(shown.at_ms)} ms` : ""}`;
    this.drawStep(shown);
    this.diagram.markStep();
    this.diagram.follow();
    this.message.outcomes();
    this.knowledge.redraw();
  }

  drawStep(shown) {
    const { view } = this;
    if (!shown) {
      replaceContent(this.now, element("div", { class: "mx-card-title" }, "Before the first step"),
        element("div", { class: "mx-soft" },
          "Nothing has been sent. Step forward with ▶ or the right arrow key."));
      return;
    }
    const sent = shown.sent.map((n) => view.messages[n]);
    replaceContent(this.now,
      element("div", { class: "mx-card-title" }, this.badge(shown.party), ` ${shown.title}`),
      shown.rounds.map((round) => element("div", {},
        element("b", {}, `runs round ${round.number} (${round.name})`),
        round.steps.length
          ? element("ol", { class: "mx-taken" }, round.steps.map((text) => element("li", {}, text)))
          : null)),
      sent.length ? element("div", {}, "sends ", sent.map((m, at) => [at ? ", " : "",
        element("button", { type: "button", class: "mx-link", onclick: () => this.openMessage(m.key) },
          `${m.kind} → ${m.receiver}`)])) : null,
      element("div", { class: shown.ended === "aborted" ? "mx-bad" : "mx-soft" },
        `${shown.ended === "done" ? "✓ " : shown.ended === "aborted" ? "✗ " : "… "}` +
        `${shown.standing}`));
  }

  badge(party) {
    return element("span", { class: "mx-party", style: this.colours(party) }, String(party));
  }

  /** Return a party's colours as a style; the theme selects one. */
  colours(party) {
    const colour = this.view.parties.find((p) => p.id === party)?.colour;
    return colour ? `--on-light:${colour.on_light};--on-dark:${colour.on_dark}` : null;
  }
}

/** Offer a page as a download. */
function downloadPage(name, page) {
  downloadBlob(name, new Blob([page], { type: "text/html" }));
}

function render({ model, el }) {
  const explorer = new Explorer(model, el);
  return () => explorer.close();
}

export default { render };
