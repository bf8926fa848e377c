/**
 * The board in three layers while a piece is dragged: what lies below it, the piece, what lies
 * above. What lies still is painted once, and a frame costs no more than the piece itself.
 */
import type { View } from "../state/view";
import type { Camera } from "./camera";
import {
  paintGround,
  paintSigns,
  paintStillOverlaps,
  paintStirredOverlaps,
  visibleItems,
  type Canvas,
  type Scene,
} from "./content";
import type { Item, Poses } from "./scene";
import type { Sprites } from "./sprites";

export interface Parting {
  camera: Camera;
  items: readonly Item[];
  below: readonly Item[];
  moving: readonly Item[];
  above: readonly Item[];
}

/** Parts the pieces; `null` unless those on the move lie next to each other in height. */
export function partingOf(camera: Camera, items: readonly Item[], live: Poses): Parting | null {
  const first = items.findIndex((item) => live.has(item.piece.id));
  if (first < 0) return null;
  const last = first + live.size;
  const moving = items.slice(first, last);
  if (!moving.every((item) => live.has(item.piece.id))) return null;
  return { camera, items, below: items.slice(0, first), moving, above: items.slice(last) };
}

export function sameParting(a: Parting | null, b: Parting): boolean {
  return (
    a?.camera === b.camera &&
    a.items === b.items &&
    a.below.length === b.below.length &&
    a.moving.length === b.moving.length
  );
}

export function paintBelow(canvas: Canvas, scene: Scene, { below }: Parting, sprites: Sprites) {
  clear(canvas);
  paintGround(canvas, scene, visibleItems(canvas, { ...scene, items: below }, null), sprites);
}

export function paintMoving(canvas: Canvas, scene: Scene, { moving }: Parting, sprites: Sprites) {
  clear(canvas);
  const seen = visibleItems(canvas, { ...scene, items: moving }, null);
  paintGround(canvas, { reference: null }, seen, sprites);
}

export function paintAbove(
  canvas: Canvas,
  scene: Scene,
  { below, above }: Parting,
  view: View,
  sprites: Sprites,
): void {
  clear(canvas);
  const higher = visibleItems(canvas, { ...scene, items: above }, null);
  const lower = visibleItems(canvas, { ...scene, items: below }, null);
  paintGround(canvas, { reference: null }, higher, sprites);
  paintSigns(canvas, scene, view, [...lower, ...higher]);
  if (view.overlaps) paintStillOverlaps(canvas, scene);
}

/** What belongs to the pieces on the move and has to be seen whatever lies above them. */
export function paintOnTop(canvas: Canvas, scene: Scene, { moving }: Parting, view: View): void {
  canvas.context.save();
  paintSigns(canvas, scene, view, visibleItems(canvas, { ...scene, items: moving }, null));
  if (view.overlaps) paintStirredOverlaps(canvas, scene);
  canvas.context.restore();
}

function clear({ context }: Canvas): void {
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.globalAlpha = 1;
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
}
