/** Outlines as rings of points in mm: the first is the rim, the others are holes. */
import { apply, type Point, type Pose } from "./pose";

export type Ring = readonly Point[];
export type Outline = readonly Ring[];

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export const EMPTY_BOX: Box = {
  left: Infinity,
  top: Infinity,
  right: -Infinity,
  bottom: -Infinity,
};

export function boxOf(points: Iterable<Point>): Box {
  const box = { ...EMPTY_BOX };
  for (const [x, y] of points) {
    if (x < box.left) box.left = x;
    if (x > box.right) box.right = x;
    if (y < box.top) box.top = y;
    if (y > box.bottom) box.bottom = y;
  }
  return box;
}

export function joinBoxes(boxes: Iterable<Box>): Box {
  const all = { ...EMPTY_BOX };
  for (const box of boxes) {
    all.left = Math.min(all.left, box.left);
    all.top = Math.min(all.top, box.top);
    all.right = Math.max(all.right, box.right);
    all.bottom = Math.max(all.bottom, box.bottom);
  }
  return all;
}

export function isEmpty(box: Box): boolean {
  return !(box.right >= box.left && box.bottom >= box.top);
}

export function grow(box: Box, by: number): Box {
  return { left: box.left - by, top: box.top - by, right: box.right + by, bottom: box.bottom + by };
}

export function meets(a: Box, b: Box): boolean {
  return a.left <= b.right && b.left <= a.right && a.top <= b.bottom && b.top <= a.bottom;
}

/** The box of an outline where `pose` puts it. */
export function placedBox(outline: Outline, pose: Pose): Box {
  return boxOf(placedRing(outline[0] ?? [], pose));
}

export function placedRing(ring: Ring, pose: Pose): Point[] {
  return ring.map(([x, y]) => apply(pose, x, y));
}

/** Whether (x, y) lies inside by the even-odd rule, so that holes are outside. */
export function contains(outline: Outline, x: number, y: number): boolean {
  let inside = false;
  for (const ring of outline) {
    let [px, py] = ring[ring.length - 1] ?? [0, 0];
    for (const [qx, qy] of ring) {
      if (qy > y !== py > y && x < ((px - qx) * (y - qy)) / (py - qy) + qx) inside = !inside;
      [px, py] = [qx, qy];
    }
  }
  return inside;
}
