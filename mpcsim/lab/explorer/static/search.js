/* Search: over messages with their fields and checks, and over the rounds that parties run. */

import { make, reveal } from "./basics.js";

function flat(fields) {
  return fields.flatMap((field) => [field, ...flat(field.fields)]);
}

export class Search {
  constructor(ui) {
    this.ui = ui;
    this.words = [];
    this.hits = [];  // in the order of time: { message: key } or { step: number }
    this.at = -1;
    this.found = null;  // { messages, rounds } to be marked; null: nothing is searched for
    this.box = make("input", { type: "search", class: "mx-query", placeholder: "Search (/)",
      autocomplete: "off", spellcheck: "false",
      "aria-label": "Search messages, fields, rounds and checks (/)",
      oninput: () => this.look() });
    const press = (label, sign, by) => make("button", { type: "button", class: "mx-icon",
      "aria-label": label, title: label, onclick: () => this.go(by) }, sign);
    this.previous = press("Previous hit (N)", "↑", -1);
    this.next = press("Next hit (n or Enter)", "↓", 1);
    this.said = make("output", { class: "mx-hits", "aria-live": "polite" });
    this.root = make("div", { class: "mx-search", role: "search" },
      this.box, this.previous, this.next, this.said);
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  get active() { return this.words.length > 0; }

  key(event) {
    event.stopPropagation();
    if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") this.clear();
    else return;
    event.preventDefault();
  }

  clear() {
    this.box.value = "";
    this.look();
    this.ui.root.focus({ preventScroll: true });
  }

  /** Look for what is typed, or again in a session that has changed. */
  look() {
    const typed = this.box.value.toLowerCase();
    if (typed !== this.typed) this.at = -1;
    this.typed = typed;
    this.words = typed.split(/\s+/).filter(Boolean);
    this.hits = this.active ? this.places().filter((place) => this.all(place.text)) : [];
    this.hits.sort((a, b) => a.time - b.time);
    this.at = Math.min(this.at, this.hits.length - 1);
    this.found = this.active ? {
      messages: new Set(this.hits.map((hit) => hit.message)),
      rounds: new Set(this.hits.flatMap((hit) => hit.rounds ?? [])
        .filter((round) => this.all(round.text)).map((round) => round.number)),
    } : null;
    this.tell();
    this.ui.diagram.marks();
    this.ui.message.marks();
  }

  /** Whether every word is in a text. */
  all(text) {
    const low = text.toLowerCase();
    return this.words.every((word) => low.includes(word));
  }

  /** Whether a part of a hit is what it was found by. */
  meets(text) {
    const low = text.toLowerCase();
    return this.words.some((word) => low.includes(word));
  }

  /** Everything that there is to be found. */
  places() {
    const { view, details } = this.ui;
    const names = new Map(view.rounds.map((round) => [round.number, round.name]));
    const messages = view.messages.map((m) => {
      const detail = details[m.key] ?? { doc: "", fields: [] };
      return { message: m.key, time: m.sent_ms, name: `${m.kind} ${m.sender} → ${m.receiver}`,
        text: [m.kind, `${m.sender} → ${m.receiver}`, m.key,
          `party ${m.sender} to party ${m.receiver}`,
          `round ${m.round} ${names.get(m.round) ?? ""}`,
          m.fate, m.altered ? "altered" : "", detail.doc,
          ...flat(detail.fields).map((f) => [f.path, f.name, f.type, f.doc, f.value].join(" ")),
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

  tell() {
    const { hits, at } = this;
    this.previous.disabled = this.next.disabled = !hits.length;
    this.said.textContent = !this.active ? "" : !hits.length ? "nothing found"
      : at < 0 ? `${hits.length} found` : `${at + 1} of ${hits.length}: ${hits[at].name}`;
    this.said.title = this.said.textContent;
  }

  /** Show the next hit, or the one before. */
  go(by) {
    const { hits, ui } = this;
    if (!hits.length) return;
    this.at = this.at < 0 && by < 0 ? hits.length - 1 : (this.at + by + hits.length) % hits.length;
    this.tell();
    const hit = hits[this.at];
    if (hit.step) {
      ui.go(hit.step);
      return;
    }
    ui.choose(hit.message);
    ui.diagram.reveal(hit.message);
    const part = ui.message.root.querySelector(".found");
    if (part) reveal(part);
  }
}
