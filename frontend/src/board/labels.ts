/**
 * Short figures, put together from letters that were drawn once: text is the slowest thing on a
 * canvas, and a ruler has other figures with every step of the zoom.
 */

const LETTERS = "0123456789.-m";
const FONT = "10px system-ui, sans-serif";
const HEIGHT_PX = 12;
/** Room around a letter, so that none shows the edge of its neighbour. */
const APART_PX = 1;

interface Sheet {
  canvas: HTMLCanvasElement;
  /** By letter, where it is on the sheet and how far it carries the next, px of the screen. */
  places: Map<string, { from: number; width: number }>;
}

const sheets = new Map<string, Sheet>();

/**
 * Draws `words`, of digits, points, signs and the letter m, with its left end and its middle height
 * at (x, y) of the screen; upright, with its middle and its top there, read from top to bottom.
 */
export function paintLabel(
  context: CanvasRenderingContext2D,
  words: string,
  x: number,
  y: number,
  colour: string,
  ratio: number,
  upright = false,
): void {
  const key = `${colour}|${ratio}|${upright}`;
  let sheet = sheets.get(key);
  if (!sheet) sheets.set(key, (sheet = draw(colour, ratio, upright)));
  let along = 0;
  for (const letter of words) {
    const place = sheet.places.get(letter);
    if (!place) continue;
    const { from, width } = place;
    const [at, long, high] = [from * ratio, width * ratio, HEIGHT_PX * ratio];
    const { canvas } = sheet;
    const half = HEIGHT_PX / 2;
    if (upright)
      context.drawImage(canvas, 0, at, high, long, x - half, y + along, HEIGHT_PX, width);
    else context.drawImage(canvas, at, 0, long, high, x + along, y - half, width, HEIGHT_PX);
    along += width;
  }
}

function draw(colour: string, ratio: number, upright: boolean): Sheet {
  const canvas = document.createElement("canvas");
  const places: Sheet["places"] = new Map();
  const context = canvas.getContext("2d");
  if (!context) return { canvas, places };
  context.font = FONT;
  let long = 0;
  for (const letter of LETTERS) {
    const { width } = context.measureText(letter);
    places.set(letter, { from: long, width });
    long += Math.ceil(width) + APART_PX;
  }
  const [length, height] = [Math.ceil(long * ratio), Math.ceil(HEIGHT_PX * ratio)];
  canvas.width = upright ? height : length;
  canvas.height = upright ? length : height;
  if (upright) {
    context.translate(height, 0);
    context.rotate(Math.PI / 2);
  }
  context.scale(ratio, ratio);
  context.font = FONT;
  context.fillStyle = colour;
  context.textBaseline = "middle";
  for (const [letter, { from }] of places) context.fillText(letter, from, HEIGHT_PX / 2 + 0.5);
  return { canvas, places };
}
