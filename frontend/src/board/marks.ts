/** What helps to see and to measure: selection, islands, guides, rulers, gaps. Never part of a picture. */
import type { Fit, Guide, Id } from "../api/types";
import { grow, joinBoxes, meets, type Box } from "../geometry/polygon";
import type { Point, Pose } from "../geometry/pose";
import { roundLength, sayLength, trim } from "../geometry/scale";
import { toScreen } from "./camera";
import { paintLabel } from "./labels";
import type { Canvas } from "./content";
import { strokePiece } from "./painter";
import { boxOfItem, centreOf, islandName, islandsOf, type Item, type Poses } from "./scene";

export const RULER_PX = 20;
const FONT = "11px system-ui, sans-serif";
const LINE_PX = 13;

export interface Marks {
  items: readonly Item[];
  live: Poses;
  selection: ReadonlySet<Id>;
  hovered: Id | null;
  guides: readonly Guide[];
  gaps: Fit["gaps"] | null;
  rulers: boolean;
  measured: readonly [Point, Point] | null;
  /** Where on the screen (px) the cross is that keys move. */
  cross: Point | null;
  /** Whether the poses shown are a solver's attempt. */
  preview: boolean;
}

export function paintMarks(canvas: Canvas, marks: Marks): void {
  const { context, ratio } = canvas;
  context.save();
  paintIslands(canvas, marks);
  paintGuides(canvas, marks.guides);
  paintOutlines(canvas, marks);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = FONT;
  if (marks.gaps) paintGaps(canvas, marks.gaps);
  paintLocks(canvas, marks);
  if (marks.measured) paintMeasure(canvas, marks.measured);
  if (marks.cross) paintCross(canvas, marks.cross);
  if (marks.rulers) paintRulers(canvas);
  context.restore();
}

function poseOf(marks: Marks, item: Item): Pose {
  return marks.live.get(item.piece.id) ?? item.placement;
}

function paintOutlines(canvas: Canvas, marks: Marks): void {
  for (const item of marks.items) {
    const id = item.piece.id;
    const selected = marks.selection.has(id);
    if (!selected && id !== marks.hovered && !marks.preview) continue;
    const width = selected ? 2 : 1;
    if (selected)
      strokePiece(
        canvas.context,
        canvas.camera,
        item.drawable,
        poseOf(marks, item),
        canvas.ratio,
        canvas.ink.ground,
        4,
      );
    strokePiece(
      canvas.context,
      canvas.camera,
      item.drawable,
      poseOf(marks, item),
      canvas.ratio,
      canvas.ink.accent,
      width,
    );
  }
}

function paintIslands(canvas: Canvas, marks: Marks): void {
  const { context, camera, ratio, ink } = canvas;
  const islands = islandsOf(marks.items);
  if (islands.size < 2) return;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = FONT;
  context.textBaseline = "bottom";
  context.textAlign = "left";
  // Where names would run into each other, the island of more pieces keeps its own.
  const written: Box[] = [];
  const largest = [...islands].sort(([i, a], [k, b]) => b.length - a.length || i - k);
  for (const [island, items] of largest) {
    const box = grow(
      joinBoxes(items.map((item) => boxOfItem(item, poseOf(marks, item)))),
      10 / camera.px_per_mm,
    );
    const [left, top] = toScreen(camera, box.left, box.top);
    const [right, bottom] = toScreen(camera, box.right, box.bottom);
    context.strokeStyle = ink.faint;
    context.lineWidth = 1;
    context.setLineDash([2, 5]);
    context.strokeRect(left, top, right - left, bottom - top);
    context.setLineDash([]);
    context.fillStyle = ink.text;
    const pieces = items.length === 1 ? "1 piece" : `${items.length} pieces`;
    const room = right - left;
    const name = islandName(island);
    const short = `Island ${name} · ${pieces}`;
    const wordings = [name];
    if (room > 110) wordings.unshift(short);
    if (room > 300) wordings.unshift(`${short} · place relative to the others unknown`);
    for (const words of wordings) {
      const [x, y] = [left + 2, top - 4];
      const end = x + context.measureText(words).width;
      const around = grow({ left: x, top: y - LINE_PX, right: end, bottom: y }, 2);
      if (written.some((other) => meets(other, around))) continue;
      context.fillText(words, x, y);
      written.push(around);
      break;
    }
  }
}

function paintGuides(canvas: Canvas, guides: readonly Guide[]): void {
  const { context, camera, ratio, width, height, ink } = canvas;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.strokeStyle = ink.accent;
  context.globalAlpha = 0.7;
  context.lineWidth = 1;
  for (const { axis, position_mm } of guides) {
    const [x, y] = toScreen(camera, position_mm, position_mm);
    context.beginPath();
    if (axis === "x") {
      context.moveTo(Math.round(x) + 0.5, 0);
      context.lineTo(Math.round(x) + 0.5, height);
    } else {
      context.moveTo(0, Math.round(y) + 0.5);
      context.lineTo(width, Math.round(y) + 0.5);
    }
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** A word on a plate, so that it can be read on any painting. */
function plate(canvas: Canvas, words: string, x: number, y: number): void {
  const { context, ink } = canvas;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const w = context.measureText(words).width + 10;
  context.fillStyle = ink.ground;
  context.globalAlpha = 0.88;
  context.beginPath();
  context.roundRect(x - w / 2, y - 9, w, 18, 4);
  context.fill();
  context.globalAlpha = 1;
  context.fillStyle = ink.text;
  context.fillText(words, x, y + 0.5);
}

function paintGaps(canvas: Canvas, gaps: Fit["gaps"]): void {
  const { context, camera, ink } = canvas;
  const written: [number, number][] = [];
  for (const { at_mm, gap_mm } of gaps) {
    const [x1, y1] = toScreen(camera, ...at_mm[0]);
    const [x2, y2] = toScreen(camera, ...at_mm[1]);
    if (Math.max(x1, x2) < 0 || Math.min(x1, x2) > canvas.width) continue;
    if (Math.max(y1, y2) < 0 || Math.min(y1, y2) > canvas.height) continue;
    context.strokeStyle = ink.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
    const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
    if (written.some(([wx, wy]) => Math.abs(wx - x) < 48 && Math.abs(wy - y) < 18)) continue;
    written.push([x, y]);
    plate(canvas, `${trim(gap_mm, 1)} mm`, x, y);
  }
}

function paintLocks(canvas: Canvas, marks: Marks): void {
  const { context, camera, ink } = canvas;
  for (const item of marks.items) {
    if (!item.placement.locked) continue;
    const [x, y] = toScreen(camera, ...centreOf(item, poseOf(marks, item)));
    context.fillStyle = ink.ground;
    context.globalAlpha = 0.85;
    context.beginPath();
    context.arc(x, y, 10, 0, 2 * Math.PI);
    context.fill();
    context.globalAlpha = 1;
    context.fillStyle = ink.text;
    context.strokeStyle = ink.text;
    context.lineWidth = 1.5;
    context.fillRect(x - 4, y - 1, 8, 6);
    context.beginPath();
    context.arc(x, y - 1.5, 2.8, Math.PI, 0);
    context.stroke();
  }
}

function paintMeasure(canvas: Canvas, [from, to]: readonly [Point, Point]): void {
  const { context, camera, ink } = canvas;
  const [x1, y1] = toScreen(camera, ...from);
  const [x2, y2] = toScreen(camera, ...to);
  for (const [colour, width] of [
    [ink.ground, 5],
    [ink.accent, 2],
  ] as const) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
  }
  for (const [x, y] of [
    [x1, y1],
    [x2, y2],
  ] as const) {
    context.fillStyle = ink.accent;
    context.beginPath();
    context.arc(x, y, 3.5, 0, 2 * Math.PI);
    context.fill();
  }
  plate(
    canvas,
    sayLength(Math.hypot(to[0] - from[0], to[1] - from[1])),
    (x1 + x2) / 2,
    (y1 + y2) / 2 - 14,
  );
}

const CROSS_PX = 12;

function paintCross({ context, ink }: Canvas, [x, y]: Point): void {
  context.beginPath();
  context.moveTo(x - CROSS_PX, y);
  context.lineTo(x + CROSS_PX, y);
  context.moveTo(x, y - CROSS_PX);
  context.lineTo(x, y + CROSS_PX);
  for (const [colour, width] of [
    [ink.ground, 4],
    [ink.accent, 2],
  ] as const) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }
}

function paintRulers(canvas: Canvas): void {
  const { context, camera, width, height, ink, ratio } = canvas;
  context.fillStyle = ink.ground;
  context.globalAlpha = 0.9;
  context.fillRect(0, 0, width, RULER_PX);
  context.fillRect(0, RULER_PX, RULER_PX, height - RULER_PX);
  context.globalAlpha = 1;
  const step = roundLength(90 / camera.px_per_mm);
  context.strokeStyle = ink.faint;
  context.lineWidth = 1;
  context.beginPath();
  for (let k = Math.floor(camera.x_mm / (step / 5)); ; k++) {
    const x = (k * (step / 5) - camera.x_mm) * camera.px_per_mm;
    if (x > width) break;
    if (x < RULER_PX) continue;
    const long = k % 5 === 0;
    context.moveTo(Math.round(x) + 0.5, long ? 6 : 14);
    context.lineTo(Math.round(x) + 0.5, RULER_PX);
    if (long) paintLabel(context, trim(k * (step / 5), 2), x + 3, 9, ink.text, ratio);
  }
  for (let k = Math.floor(camera.y_mm / (step / 5)); ; k++) {
    const y = (k * (step / 5) - camera.y_mm) * camera.px_per_mm;
    if (y > height) break;
    if (y < RULER_PX) continue;
    const long = k % 5 === 0;
    context.moveTo(long ? 6 : 14, Math.round(y) + 0.5);
    context.lineTo(RULER_PX, Math.round(y) + 0.5);
    if (long) paintLabel(context, trim(k * (step / 5), 2), 9, y + 3, ink.text, ratio, true);
  }
  context.stroke();
  context.fillStyle = ink.ground;
  context.fillRect(0, 0, RULER_PX, RULER_PX);
  paintLabel(context, "mm", 2, RULER_PX / 2, ink.faint, ratio);
}
