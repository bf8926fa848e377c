/**
 * Where a piece lies: the same conventions as the Python package's pose.py.
 * Millimetres, x right, y down; a positive angle (degrees here) turns counter-clockwise as seen,
 * about the centre of the piece's picture.
 */
export type Point = readonly [x: number, y: number];

export interface Pose {
  x_mm: number;
  y_mm: number;
  rotation_deg: number;
}

const RAD = Math.PI / 180;

/** The same angle in (-180, 180]. */
export function wrapDeg(angle: number): number {
  const wrapped = angle - 360 * Math.round(angle / 360);
  return wrapped <= -180 ? wrapped + 360 : wrapped;
}

/** Turns (x, y) by `deg` counter-clockwise as seen. */
export function turn(deg: number, x: number, y: number): [number, number] {
  const c = Math.cos(deg * RAD);
  const s = Math.sin(deg * RAD);
  return [c * x + s * y, -s * x + c * y];
}

/** From the piece's own frame to the board. */
export function apply(pose: Pose, x: number, y: number): [number, number] {
  const [u, v] = turn(pose.rotation_deg, x, y);
  return [u + pose.x_mm, v + pose.y_mm];
}

/** From the board to the piece's own frame. */
export function unapply(pose: Pose, x: number, y: number): [number, number] {
  return turn(-pose.rotation_deg, x - pose.x_mm, y - pose.y_mm);
}

/** `inner` first, then `outer`. */
export function compose(outer: Pose, inner: Pose): Pose {
  const [x_mm, y_mm] = apply(outer, inner.x_mm, inner.y_mm);
  return { x_mm, y_mm, rotation_deg: wrapDeg(outer.rotation_deg + inner.rotation_deg) };
}

export function inverse(pose: Pose): Pose {
  const [x, y] = turn(-pose.rotation_deg, pose.x_mm, pose.y_mm);
  return { x_mm: -x, y_mm: -y, rotation_deg: wrapDeg(-pose.rotation_deg) };
}

/** The pose turned by `deg` about a point of the board. */
export function turnAbout(pose: Pose, [x, y]: Point, deg: number): Pose {
  const [u, v] = turn(deg, pose.x_mm - x, pose.y_mm - y);
  return { x_mm: x + u, y_mm: y + v, rotation_deg: wrapDeg(pose.rotation_deg + deg) };
}

/** The angle (degrees, counter-clockwise as seen) of a direction on the board. */
export function angleOf(dx: number, dy: number): number {
  return Math.atan2(-dy, dx) / RAD;
}
