/* Panel of a message: its fields, the checks of its receiver, and the form that alters it. */

import { element, replaceContent } from "../../static/elements.js";
import { LOST_MS, formatBytes, formatMs, lockIcon } from "./basics.js";

const MARK = { passed: "✓", failed: "✗", open: "○", ignored: "–" };
const SAID = {
  passed: "passed", failed: "failed", open: "not reached", later: "still to come",
  ignored: "ignored",
};

export class MessagePanel {
  constructor(ui, root) {
    this.ui = ui;
    this.root = root;
    this.editing = null;  // path of the field with an open form
    this.facts = element("div");
    this.checks = element("div");
    this.fields = element("div");
    root.append(this.facts, this.checks, this.fields);
  }

  /** Redraw the panel: another message, or other contents. */
  redraw() {
    const { selected, view } = this.ui;
    if (!selected) {
      replaceContent(this.facts, element("p", { class: "mx-soft" },
        "Select a message: click it, or use the up and down arrow keys."));
      replaceContent(this.checks);
      replaceContent(this.fields);
      return;
    }
    const detail = this.ui.details[selected.key] ?? { fields: [], operations: [], doc: "" };
    const facts = [
      selected.round ? `round ${selected.round}` : "notice of an abort",
      `${formatBytes(selected.size)} (${selected.size.toLocaleString("en")} bytes)`,
      detail.sealed === null ? null : detail.sealed ? "sealed end to end" : "not sealed",
      detail.broadcast === null ? null : detail.broadcast ? "the same to everyone" : "for one receiver",
      selected.received_ms === null ? `sent at ${formatMs(selected.sent_ms)} ms, ${selected.fate}`
        : `${formatMs(selected.sent_ms)} → ${formatMs(selected.received_ms)} ms ` +
          `(${formatMs(selected.received_ms - selected.sent_ms)} ms on the way)`,
      selected.recovery_ms >= LOST_MS
        ? `↻ ${formatMs(selected.recovery_ms)} ms of it until what was lost had been sent again` : null,
      selected.critical ? "on the critical path" : null,
    ].filter(Boolean);
    replaceContent(this.facts,
      element("h4", { class: "mx-h" }, this.ui.badge(selected.sender), " → ",
        this.ui.badge(selected.receiver), ` ${selected.kind}`,
        selected.altered ? element("span", { class: "mx-badge bad" }, "✎ altered") : null),
      element("div", {}, detail.doc),
      element("div", { class: "mx-soft" }, facts.join(" · ")));
    replaceContent(this.fields,
      element("h4", { class: "mx-h" }, "What is in it"),
      detail.problem ? element("div", { class: "mx-bad" }, `✗ ${detail.problem}`) : null,
      detail.raw ? element("code", { class: "mx-value" }, detail.raw) : null,
      this.table(selected, detail),
      view.frozen ? element("p", { class: "mx-soft" }, view.frozen) : null);
    this.outcomes();
  }

  table(message, detail) {
    const rows = [];
    const add = (field, depth) => {
      rows.push(this.row(message, detail, field, depth));
      if (this.editing === field.path) rows.push(this.form(message, detail, field));
      field.fields.forEach((inner) => add(inner, depth + 1));
      if (field.omitted) {
        rows.push(element("tr", {}, element("td", { colspan: 4, class: "mx-soft",
          style: `padding-left:${(depth + 1) * 14 + 6}px` }, `… and ${field.omitted} more`)));
      }
    };
    detail.fields.forEach((field) => add(field, 0));
    if (detail.operations.length) {
      const whole = { path: "", name: "whole message", type: "", size: detail.payload_bytes,
        doc: "withhold it, cut it, replace it", value: "", operations: detail.operations, fields: [] };
      rows.push(this.row(message, detail, whole, 0));
      if (this.editing === "") rows.push(this.form(message, detail, whole));
    }
    if (!rows.length) return null;
    return element("table", { class: "mx-table" },
      element("thead", {}, element("tr", {}, ["field", "bytes", "value", ""].map(
        (text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, rows));
  }

  row(message, detail, field, depth) {
    const can = field.operations.length > 0;
    const value = field.receiver_only && field.value === null
      ? element("span", { class: "mx-hidden" }, lockIcon(), ` for party ${message.receiver} only`)
      : field.value ? element("code", { class: "mx-value" }, field.value) : null;
    const open = this.editing === field.path;
    const leaf = field.path && !field.fields.length && detail.sealed !== null;
    const whose = !leaf ? "" : field.receiver_only ? " · secret"
      : detail.sealed && detail.broadcast ? " · for all parties" : " · public";
    return element("tr", { class: open ? "editing" : "" },
      element("th", { scope: "row", style: `padding-left:${depth * 14 + 6}px` },
        element("span", {}, field.name), element("div", { class: "mx-soft mx-small" }, field.type + whose)),
      element("td", { class: "mx-number" }, field.size === null || field.size === undefined ? ""
        : field.size.toLocaleString("en")),
      element("td", {}, value,
        field.doc ? element("div", { class: "mx-soft mx-small" }, field.doc) : null),
      element("td", {}, can ? element("button", { type: "button", class: "mx-button mx-edit",
        "aria-expanded": open, "aria-label": `Edit ${field.path || "the whole message"}`,
        "data-path": field.path, disabled: Boolean(this.ui.view.frozen),
        title: this.ui.view.frozen || null, onclick: () => {
          this.editing = open ? null : field.path;
          this.redraw();
          this.fields.querySelector(open ? `[data-path="${CSS.escape(field.path)}"]` : "select")
            ?.focus();
        } }, "Edit") : null));
  }

  form(message, detail, field) {
    const choice = element("select", { "aria-label": "What to do" },
      field.operations.map((name) => element("option", { value: name }, name)));
    const hex = element("input", { type: "text", class: "mx-hex", spellcheck: "false",
      "aria-label": "New bytes in hexadecimal", placeholder: "new bytes in hexadecimal" });
    const many = detail.broadcast && this.ui.view.parties.length > 2;
    const everyone = element("input", { type: "checkbox", checked: true, id: `${this.ui.id}-all` });
    const adapt = () => { hex.hidden = choice.value !== "replace"; };
    choice.addEventListener("change", adapt);
    adapt();
    const submit = (event) => {
      event.preventDefault();
      const argument = hex.value.replace(/[\s…]/g, "").replace(/^0x/i, "");
      if (choice.value === "replace" && (argument.length % 2 || /[^0-9a-f]/i.test(argument))) {
        this.ui.showError("new bytes: not whole bytes in hexadecimal");
        return;
      }
      this.editing = null;
      this.ui.alter({ sender: message.sender, receiver: message.receiver,
        kind: message.kind, path: field.path, operation: choice.value,
        argument: choice.value === "replace" ? argument : "", everyone: many && everyone.checked });
    };
    return element("tr", { class: "editing" }, element("td", { colspan: 4 },
      element("form", { class: "mx-form", onsubmit: submit },
        element("span", {}, `Party ${message.sender} alters ${field.path || "the message"}:`),
        choice, hex,
        many ? element("label", { for: `${this.ui.id}-all` }, everyone, " the same to everyone") : null,
        element("button", { type: "submit", class: "mx-button primary" }, "Run again with this"))));
  }

  /** Draw the checks of the selected message, with outcomes up to the present step. */
  outcomes() {
    const { selected, view, step } = this.ui;
    if (!selected) return;
    const past = view.steps.slice(0, step).filter((s) => s.party === selected.receiver);
    const here = past.some((s) => s.message === selected.number);
    const rows = selected.checks.map((check) => {
      const reached = check.round ? past.some((s) => s.rounds.some((r) => r.number === check.round))
        : here;
      const state = reached || check.outcome === "open" && step === view.steps.length
        ? check.outcome : "later";
      const where = check.round ? `in round ${check.round}` : "on receipt";
      return element("li", { class: `mx-check ${state}`, title: check.reason
        ? `if it fails: ${check.reason}` : "if it fails, the message is ignored" },
        element("span", { class: "mx-mark", "aria-hidden": "true" }, MARK[state] ?? "·"),
        element("span", {}, check.text,
          element("span", { class: "mx-soft mx-small" }, ` ${where}, ${SAID[state]}` +
            `${check.detail && state !== "later" ? ` (${check.detail})` : ""}`),
          state === "failed" ? element("code", {}, ` ${check.reason}`) : null));
    });
    replaceContent(this.checks,
      element("h4", { class: "mx-h" }, "What ", this.ui.badge(selected.receiver), " checks"),
      element("ul", { class: "mx-checks" }, rows));
    this.markHits();
  }

  /** Mark the hits of a search. */
  markHits() {
    for (const row of this.root.querySelectorAll("tbody tr, .mx-check")) {
      row.classList.toggle("found", this.ui.search.matchesAny(`${row.textContent} ${row.title}`));
    }
  }
}
