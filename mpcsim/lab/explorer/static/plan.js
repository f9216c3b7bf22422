/* Layout of the sequence diagram. */

import { LOST_MS, boxesOverlap, textWidth } from "./basics.js";

/** Return the positions of columns, rows and labels; labels hide neither each other nor a line.
 *
 * even: every event has a row of its own; otherwise time is to scale. stretch: factor of the height.
 * font: of the labels.
 */
export function planDiagram(view, { width, even, stretch, font }) {
  const left = 96, right = 18, top = 14;
  const gap = (width - left - right) / view.parties.length;
  const x = new Map(view.parties.map((p, at) => [p.id, left + gap * (at + 0.5)]));
  const end = Math.max(view.finished_ms,
    ...view.messages.map((m) => Math.min(m.received_ms ?? 0, view.finished_ms)), 0.001);
  const times = [...new Set([0, end, ...view.messages.flatMap((m) => [m.sent_ms, m.received_ms])]
    .filter((t) => t !== null && t <= end).map((t) => Number(t.toFixed(6))))]
    .sort((a, b) => a - b);
  const height = stretch * (even
    ? Math.max(300, (times.length - 1) * 25)
    : Math.min(1000, Math.max(500, 150 + view.messages.length * 32)));
  const y = (t) => {
    if (!even) return top + (Math.min(t, end) / end) * height;
    let at = times.findIndex((other) => other >= t - 1e-6);
    if (at < 0) at = times.length - 1;
    if (at === 0) return top;
    const share = (Math.min(t, times[at]) - times[at - 1]) / (times[at] - times[at - 1]);
    return top + ((at - 1 + share) / (times.length - 1)) * height;
  };
  const arrows = view.messages.filter((m) => x.has(m.receiver)).map((message) => {
    const x0 = x.get(message.sender), y0 = y(message.sent_ms);
    const there = message.received_ms !== null && message.received_ms <= end + 1e-6;
    const arrow = { message, x0, y0, x1: x.get(message.receiver), there,
      y1: y(message.received_ms ?? end), text: labelText(message) };
    if (message.received_ms === null) {
      arrow.x1 = x0 + (arrow.x1 - x0) * 0.45;
      arrow.y1 = Math.min(y0 + 24, top + height);
    } else if (!there) {  // cut at the end of the run
      const share = (end - message.sent_ms) / (message.received_ms - message.sent_ms);
      const w = labelWidth(arrow.text, font), reach = Math.abs(arrow.x1 - x0) * share;
      arrow.y1 = top + height;
      arrow.stub = reach < w / 2 + 12 || reach < w + 26 && arrow.y1 - y0 < 40;
      if (!arrow.stub) arrow.x1 = x0 + (arrow.x1 - x0) * share;
    }
    return arrow;
  });
  const plan = { width, height, top, left, right, x, y, end, even, times, arrows, font };
  plan.tail = placeStubs(plan);
  plan.hidden = placeLabels(plan);
  return plan;
}

/** Return the text of a message's label. */
function labelText(message) {
  const lost = message.recovery_ms >= LOST_MS;
  return (message.altered ? "✎ " : "") + (lost ? "↻ " : "") + message.kind;
}

function labelWidth(text, font) {
  return textWidth(text, font) + 12;
}

/** Place labels below the end of the run for arrows that are too short for theirs; return the height
 * of these labels. */
function placeStubs(plan) {
  const bottom = plan.top + plan.height, length = 26, h = 17, row = 21;
  const rows = [];
  for (const arrow of plan.arrows.filter((each) => each.stub)) {
    const right = arrow.x1 > arrow.x0;
    arrow.text += ` → ${arrow.message.receiver}`;
    const w = labelWidth(arrow.text, plan.font);
    const x = right ? Math.min(arrow.x0 + length, plan.width - 2 - w)
      : Math.max(arrow.x0 - length - w, plan.left);
    const from = Math.min(x, arrow.x0) - 4, to = Math.max(x + w, arrow.x0) + 4;
    let at = rows.findIndex((taken) => taken.every((each) => to < each.from || each.to < from));
    if (at < 0) at = rows.push([]) - 1;
    rows[at].push({ from, to });
    arrow.x1 = right ? x - 1 : x + w + 1;
    arrow.y1 = bottom + 16 + at * row;
    arrow.label = { box: { x, y: arrow.y1 - h / 2, w, h }, cx: arrow.x1, cy: arrow.y1, lift: 0 };
  }
  return rows.length * row;
}

/** Place every label; return how many had no room. */
function placeLabels(plan) {
  const taken = [];
  const columns = [...plan.x.values()];
  let hidden = 0;
  const lines = plan.arrows;
  for (const arrow of plan.arrows.filter((each) => !each.stub).sort(
    (a, b) => Math.abs(a.x1 - a.x0) - Math.abs(b.x1 - b.x0))) {
    const w = labelWidth(arrow.text, plan.font), h = 17;
    let best = null;
    for (let share = 0.12; share <= 0.881; share += 0.04) {
      const cx = arrow.x0 + share * (arrow.x1 - arrow.x0);
      const cy = arrow.y0 + share * (arrow.y1 - arrow.y0);
      for (const lift of [0, -1, 1, -2, 2, -3, 3, -4, 4]) {
        const box = { x: cx - w / 2, y: cy - h / 2 + lift * 9.5, w, h };
        let cost = 3 * Math.abs(share - 0.33) + (lift ? 1 + Math.abs(lift) : 0);
        if (best && cost >= best.cost) continue;
        if (box.y < plan.top - 4 || box.y + h > plan.top + plan.height + 4) continue;
        if (box.x < plan.left || box.x + w > plan.width - 2) continue;
        if (taken.some((other) => boxesOverlap(box, other))) continue;
        if (columns.some((c) => box.x - 8 < c && c < box.x + w + 8)) continue;
        for (const other of lines) {
          if (other !== arrow && arrowMeetsBox(other, box)) cost += 1.1;
        }
        if (!best || cost < best.cost) best = { cost, box, cx, cy, lift };
      }
    }
    arrow.label = best;
    if (best) taken.push({ x: best.box.x - 2, y: best.box.y - 1, w: w + 4, h: h + 2 });
    else hidden += 1;
  }
  return hidden;
}

/** Return whether an arrow crosses a box. */
function arrowMeetsBox(arrow, box) {
  let enter = 0, leave = 1;
  for (const [a, b, low, high] of [[arrow.x0, arrow.x1, box.x, box.x + box.w],
    [arrow.y0, arrow.y1, box.y, box.y + box.h]]) {
    if (a === b) {
      if (a < low || a > high) return false;
      continue;
    }
    const near = (low - a) / (b - a), far = (high - a) / (b - a);
    enter = Math.max(enter, Math.min(near, far));
    leave = Math.min(leave, Math.max(near, far));
  }
  return enter <= leave;
}
