/** What lies on the board: the reference picture, the pieces, their outlines, overlaps, keypoints. */
import { pictureUrl } from "../api/client";
import type { Fit, Id, Reference } from "../api/types";
import { meets, type Box } from "../geometry/polygon";
import type { Point, Pose } from "../geometry/pose";
import type { View } from "../state/view";
import { toScreen, visibleBox, type Camera } from "./camera";
import { enter, makeHatching, paintOverlap, paintPiece, strokePiece } from "./painter";
import { pathOf } from "./overlaps";
import { boxOfItem, islandOf, type Item, type Poses } from "./scene";
import type { Ink } from "./ink";
import type { Sprites } from "./sprites";

export interface Scene {
  items: readonly Item[];
  /** Poses of pieces on the move, which their placements do not tell yet. */
  live: Poses;
  reference: Reference | null;
  fit: Fit;
  /** Pieces that have moved since overlaps were measured. */
  moved: ReadonlySet<Id>;
  keypoints: ReadonlyMap<Id, readonly Point[]>;
}

export interface Canvas {
  context: CanvasRenderingContext2D;
  camera: Camera;
  width: number;
  height: number;
  ratio: number;
  /** Colours of the theme. */
  ink: Ink;
  /** Nothing is fetched while the view is moving. */
  still: boolean;
}

/** @param covered a box of the screen (px) that is painted already. */
export function paintContent(
  canvas: Canvas,
  scene: Scene,
  view: View,
  sprites: Sprites,
  covered: Box | null,
): void {
  const { context } = canvas;
  context.save();
  if (covered) leaveOut(canvas, covered);
  else {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  }
  const visible = visibleItems(canvas, scene, covered);
  paintGround(canvas, scene, visible, sprites);
  paintSigns(canvas, scene, view, visible);
  if (view.overlaps) {
    paintStillOverlaps(canvas, scene);
    paintStirredOverlaps(canvas, scene);
  }
  context.restore();
}

export interface Seen {
  item: Item;
  pose: Pose;
}

/** The reference picture, and pieces on it. */
export function paintGround(
  canvas: Canvas,
  scene: Pick<Scene, "reference">,
  seen: readonly Seen[],
  sprites: Sprites,
): void {
  if (scene.reference) paintReference(canvas, scene.reference, sprites);
  const { context, camera, ratio, still } = canvas;
  for (const { item, pose } of seen) {
    const { opacity, gain } = item.placement;
    paintPiece(context, camera, item.drawable, pose, opacity, gain, ratio, sprites, still);
  }
}

/** Outlines and keypoints of pieces. */
export function paintSigns(canvas: Canvas, scene: Scene, view: View, seen: readonly Seen[]): void {
  const { context, camera, ratio, ink } = canvas;
  if (view.outlines) {
    for (const { item, pose } of seen)
      strokePiece(context, camera, item.drawable, pose, ratio, ink.line, 1);
  }
  if (view.keypoints) paintKeypoints(canvas, scene, seen);
}

/** A seam of a pixel is painted twice rather than not at all. */
const SEAM_PX = 1;

function leaveOut({ context, width, height, ratio }: Canvas, covered: Box): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const left = Math.max(covered.left, -SEAM_PX) + SEAM_PX;
  const top = Math.max(covered.top, -SEAM_PX) + SEAM_PX;
  const right = Math.min(covered.right, width + SEAM_PX) - SEAM_PX;
  const bottom = Math.min(covered.bottom, height + SEAM_PX) - SEAM_PX;
  context.beginPath();
  context.rect(0, 0, width, height);
  context.rect(left, top, right - left, bottom - top);
  context.clip("evenodd");
  context.clearRect(0, 0, width, height);
}

export function visibleItems(canvas: Canvas, scene: Scene, covered: Box | null): Seen[] {
  const shown = visibleBox(canvas.camera, canvas.width, canvas.height);
  const { px_per_mm } = canvas.camera;
  const inner = covered && {
    left: shown.left + covered.left / px_per_mm,
    top: shown.top + covered.top / px_per_mm,
    right: shown.left + covered.right / px_per_mm,
    bottom: shown.top + covered.bottom / px_per_mm,
  };
  const seen: Seen[] = [];
  for (const item of scene.items) {
    const pose = scene.live.get(item.piece.id) ?? item.placement;
    const reach = item.drawable.reach_mm;
    if (
      inner &&
      pose.x_mm - reach > inner.left &&
      pose.x_mm + reach < inner.right &&
      pose.y_mm - reach > inner.top &&
      pose.y_mm + reach < inner.bottom
    ) {
      continue;
    }
    if (
      pose.x_mm + reach >= shown.left &&
      pose.x_mm - reach <= shown.right &&
      pose.y_mm + reach >= shown.top &&
      pose.y_mm - reach <= shown.bottom
    ) {
      seen.push({ item, pose });
    }
  }
  return seen;
}

function paintReference(canvas: Canvas, reference: Reference, sprites: Sprites): void {
  const { context, camera, ratio } = canvas;
  const picture = sprites.get(
    () => pictureUrl.photo(reference.picture),
    reference.picture,
    2048,
    null,
    canvas.still,
  );
  if (!picture) return;
  const { width, height } = picture as ImageBitmap;
  const w = width * reference.mm_per_px;
  const h = height * reference.mm_per_px;
  enter(context, camera, reference, ratio);
  context.globalAlpha = reference.opacity;
  context.drawImage(picture, -w / 2, -h / 2, w, h);
}

let hatching: { pattern: CanvasPattern; ratio: number } | null = null;

function hatch(context: CanvasRenderingContext2D, ratio: number): CanvasPattern | null {
  if (hatching?.ratio !== ratio) {
    const pattern = makeHatching(context, ratio);
    hatching = pattern && { pattern, ratio };
  }
  return hatching?.pattern ?? null;
}

/** Every overlap of pieces that lie still, as one path on the board; made again when that changes. */
let stillOverlaps: { fit: Fit; key: string; path: Path2D } | null = null;

function isStirred(scene: Pick<Scene, "moved" | "live">, id: Id): boolean {
  return scene.moved.has(id) || scene.live.has(id);
}

/** Of pieces that lie still. Asked for when a piece is pressed, it is there when it moves. */
export function overlapPath(scene: Pick<Scene, "moved" | "live" | "fit">): Path2D {
  const key = [...scene.moved, ...scene.live.keys()].sort().join();
  if (stillOverlaps?.fit !== scene.fit || stillOverlaps.key !== key) {
    const path = new Path2D();
    for (const overlap of scene.fit.overlaps) {
      if (!isStirred(scene, overlap.first) && !isStirred(scene, overlap.second))
        path.addPath(pathOf(overlap));
    }
    stillOverlaps = { fit: scene.fit, key, path };
  }
  return stillOverlaps.path;
}

/** Overlaps as the server measured them, of pieces that have not moved since. */
export function paintStillOverlaps(canvas: Canvas, scene: Scene): void {
  const { context, camera, ratio } = canvas;
  const pattern = hatch(context, ratio);
  if (!pattern) return;
  const [x, y] = toScreen(camera, 0, 0);
  const scale = camera.px_per_mm * ratio;
  context.setTransform(scale, 0, 0, scale, x * ratio, y * ratio);
  pattern.setTransform(
    new DOMMatrix([1 / scale, 0, 0, 1 / scale, -x / camera.px_per_mm, -y / camera.px_per_mm]),
  );
  context.globalAlpha = 1;
  context.fillStyle = pattern;
  context.fill(overlapPath(scene), "evenodd");
  pattern.setTransform(new DOMMatrix());
}

/** Whether two pieces may meet at all: quick to tell, for most do not. */
function inReach(first: Item, a: Pose, second: Item, b: Pose): boolean {
  const reach = first.drawable.reach_mm + second.drawable.reach_mm;
  return Math.abs(a.x_mm - b.x_mm) <= reach && Math.abs(a.y_mm - b.y_mm) <= reach;
}

const MOST_STIRRED = 12;

/** Overlaps of pieces on the move, by their outlines; islands claim nothing about each other. */
export function paintStirredOverlaps(canvas: Canvas, scene: Scene): void {
  const stirred = (id: Id) => isStirred(scene, id);
  const pattern = hatch(canvas.context, canvas.ratio);
  if (!pattern) return;
  const moving = scene.items.filter((item) => stirred(item.piece.id));
  if (!moving.length || moving.length > MOST_STIRRED) return;
  const poseOf = (item: Item) => scene.live.get(item.piece.id) ?? item.placement;
  for (const first of moving) {
    const box = boxOfItem(first, poseOf(first));
    for (const second of scene.items) {
      if (second === first || (stirred(second.piece.id) && second.piece.id < first.piece.id))
        continue;
      if (islandOf(first) !== islandOf(second)) continue;
      if (!inReach(first, poseOf(first), second, poseOf(second))) continue;
      if (!meets(box, boxOfItem(second, poseOf(second)))) continue;
      paintOverlap(
        canvas.context,
        canvas.camera,
        first.drawable,
        poseOf(first),
        second.drawable,
        poseOf(second),
        canvas.ratio,
        pattern,
      );
    }
  }
}

function paintKeypoints(canvas: Canvas, scene: Scene, seen: readonly Seen[]): void {
  const { context, camera, ratio } = canvas;
  const radius = 2.2 / camera.px_per_mm;
  context.fillStyle = canvas.ink.accent;
  context.globalAlpha = 1;
  for (const { item, pose } of seen) {
    const points = scene.keypoints.get(item.piece.id);
    if (!points) continue;
    enter(context, camera, pose, ratio);
    context.beginPath();
    for (const [x, y] of points) {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    context.fill();
  }
}
