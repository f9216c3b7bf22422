/* Search over messages with their fields and checks, and over the rounds that parties run. */

import { element } from "../../static/elements.js";
import { scrollToNode } from "./basics.js";

function allFields(fields) {
  return fields.flatMap((field) => [field, ...allFields(field.fields)]);
}

export class Search {
  constructor(ui) {
    this.ui = ui;
    this.words = [];
    this.hits = [];  // by time: { message: key } or { step: number }
    this.at = -1;
    this.found = null;  // { messages, rounds } to be marked; null: no search
    this.box = element("input", { type: "search", class: "mx-query", placeholder: "Search (/)",
      autocomplete: "off", spellcheck: "false",
      "aria-label": "Search messages, fields, rounds and checks (/)",
      oninput: () => this.runSearch() });
    const iconButton = (label, sign, by) => element("button", { type: "button", class: "mx-icon",
      "aria-label": label, title: label, onclick: () => this.moveBy(by) }, sign);
    this.previous = iconButton("Previous hit (N)", "↑", -1);
    this.next = iconButton("Next hit (n or Enter)", "↓", 1);
    this.countLabel = element("output", { class: "mx-hits", "aria-live": "polite" });
    this.root = element("div", { class: "mx-search", role: "search" },
      this.box, this.previous, this.next, this.countLabel);
    this.box.addEventListener("keydown", (event) => this.onKey(event));
  }

  get active() { return this.words.length > 0; }

  onKey(event) {
    event.stopPropagation();
    if (event.key === "Enter") this.moveBy(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") this.clear();
    else return;
    event.preventDefault();
  }

  clear() {
    this.box.value = "";
    this.runSearch();
    this.ui.root.focus({ preventScroll: true });
  }

  /** Search for the typed words. */
  runSearch() {
    const typed = this.box.value.toLowerCase();
    if (typed !== this.typed) this.at = -1;
    this.typed = typed;
    this.words = typed.split(/\s+/).filter(Boolean);
    this.hits = this.active ? this.searchables().filter((place) => this.matchesAll(place.text)) : [];
    this.hits.sort((a, b) => a.time - b.time);
    this.at = Math.min(this.at, this.hits.length - 1);
    this.found = this.active ? {
      messages: new Set(this.hits.map((hit) => hit.message)),
      rounds: new Set(this.hits.flatMap((hit) => hit.rounds ?? [])
        .filter((round) => this.matchesAll(round.text)).map((round) => round.number)),
    } : null;
    this.showCount();
    this.ui.diagram.markStep();
    this.ui.message.markHits();
  }

  /** Return whether a text has every word. */
  matchesAll(text) {
    const low = text.toLowerCase();
    return this.words.every((word) => low.includes(word));
  }

  /** Return whether a text has one of the words. */
  matchesAny(text) {
    const low = text.toLowerCase();
    return this.words.some((word) => low.includes(word));
  }

  /** Return all texts that are searched. */
  searchables() {
    const { view, details } = this.ui;
    const names = new Map(view.rounds.map((round) => [round.number, round.name]));
    const messages = view.messages.map((m) => {
      const detail = details[m.key] ?? { doc: "", fields: [] };
      return { message: m.key, time: m.sent_ms, name: `${m.kind} ${m.sender} → ${m.receiver}`,
        text: [m.kind, `${m.sender} → ${m.receiver}`, m.key,
          `party ${m.sender} to party ${m.receiver}`,
          `round ${m.round} ${names.get(m.round) ?? ""}`,
          m.fate, m.altered ? "altered" : "", detail.doc,
          ...allFields(detail.fields).map((f) => [f.path, f.name, f.type, f.doc, f.value].join(" ")),
          ...m.checks.map((c) => `${c.text} ${c.reason} ${c.detail}`)].join("\n") };
    });
    const steps = view.steps.map((step, at) => {
      const rounds = step.rounds.map((round) => ({ number: round.number,
        text: [`round ${round.number} ${round.name}`, ...round.steps].join("\n") }));
      return { step: at + 1, time: step.at_ms, name: `party ${step.party} in step ${at + 1}`,
        rounds, text: rounds.map((round) => round.text).join("\n") };
    });
    return [...messages, ...steps];
  }

  showCount() {
    const { hits, at } = this;
    this.previous.disabled = this.next.disabled = !hits.length;
    this.countLabel.textContent = !this.active ? "" : !hits.length ? "nothing found"
      : at < 0 ? `${hits.length} found` : `${at + 1} of ${hits.length}: ${hits[at].name}`;
    this.countLabel.title = this.countLabel.textContent;
  }

  /** Go to the next hit (1) or the previous one (-1). */
  moveBy(by) {
    const { hits, ui } = this;
    if (!hits.length) return;
    this.at = this.at < 0 && by < 0 ? hits.length - 1 : (this.at + by + hits.length) % hits.length;
    this.showCount();
    const hit = hits[this.at];
    if (hit.step) {
      ui.goTo(hit.step);
      return;
    }
    ui.select(hit.message);
    ui.diagram.reveal(hit.message);
    const part = ui.message.root.querySelector(".found");
    if (part) scrollToNode(part);
  }
}
