/* Who knows what after the present step, and what nobody may ever have been told. */

import { lock, make, put } from "./basics.js";

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
      return make("section", { class: "mx-knows" },
        make("h4", { class: "mx-h" }, this.ui.badge(party.id), ` ${party.role || party.site} knows`),
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
    put(this.root, make("div", { class: "mx-columns" }, columns));
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
}
