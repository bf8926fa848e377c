/** Short words drawn once and copied from then on: text is the slowest thing on a canvas. */

const MOST = 600;
const labels = new Map<string, HTMLCanvasElement>();

/** Draws `words` with its left end and its middle height at (x, y) of the screen. */
export function paintLabel(
  context: CanvasRenderingContext2D,
  words: string,
  x: number,
  y: number,
  colour: string,
  ratio: number,
  upright = false,
): void {
  const key = `${words}|${colour}|${ratio}|${upright}`;
  let label = labels.get(key);
  if (!label) {
    if (labels.size >= MOST) labels.clear();
    label = draw(words, colour, ratio, upright);
    labels.set(key, label);
  }
  const width = label.width / ratio;
  const height = label.height / ratio;
  if (upright) context.drawImage(label, x - width / 2, y, width, height);
  else context.drawImage(label, x, y - height / 2, width, height);
}

const FONT = "10px system-ui, sans-serif";
const HEIGHT_PX = 12;

function draw(words: string, colour: string, ratio: number, upright: boolean): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  context.font = FONT;
  const long = Math.ceil(context.measureText(words).width * ratio) + 2;
  const high = Math.ceil(HEIGHT_PX * ratio);
  canvas.width = upright ? high : long;
  canvas.height = upright ? long : high;
  if (upright) {
    context.translate(high, 0);
    context.rotate(Math.PI / 2);
  }
  context.scale(ratio, ratio);
  context.font = FONT;
  context.fillStyle = colour;
  context.textBaseline = "middle";
  context.fillText(words, 0, HEIGHT_PX / 2 + 0.5);
  return canvas;
}
