/* Knowledge of each party after the present step, and what it must never learn. */

import { element, replaceContent } from "../../static/elements.js";
import { lockIcon } from "./basics.js";

export class KnowledgePanel {
  constructor(ui, root) {
    this.ui = ui;
    this.root = root;
  }

  redraw() {
    const { view, step } = this.ui;
    const columns = view.parties.map((party) => {
      const groups = { "own secret": [], received: [], public: [] };
      view.steps.slice(0, step).forEach((s, at) => {
        if (s.party !== party.id) return;
        for (const item of s.gained) groups[item.kind]?.push({ ...item, fresh: at === step - 1 });
      });
      const names = { "own secret": "Its own secrets", received: "Told by others",
        public: "Known to all parties" };
      const empty = Object.values(groups).every((items) => !items.length);
      return element("section", { class: "mx-knows" },
        element("h4", { class: "mx-h" }, this.ui.badge(party.id), ` ${party.role || party.site} knows`),
        empty ? element("p", { class: "mx-soft" }, "nothing yet") : null,
        Object.entries(groups).filter(([, items]) => items.length).map(([kind, items]) => [
          element("h5", { class: "mx-h5" }, names[kind]),
          element("ul", { class: "mx-items" }, items.map((item) => this.item(item)))]),
        element("h5", { class: "mx-h5" }, "Must never learn"),
        element("ul", { class: "mx-items" }, (view.never[party.id] ?? []).map((n) => this.undisclosed(n))));
    });
    columns.push(element("section", { class: "mx-knows" },
      element("h4", { class: "mx-h" }, "⇄ Whoever carries the messages knows"),
      element("ul", { class: "mx-items" }, view.network_sees.map((item) => this.item(item))),
      element("h5", { class: "mx-h5" }, "Must never learn"),
      element("ul", { class: "mx-items" }, (view.never.network ?? []).map((n) => this.undisclosed(n)))));
    replaceContent(this.root, element("div", { class: "mx-columns" }, columns));
  }

  item(item) {
    return element("li", { class: item.fresh ? "fresh" : "" },
      element("b", {}, item.name), item.fresh ? element("span", { class: "mx-new" }, "new") : null,
      element("span", { class: "mx-soft" }, ` ${item.meaning}`),
      item.hidden ? element("div", { class: "mx-hidden mx-small" }, lockIcon(), " value not shown") : null,
      item.value ? element("code", { class: "mx-value" }, item.value) : null);
  }

  undisclosed(item) {
    return element("li", { class: item.found ? "mx-bad" : "" },
      element("b", {}, item.name), element("span", { class: "mx-soft" }, ` ${item.meaning}`),
      item.found === null ? null : element("div", { class: "mx-small" }, item.found
        ? "✗ found in a message it received"
        : "✓ searched for in all it received: not there"));
  }
}
