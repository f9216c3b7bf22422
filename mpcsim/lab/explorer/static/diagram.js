/* Sequence diagram: drawn from a plan, zoomed along time, with the present step marked. */

import { element, replaceContent, svgElement, tickStep } from "../../static/elements.js";
import { LOST_MS, formatBytes, formatMs, textWidth } from "./basics.js";
import { planDiagram } from "./plan.js";

const HEADS = 38;  // height of the columns' heads: pixels
const NOTCH = 40;  // how far a wheel turns for a zoom: pixels
const ZOOMS = [1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

export class Diagram {
  constructor(ui) {
    this.ui = ui;
    this.even = null;
    this.zoomed = 1;
    this.turned = 0;  // by the wheel, since the last zoom
    this.scale = element("button", { type: "button", class: "mx-button mx-toggle", onclick: () => {
      this.even = !this.even;
      this.redraw();
    } });
    const iconButton = (label, sign, act) => element("button", { type: "button", class: "mx-icon",
      "aria-label": label, title: label, onclick: act }, sign);
    this.closer = iconButton("Zoom in (+)", "+", () => this.zoomBy(1));
    this.farther = iconButton("Zoom out (-)", "−", () => this.zoomBy(-1));
    this.whole = iconButton("All of it (0)", "1:1", () => this.zoom(1));
    this.factor = element("output", { class: "mx-factor", "aria-label": "Zoom" });
    this.frame = element("div", { class: "mx-frame" });
    this.below = element("div");
    this.root = element("div", { class: "mx-diagram" },
      element("div", { class: "mx-tools", role: "toolbar", "aria-label": "Time axis" },
        this.farther, this.factor, this.closer, this.whole, this.scale),
      this.frame, this.below);
    this.frame.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.frame.addEventListener("pointerdown", (event) => this.drag(event));
    this.sizes = new ResizeObserver(() => {
      const width = this.frame.clientWidth;
      if (width && width !== this.drawnWidth) this.redraw();
    });
    this.sizes.observe(this.frame);
  }

  close() { this.sizes.disconnect(); }

  // -------------------------------------------------------------------------- zoom

  zoomBy(by, at) {
    const next = ZOOMS[ZOOMS.indexOf(this.zoomed) + by];
    if (next) this.zoom(next, at);
  }

  /** Zoom to a factor; the point ``at`` pixels below the frame's upper edge stays in place. */
  zoom(to, at = null) {
    if (to === this.zoomed || !this.plans) return;
    const { frame } = this;
    const here = at ?? this.zoomCentre();
    const { top, height } = this.plans;
    const share = (frame.scrollTop + here - HEADS - top) / height;
    this.zoomed = to;
    this.redraw();
    frame.scrollTop = this.plans.top + share * this.plans.height + HEADS - here;
  }

  /** Return the centre of zooming by keys and buttons: the present step's line, if visible. */
  zoomCentre() {
    const { frame, ui } = this;
    const shown = ui.step ? ui.view.steps[ui.step - 1] : null;
    const at = shown ? this.plans.y(shown.at_ms) + HEADS - frame.scrollTop : -1;
    return at >= HEADS && at <= frame.clientHeight ? at : (HEADS + frame.clientHeight) / 2;
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.turned += event.deltaY * (event.deltaMode ? 30 : 1);  // in lines or in pixels
    if (Math.abs(this.turned) < NOTCH) return;  // touch pads send many small deltas
    this.zoomBy(this.turned < 0 ? 1 : -1,
      event.clientY - this.frame.getBoundingClientRect().top);
    this.turned = 0;
  }

  /** Whether the diagram is higher than its frame. */
  get scrolls() { return this.frame.scrollHeight > this.frame.clientHeight + 1; }

  /** Scroll along the time axis by ``by`` screens; return false if all of it is visible. */
  pan(by) {
    if (!this.scrolls) return false;
    this.frame.scrollTop += by * 0.8 * (this.frame.clientHeight - HEADS);
    return true;
  }

  /** Scroll by dragging the background. */
  drag(event) {
    if (this.zoomed === 1 || event.button || event.target.closest(".mx-message, .mx-arrow")) return;
    const { frame } = this;
    const from = event.clientY + frame.scrollTop;
    const move = (moved) => { frame.scrollTop = from - moved.clientY; };
    const end = () => {
      frame.removeEventListener("pointermove", move);
      frame.classList.remove("dragged");
    };
    frame.setPointerCapture(event.pointerId);
    frame.classList.add("dragged");
    frame.addEventListener("pointermove", move);
    frame.addEventListener("lostpointercapture", end, { once: true });
  }

  /** Scroll to the present step's line. */
  follow() {
    const { frame, ui } = this;
    if (!this.scrolls || !ui.step) return;
    const at = this.plans.y(ui.view.steps[ui.step - 1].at_ms) + HEADS;
    if (at < frame.scrollTop + HEADS || at > frame.scrollTop + frame.clientHeight - 20) {
      frame.scrollTop = at - frame.clientHeight / 2;
    }
  }

  /** Scroll to a message. */
  reveal(key) {
    const { frame } = this;
    const box = this.chipOf(key)?.getBBox();
    if (!this.scrolls || !box) return;
    const at = box.y + HEADS;
    if (at < frame.scrollTop + HEADS || at + box.height > frame.scrollTop + frame.clientHeight) {
      frame.scrollTop = at - frame.clientHeight / 2;
    }
  }

  // -------------------------------------------------------------------------- drawing

  redraw() {
    const { frame, ui } = this;
    this.drawnWidth = frame.clientWidth;
    if (!this.drawnWidth) return;  // not on the page yet
    const width = Math.max(this.drawnWidth, 330);
    const focused = document.activeElement?.closest?.(".mx-message")?.dataset.key;
    const within = frame.contains(document.activeElement);
    const font = `600 11px ${getComputedStyle(frame).fontFamily}`;
    const plan = this.bestPlan(width, font);
    this.scale.textContent = this.even ? "Draw time to scale" : "Space events evenly";
    this.scale.title = this.even
      ? "Now every event has a row of its own. Press for a time axis to scale."
      : "Now the time axis is to scale. Press to give every event a row of its own.";
    this.factor.textContent = `× ${this.zoomed}`;
    this.farther.disabled = this.whole.disabled = this.zoomed === 1;
    this.closer.disabled = this.zoomed === ZOOMS.at(-1);
    this.plans = plan;
    const { scrollTop } = frame;
    const picture = this.picture(plan);
    replaceContent(frame, this.heads(plan), picture);
    replaceContent(this.below, this.legend());
    if (this.zoomed === 1) this.drawnHeight = HEADS + picture.height.baseVal.value;
    frame.style.maxHeight = `min(${this.drawnHeight}px, max(280px, 100vh - 365px))`;
    // So all of it fits into a window of JupyterLab, with its bars.
    frame.classList.toggle("zoomed", this.zoomed > 1);
    frame.scrollTop = scrollTop;
    this.markStep();
    if (within && focused) this.focusOn(focused);
  }

  /** Return the plan that omits the fewest labels, the lowest of these. */
  bestPlan(width, font) {
    const { view } = this.ui;
    let plan = null;
    for (const grow of [1, 1.2, 1.45, 1.75]) {
      const stretch = grow * this.zoomed;
      const next = planDiagram(view, { width, even: Boolean(this.even), stretch, font });
      if (!plan || next.hidden < plan.hidden) plan = next;
      if (!plan.hidden) break;
    }
    if (this.even === null) {  // to scale, unless that omits labels
      this.even = plan.hidden > 0;
      if (this.even) plan = planDiagram(view, { width, even: true, stretch: this.zoomed, font });
    }
    return plan;
  }

  chipOf(key) {
    return this.frame.querySelector(`.mx-message[data-key="${CSS.escape(key)}"]`);
  }

  focusOn(key) { this.chipOf(key)?.focus(); }

  /** Draw the heads of the columns, in a picture of their own, which does not scroll. */
  heads(plan) {
    const { view } = this.ui;
    const svg = svgElement("svg", { class: "mx-heads", width: plan.width, height: HEADS,
      viewBox: `0 0 ${plan.width} ${HEADS}`, role: "group", "aria-label": "Parties" },
    svgElement("text", { x: 4, y: HEADS - 3, class: "mx-axis" }, "ms"));
    for (const party of view.parties) {
      const cx = plan.x.get(party.id);
      const text = `${party.cheats ? "✎ " : ""}${party.id} ${party.role || party.site}`;
      const w = Math.min(textWidth(text, "600 12px sans-serif") + 24, 150);
      svg.append(svgElement("g", { class: "mx-column", style: this.ui.colours(party.id) },
        svgElement("rect", { x: cx - w / 2, y: 6, width: w, height: 24, rx: 12 }),
        svgElement("text", { x: cx, y: 22.5, "text-anchor": "middle" }, text),
        svgElement("title", {}, `party ${party.id}, ${party.role}, at ${party.site}: ${party.status}`)));
    }
    return svg;
  }

  picture(plan) {
    const { view } = this.ui;
    const { width, height, top, left, x, y } = plan;
    const bottom = top + height, below = bottom + plan.tail + 36;
    const svg = svgElement("svg", { width, height: below, viewBox: `0 0 ${width} ${below}`,
      role: "group", "aria-label": `Sequence diagram of ${view.name}` });
    svg.append(svgElement("defs", {},
      ["", "hot"].map((kind) => svgElement("marker", { id: `${this.ui.id}-head${kind}`,
        viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 8, markerHeight: 8,
        markerUnits: "userSpaceOnUse",
        orient: "auto-start-reverse" },
        svgElement("path", { d: "M0 1 L9 5 L0 9 z", class: `mx-head-${kind || "plain"}` })))));
    this.axis(svg, plan);
    this.bands(svg, plan);
    for (const party of view.parties) {
      const cx = x.get(party.id);
      svg.append(svgElement("line", { x1: cx, x2: cx, y1: top - 6, y2: bottom, class: "mx-life" }));
    }
    svg.append(svgElement("path", { d: this.critical(plan), class: "mx-critical" }));
    const ends = view.parties.map((party) => this.column(svg, plan, party));
    // Lines are below labels.
    svg.append(...plan.arrows.map((arrow) => this.arrow(arrow)), ...ends);
    svg.append(...plan.arrows.map((arrow) => this.chip(arrow)));
    this.line = svgElement("g", { class: "mx-nowline" },
      svgElement("line", { x1: left - 6, x2: width - 4 }), svgElement("path", { d: "M-7 -5 L0 0 L-7 5 z" }));
    svg.append(this.line);
    this.plans = plan;
    return svg;
  }

  axis(svg, plan) {
    const { top, height, left, width, y, even, end, times } = plan;
    const bottom = top + height;
    const marks = [];
    if (even) {
      times.forEach((t) => marks.push(t));
    } else {
      const step = tickStep(end, height / 60);
      for (let n = 0; n * step <= end; n += 1) marks.push(n * step);
    }
    let last = -99;
    for (const t of marks) {
      const at = y(t);
      if (at - last < 13 || at > bottom + 1) continue;
      last = at;
      const text = even ? t.toFixed(t < 100 ? 2 : 1) : `${Number(t.toPrecision(6))}`;
      svg.append(svgElement("text", { x: 46, y: at + 4, class: "mx-axis", "text-anchor": "end" }, text),
        svgElement("line", { x1: left - 8, x2: width - 4, y1: at, y2: at, class: "mx-grid" }));
    }
  }

  /** Draw the rounds beside the axis; they overlap, so odd and even ones have a strip each. */
  bands(svg, plan) {
    const { y } = plan;
    for (const round of this.ui.view.rounds) {
      const at = 52 + 17 * ((round.number + 1) % 2);
      const y0 = y(round.start_ms), y1 = Math.max(y(round.end_ms), y0 + 3);
      const group = svgElement("g", { class: `mx-round ${round.number % 2 ? "odd" : "even"}`,
        "data-round": round.number },
        svgElement("title", {}, `round ${round.number} (${round.name}): ` +
          `${formatMs(round.start_ms)} to ${formatMs(round.end_ms)} ms`),
        svgElement("rect", { x: at, y: y0, width: 15, height: y1 - y0, rx: 3 }));
      const name = `${round.number} ${round.name}`;
      const fits = textWidth(name, "11px sans-serif") + 8 < y1 - y0;
      if (fits) {  // when zoomed, repeated so that one is visible
        const times = this.zoomed === 1 ? 1 : Math.max(1, Math.floor((y1 - y0) / 300));
        for (let n = 0.5; n < times; n += 1) {
          group.append(svgElement("text", { class: "mx-round-name",
            transform: `translate(${at + 11.5} ${y0 + (n / times) * (y1 - y0)}) rotate(-90)`,
            "text-anchor": "middle" }, name));
        }
      } else if (y1 - y0 >= 13) {
        group.append(svgElement("text", { class: "mx-round-name", x: at + 7.5, y: (y0 + y1) / 2 + 4,
          "text-anchor": "middle" }, String(round.number)));
      }
      svg.append(group);
    }
  }

  column(svg, plan, party) {
    const { x, y, top } = plan;
    const style = this.ui.colours(party.id);
    const cx = x.get(party.id);
    for (const step of this.ui.view.steps) {
      if (step.party !== party.id) continue;
      const y0 = y(step.at_ms), y1 = Math.max(y(step.until_ms), y0 + (step.rounds.length ? 5 : 0));
      if (y1 > y0) {
        svg.append(svgElement("rect", { x: cx - 4.5, y: y0, width: 9, height: y1 - y0, rx: 2,
          class: "mx-work", style }, svgElement("title", {},
          `party ${party.id}: ${step.rounds.map((r) => r.name).join(", ") || "handles a message"}, ` +
          `${formatMs(step.until_ms - step.at_ms)} ms`)));
      }
    }
    const said = { done: "✓ done", aborted: "✗ aborted" }[party.status] ?? "… waiting";
    const end = svgElement("g", { class: `mx-end ${party.status}`, "data-end": party.id },
      svgElement("text", { x: cx, y: top + plan.height + plan.tail + 20, "text-anchor": "middle" },
        said));
    if (party.status !== "waiting") {
      const at = y(party.ended_ms);
      end.append(svgElement("circle", { cx, cy: at, r: 7.5 }), svgElement("path", {
        d: party.status === "done" ? `M${cx - 3.5} ${at} l2.5 3 l4.5 -6`
          : `M${cx - 3} ${at - 3} l6 6 m0 -6 l-6 6` }));
    }
    return end;
  }

  critical(plan) {
    const { x, y } = plan;
    const parts = [];
    const done = new Set();
    for (const segment of this.ui.view.critical) {
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
    const group = svgElement("g", { class: "mx-arrow", "data-number": message.number,
      "data-key": message.key, onclick: () => this.ui.openMessage(message.key) },
    svgElement("title", {}, `${message.kind} ${message.sender} → ${message.receiver}, ` +
      `${formatBytes(message.size)}, sent at ${formatMs(message.sent_ms)} ms`),
    svgElement("line", { ...ends, class: "mx-hit" }),
    svgElement("line", { ...ends, class: "mx-line",
      "marker-end": lost ? null : `url(#${this.ui.id}-head)` }));
    if (lost) {
      group.append(svgElement("path", { class: "mx-cross",
        d: `M${arrow.x1 - 5} ${arrow.y1 - 5} l10 10 m0 -10 l-10 10` }));
    }
    group.classList.toggle("altered", message.altered);
    return group;
  }

  chip(arrow) {
    const { message } = arrow;
    const group = svgElement("g", { class: "mx-message", role: "button", tabindex: -1,
      "data-key": message.key, "data-number": message.number,
      "aria-label": `${message.kind} from party ${message.sender} to party ${message.receiver}, ` +
        `${message.round ? `round ${message.round}, ` : ""}${message.size} bytes, ` +
        (message.received_ms === null ? message.fate : `arrives at ${formatMs(message.received_ms)} ms`) +
        (message.altered ? ", altered" : "") +
        (message.recovery_ms >= LOST_MS ? ", waited for a lost packet" : "") +
        (message.critical ? ", on the critical path" : ""),
      onclick: () => this.ui.openMessage(message.key) });
    group.classList.toggle("altered", message.altered);
    if (!arrow.label) {  // no room: a dot replaces the name
      group.append(svgElement("circle", { cx: arrow.x0 + 0.5 * (arrow.x1 - arrow.x0),
        cy: arrow.y0 + 0.5 * (arrow.y1 - arrow.y0), r: 5, class: "mx-chip" }));
      return group;
    }
    const { box, cx, cy, lift } = arrow.label;
    if (lift) {
      group.append(svgElement("line", { x1: cx, y1: cy, x2: box.x + box.w / 2,
        y2: box.y + (lift > 0 ? 0 : box.h), class: "mx-leader" }));
    }
    group.append(
      svgElement("rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: 4, class: "mx-chip" }),
      svgElement("text", { x: box.x + box.w / 2, y: box.y + 12.5, "text-anchor": "middle",
        class: "mx-chip-text" }, arrow.text));
    return group;
  }

  legend() {
    return element("div", { class: "mx-legend", "aria-hidden": "true" },
      [["critical", "critical path"], ["arrived", "arrived"], ["flying", "under way"],
        ["future", "still to come"], ["work", "computing"],
        ...(this.ui.view.messages.some((m) => m.recovery_ms >= LOST_MS)
          ? [["lost", "waited for a lost packet"]] : [])].map(([key, text]) =>
        element("span", {},
          element("span", { class: `mx-key ${key}` }, key === "lost" ? "↻" : null), text)));
  }

  /** Mark the present step: classes and its line. */
  markStep() {
    const { view, step } = this.ui;
    const { found } = this.ui.search;
    if (!this.plans) return;
    const sent = new Set(), arrived = new Set();
    view.steps.slice(0, step).forEach((s) => {
      s.sent.forEach((n) => sent.add(n));
      if (s.message !== null) arrived.add(s.message);
    });
    const shown = step ? view.steps[step - 1] : null;
    const selected = this.ui.model.get("selected");
    for (const group of this.frame.querySelectorAll(".mx-message, .mx-arrow")) {
      const n = Number(group.dataset.number);
      const here = group.dataset.key === selected;
      const out = sent.has(n) || arrived.has(n);
      group.classList.toggle("future", !out);
      group.classList.toggle("flying", out && !arrived.has(n));
      group.classList.toggle("current", shown?.message === n);
      group.classList.toggle("selected", here);
      const hit = found?.messages.has(group.dataset.key);
      group.classList.toggle("found", hit === true);
      group.classList.toggle("faded", hit === false);
      const line = group.querySelector(".mx-line");
      if (line?.hasAttribute("marker-end")) {
        const hot = here || shown?.message === n;
        line.setAttribute("marker-end", `url(#${this.ui.id}-head${hot ? "hot" : ""})`);
      }
    }
    for (const band of this.frame.querySelectorAll(".mx-round")) {
      band.classList.toggle("found", found?.rounds.has(Number(band.dataset.round)) ?? false);
    }
    const groups = [...this.frame.querySelectorAll(".mx-message")];
    for (const group of groups) {
      const here = group.classList.contains("selected");
      group.setAttribute("aria-pressed", here);
      group.tabIndex = here ? 0 : -1;
    }
    if (!groups.some((group) => group.tabIndex === 0) && groups.length) groups[0].tabIndex = 0;
    const over = new Set(view.steps.slice(0, step).filter((s) => s.ended).map((s) => s.party));
    for (const end of this.frame.querySelectorAll("[data-end]")) {
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
}
