/* Helpers of both widgets: elements, ticks of an axis, the page's theme. Text enters the page as
 * text nodes only. */

const SVG = "http://www.w3.org/2000/svg";

/** Return an HTML element; attributes that begin with "on" are listeners. */
export function element(tag, attributes = {}, ...children) {
  return fillNode(document.createElement(tag), attributes, children);
}

/** Return an SVG element. */
export function svgElement(tag, attributes = {}, ...children) {
  return fillNode(document.createElementNS(SVG, tag), attributes, children);
}

function fillNode(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("aria-")) node.setAttribute(name, value);
    else if (value === false) continue;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Replace all children of a node. */
export function replaceContent(node, ...children) {
  node.replaceChildren();
  return fillNode(node, {}, children);
}

/** Return a distance of ticks: 1, 2 or 5 times a power of ten. */
export function tickStep(span, count) {
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
}

/** Return whether the page has a dark theme: JupyterLab's, its background's, or the system's. */
export function isDark() {
  const said = document.body.dataset.jpThemeLight;
  if (said !== undefined) return said === "false";
  const background = getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g);
  if (background && (background.length < 4 || Number(background[3]) > 0)) {
    const [r, g, b] = background.map(Number);
    return 0.299 * r + 0.587 * g + 0.114 * b < 128;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
