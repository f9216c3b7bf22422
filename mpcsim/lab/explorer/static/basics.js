/* Helpers of the explorer: inputs, texts, numbers. */

import { element, svgElement } from "../../static/elements.js";

/** Retransmission time from which a message counts as delayed by a loss: milliseconds. */
export const LOST_MS = 0.005;

/** Mark an input as refused, and say beside it why; an empty text takes both back. */
export function markField(input, problem) {
  if (!input) return;
  const cell = input.parentElement;
  cell.querySelector(".mx-beside")?.remove();
  if (!problem) {
    input.removeAttribute("aria-invalid");
    return;
  }
  input.setAttribute("aria-invalid", "true");
  cell.append(element("div", { class: "mx-beside mx-bad mx-small" }, problem));
}

/** Apply an input at Enter, too: inside JupyterLab the browser's own change event is not sent. */
export function applyAtEnter(input, apply) {
  let applied = null;
  input.addEventListener("input", () => { applied = null; });
  input.addEventListener("change", () => { if (input.value !== applied) apply(); });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    event.stopPropagation();
    applied = input.value;
    apply();
  });
}

export function lockIcon() {
  return svgElement("svg", { class: "mx-lock", viewBox: "0 0 12 14", width: 10, height: 12,
    "aria-hidden": "true" },
  svgElement("path", { d: "M3 6V4a3 3 0 0 1 6 0v2", fill: "none", stroke: "currentColor",
    "stroke-width": 1.6 }),
  svgElement("rect", { x: 1, y: 6, width: 10, height: 7, rx: 1.5, fill: "currentColor" }));
}

/** Return milliseconds as text, with two decimals. */
export function formatMs(value) {
  return value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

export function formatBytes(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 999_950 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

const ruler = document.createElement("canvas").getContext("2d");
export function textWidth(text, font) {
  ruler.font = font;
  return ruler.measureText(text).width;
}

export function boxesOverlap(a, b) {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/** Scroll a node into view, no farther than necessary. */
export function scrollToNode(node) {
  node.scrollIntoView({ block: "nearest", inline: "nearest" });
}
