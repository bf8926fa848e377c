/** The rotation handle of the chosen pieces. */
import { Circle } from "konva/lib/shapes/Circle";
import { Line } from "konva/lib/shapes/Line";
import type { Box } from "../geometry/polygon";
import type { Point } from "../geometry/pose";
import { toScreen, type Camera } from "./camera";
import type { Ink } from "./ink";

const AWAY_PX = 34;
const RADIUS_PX = 7;

export class Handle {
  private readonly knob = new Circle({ radius: RADIUS_PX, strokeWidth: 2, visible: false });
  private readonly stem = new Line({ strokeWidth: 1.5, visible: false });

  /** What is to be added to a layer. */
  get nodes(): readonly [Line, Circle] {
    return [this.stem, this.knob];
  }

  /** Where on the screen it is, if it is shown. */
  get at(): Point | null {
    return this.knob.visible() ? [this.knob.x(), this.knob.y()] : null;
  }

  hide(): void {
    this.knob.visible(false);
    this.stem.visible(false);
  }

  /**
   * Puts it above a box of the board, else below, else within: wherever no tool covers it.
   *
   * @param height of the window, px.
   * @param free the highest place, px, that the tools leave free.
   */
  show(box: Box, camera: Camera, height: number, free: number, ink: Ink): void {
    const [x, top] = toScreen(camera, (box.left + box.right) / 2, box.top);
    const [, bottom] = toScreen(camera, 0, box.bottom);
    const below = bottom + AWAY_PX <= height - 20 ? bottom + AWAY_PX : free;
    const y = top - AWAY_PX >= free ? top - AWAY_PX : below;
    this.knob.setAttrs({ x, y, fill: ink.ground, stroke: ink.accent, visible: true });
    const inside = y >= top && y <= bottom;
    this.stem.points(y < top ? [x, y + RADIUS_PX, x, top] : [x, y - RADIUS_PX, x, bottom]);
    this.stem.stroke(ink.accent);
    this.stem.visible(!inside);
  }
}
