/** Draws pieces, their outlines and overlaps on a canvas; the board and small pictures share it. */
import type { Outline } from "../geometry/polygon";
import type { Pose } from "../geometry/pose";
import { toScreen, type Camera } from "./camera";
import type { Gain, Level, Sprites } from "./sprites";

/** What is needed to draw one piece, whatever it belongs to. */
export interface Drawable {
  id: string;
  /** Content hash of its picture. */
  key: string;
  url: (level: Level) => string;
  /** Where its picture lies in its own frame, mm. */
  left_mm: number;
  top_mm: number;
  width_mm: number;
  height_mm: number;
  longest_px: number;
  outline: Outline;
  path: Path2D;
  /** Farthest point of the outline from the origin. */
  reach_mm: number;
}

const RAD = Math.PI / 180;

/** The path of an outline in the piece's own frame, mm. */
export function outlinePath(outline: Outline): Path2D {
  const path = new Path2D();
  for (const ring of outline) {
    ring.forEach(([x, y], k) => (k ? path.lineTo(x, y) : path.moveTo(x, y)));
    path.closePath();
  }
  return path;
}

/** Makes the context draw in the own frame (mm) of a piece placed by `pose`. */
export function enter(
  context: CanvasRenderingContext2D,
  camera: Camera,
  pose: Pose,
  ratio: number,
): void {
  const scale = camera.px_per_mm * ratio;
  const c = Math.cos(pose.rotation_deg * RAD) * scale;
  const s = Math.sin(pose.rotation_deg * RAD) * scale;
  const [x, y] = toScreen(camera, pose.x_mm, pose.y_mm);
  context.setTransform(c, -s, s, c, x * ratio, y * ratio);
}

export function paintPiece(
  context: CanvasRenderingContext2D,
  camera: Camera,
  piece: Drawable,
  pose: Pose,
  opacity: number,
  gain: Gain | null,
  ratio: number,
  sprites: Sprites,
  fetchMissing: boolean,
): void {
  const longest_mm = Math.max(piece.width_mm, piece.height_mm);
  const wanted = Math.min(longest_mm * camera.px_per_mm * ratio, piece.longest_px);
  const picture = sprites.get(piece.url, piece.key, wanted, gain, fetchMissing);
  enter(context, camera, pose, ratio);
  context.globalAlpha = opacity;
  if (picture) {
    context.drawImage(picture, piece.left_mm, piece.top_mm, piece.width_mm, piece.height_mm);
  } else {
    context.fillStyle = "#8886";
    context.fill(piece.path, "evenodd");
  }
}

export function strokePiece(
  context: CanvasRenderingContext2D,
  camera: Camera,
  piece: Drawable,
  pose: Pose,
  ratio: number,
  colour: string,
  width_px: number,
): void {
  enter(context, camera, pose, ratio);
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = width_px / camera.px_per_mm;
  context.lineJoin = "round";
  context.stroke(piece.path);
}

/** Fills what two pieces both cover with red and a hatching, so that no one needs the colour. */
export function paintOverlap(
  context: CanvasRenderingContext2D,
  camera: Camera,
  first: Drawable,
  firstPose: Pose,
  second: Drawable,
  secondPose: Pose,
  ratio: number,
  hatching: CanvasPattern,
): void {
  context.save();
  context.globalAlpha = 1;
  enter(context, camera, firstPose, ratio);
  context.clip(first.path, "evenodd");
  enter(context, camera, secondPose, ratio);
  context.clip(second.path, "evenodd");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = hatching;
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  context.restore();
}

export function makeHatching(
  context: CanvasRenderingContext2D,
  ratio: number,
): CanvasPattern | null {
  const side = Math.round(7 * ratio);
  const tile = document.createElement("canvas");
  tile.width = side;
  tile.height = side;
  const pen = tile.getContext("2d");
  if (!pen) return null;
  pen.fillStyle = "rgb(214 40 40 / 0.5)";
  pen.fillRect(0, 0, side, side);
  pen.strokeStyle = "rgb(255 255 255 / 0.85)";
  pen.lineWidth = 1.2 * ratio;
  for (const shift of [-side, 0, side]) {
    pen.beginPath();
    pen.moveTo(shift - 1, side + 1);
    pen.lineTo(shift + side + 1, -1);
    pen.stroke();
  }
  return context.createPattern(tile, "repeat");
}
