/** Free space between boxes. */
import { grow, joinBoxes, meets, type Box } from "./polygon";
import type { Point } from "./pose";

const CLEAR_MM = 5;
/** Of the shorter side: how finely room is looked for. */
const STEP = 0.25;
const RINGS = 200;

/** The middle of a box of this size: as near to a point as may be, clear of what is `taken`. */
export function roomNear(
  [x, y]: Point,
  width: number,
  height: number,
  taken: readonly Box[],
): Point {
  const around = taken.map((box) => grow(box, CLEAR_MM));
  const isFree = ([cx, cy]: Point) => {
    const box = {
      left: cx - width / 2,
      top: cy - height / 2,
      right: cx + width / 2,
      bottom: cy + height / 2,
    };
    return !around.some((other) => meets(box, other));
  };
  const step = Math.max(STEP * Math.min(width, height), 1);
  for (let k = 0; k <= RINGS; k++) {
    const free = ring(k).filter(([i, j]) => isFree([x + i * step, y + j * step]));
    const [nearest] = free.sort((a, b) => Math.hypot(...a) - Math.hypot(...b));
    if (nearest) return [x + nearest[0] * step, y + nearest[1] * step];
  }
  return [joinBoxes(around).right + width / 2 + CLEAR_MM, y];
}

/** The cells of a square grid around its middle, `k` steps away; to the right first. */
function ring(k: number): Point[] {
  if (k === 0) return [[0, 0]];
  const cells: Point[] = [];
  for (let t = -k; t <= k; t++) cells.push([k, t], [-k, t]);
  for (let t = 1 - k; t < k; t++) cells.push([t, k], [t, -k]);
  return cells;
}
