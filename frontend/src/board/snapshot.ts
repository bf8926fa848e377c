/**
 * The last full picture of the board, moved and scaled along while the view is moving, so that a
 * frame costs one copy and what comes in at the edges.
 */
import { toScreen, type Camera } from "./camera";
import type { Canvas } from "./content";
import type { Box } from "../geometry/polygon";

/** How far a picture may be scaled before it is drawn anew. */
const MOST_SCALED = 2.2;
/** A smaller part of the window than this is not worth copying. */
const LEAST_COVERED = 0.3;

export class Snapshot {
  private readonly copy = document.createElement("canvas");
  private camera: Camera | null = null;

  take(source: HTMLCanvasElement, camera: Camera): void {
    this.copy.width = source.width;
    this.copy.height = source.height;
    this.copy.getContext("2d")?.drawImage(source, 0, 0);
    this.camera = camera;
  }

  forget(): void {
    this.camera = null;
  }

  get taken(): boolean {
    return this.camera !== null;
  }

  /** Paints the picture where it belongs now. Returns the box of the screen it covers (px). */
  paint({ context, camera, width, height, ratio }: Canvas): Box | null {
    if (
      !this.camera ||
      this.copy.width !== context.canvas.width ||
      this.copy.height !== context.canvas.height
    )
      return null;
    const factor = camera.px_per_mm / this.camera.px_per_mm;
    if (factor > MOST_SCALED || factor < 1 / MOST_SCALED) return null;
    let [x, y] = toScreen(camera, this.camera.x_mm, this.camera.y_mm);
    if (factor === 1) [x, y] = [Math.round(x * ratio) / ratio, Math.round(y * ratio) / ratio];
    const box = { left: x, top: y, right: x + width * factor, bottom: y + height * factor };
    const shown =
      Math.max(0, Math.min(box.right, width) - Math.max(box.left, 0)) *
      Math.max(0, Math.min(box.bottom, height) - Math.max(box.top, 0));
    if (shown < LEAST_COVERED * width * height) return null;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.globalAlpha = 1;
    context.clearRect(0, 0, context.canvas.width, context.canvas.height);
    context.drawImage(
      this.copy,
      x * ratio,
      y * ratio,
      width * factor * ratio,
      height * factor * ratio,
    );
    return box;
  }
}
