/* Pictures of what a widget shows, as SVG or PNG files, in the colours of the page. */

const PAINTED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "font-style",
  "text-anchor", "visibility", "display"];
const PNG_SCALE = 2;  // for slides and high-resolution screens

/** Return one SVG as text, with its size, of several that stand one below the other. */
function pictureOf(svgs, background) {
  const space = "http://www.w3.org/2000/svg";
  const whole = document.createElementNS(space, "svg");
  const ground = document.createElementNS(space, "rect");
  whole.append(ground);
  let width = 0, height = 0;
  for (const svg of svgs) {
    const copy = svg.cloneNode(true);
    const nodes = [copy, ...copy.querySelectorAll("*")];
    [svg, ...svg.querySelectorAll("*")].forEach((node, at) => {
      const style = getComputedStyle(node);
      for (const name of PAINTED) nodes[at].style.setProperty(name, style.getPropertyValue(name));
    });
    copy.setAttribute("y", height);
    width = Math.max(width, svg.width.baseVal.value);
    height += svg.height.baseVal.value;
    whole.append(copy);
  }
  for (const [name, value] of Object.entries({ width, height })) {
    whole.setAttribute(name, value);
    ground.setAttribute(name, value);
  }
  ground.setAttribute("fill", background);
  return { text: new XMLSerializer().serializeToString(whole), width, height };
}

/** Give the user a file. */
export function downloadBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Give the user what SVG elements show, as NAME.svg or NAME.png. */
export async function downloadPicture(name, ending, svgs, background) {
  const { text, width, height } = pictureOf(svgs, background);
  const blob = new Blob([text], { type: "image/svg+xml" });
  if (ending === "svg") return downloadBlob(`${name}.svg`, blob);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = PNG_SCALE * width;
  canvas.height = PNG_SCALE * height;
  const context = canvas.getContext("2d");
  context.scale(PNG_SCALE, PNG_SCALE);
  context.drawImage(image, 0, 0, width, height);
  canvas.toBlob((made) => downloadBlob(`${name}.png`, made), "image/png");
}
