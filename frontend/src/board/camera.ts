/** Which part of the board the window shows. Screen in CSS pixels, board in mm. */
import { isEmpty, type Box } from "../geometry/polygon";
import type { Point } from "../geometry/pose";

export interface Camera {
  /** Board point at the window's top-left corner. */
  x_mm: number;
  y_mm: number;
  px_per_mm: number;
}

const LEAST = 0.02;
const MOST = 200;

export function toScreen(camera: Camera, x: number, y: number): [number, number] {
  return [(x - camera.x_mm) * camera.px_per_mm, (y - camera.y_mm) * camera.px_per_mm];
}

export function toBoard(camera: Camera, x: number, y: number): [number, number] {
  return [x / camera.px_per_mm + camera.x_mm, y / camera.px_per_mm + camera.y_mm];
}

export function panned(camera: Camera, dx_px: number, dy_px: number): Camera {
  return {
    ...camera,
    x_mm: camera.x_mm - dx_px / camera.px_per_mm,
    y_mm: camera.y_mm - dy_px / camera.px_per_mm,
  };
}

/** Zoomed by `factor`, so that the board point under (x, y) of the screen stays there. */
export function zoomed(camera: Camera, factor: number, [x, y]: Point): Camera {
  const px_per_mm = Math.min(MOST, Math.max(LEAST, camera.px_per_mm * factor));
  const [bx, by] = toBoard(camera, x, y);
  return { px_per_mm, x_mm: bx - x / px_per_mm, y_mm: by - y / px_per_mm };
}

/** The camera that shows all of `box` within margins (px); a sheet of A4 where there is nothing. */
export function fitting(box: Box, width: number, height: number, margins: Box): Camera {
  const shown = isEmpty(box) ? { left: -150, top: -105, right: 150, bottom: 105 } : box;
  const w = Math.max(shown.right - shown.left, 1);
  const h = Math.max(shown.bottom - shown.top, 1);
  const scale = Math.min(
    Math.max(width - margins.left - margins.right, 20) / w,
    Math.max(height - margins.top - margins.bottom, 20) / h,
  );
  const px_per_mm = Math.min(MOST, Math.max(LEAST, scale));
  return {
    px_per_mm,
    x_mm: (shown.left + shown.right) / 2 - (width + margins.left - margins.right) / 2 / px_per_mm,
    y_mm: (shown.top + shown.bottom) / 2 - (height + margins.top - margins.bottom) / 2 / px_per_mm,
  };
}

export function visibleBox(camera: Camera, width: number, height: number): Box {
  return {
    left: camera.x_mm,
    top: camera.y_mm,
    right: camera.x_mm + width / camera.px_per_mm,
    bottom: camera.y_mm + height / camera.px_per_mm,
  };
}
