/** The open hypothesis as the board draws it: pieces with their pictures, in order of height. */
import { pictureUrl } from "../api/client";
import type { Id, Piece, Placement } from "../api/types";
import { placedBox, type Box } from "../geometry/polygon";
import { apply, type Point, type Pose } from "../geometry/pose";
import { livePieces, type Bench } from "../state/bench";
import { placementOf } from "../state/operations";
import { outlinePath, type Drawable } from "./painter";
import { LEVELS, type Level } from "./sprites";

const drawables = new WeakMap<Piece, Drawable>();

/** How to draw a piece without colour matching; made once for each state of the piece. */
export function drawableOf(piece: Piece): Drawable {
  const known = drawables.get(piece);
  if (known) return known;
  const [ox, oy] = piece.origin_px;
  const made: Drawable = {
    id: piece.id,
    key: piece.picture,
    url: (level: Level) => urlOf(piece.picture, piece.levels, level),
    longest_px: Math.min(
      Math.max(piece.width_px, piece.height_px),
      LEVELS[LEVELS.length - 1] ?? 2048,
    ),
    left_mm: -ox * piece.mm_per_px,
    top_mm: -oy * piece.mm_per_px,
    width_mm: piece.width_px * piece.mm_per_px,
    height_mm: piece.height_px * piece.mm_per_px,
    outline: piece.outline_mm,
    path: outlinePath(piece.outline_mm),
    reach_mm: Math.max(...(piece.outline_mm[0] ?? [[0, 0]]).map(([x, y]) => Math.hypot(x, y))),
  };
  drawables.set(piece, made);
  return made;
}

export function urlOf(picture: string, levels: readonly number[], level: Level): string {
  return levels.includes(level) ? pictureUrl.level(picture, level) : pictureUrl.full(picture);
}

export interface Item {
  piece: Piece;
  drawable: Drawable;
  placement: Placement;
}

/** Every placed piece, lowest first. */
export function itemsOf(now: Bench): Item[] {
  return livePieces(now)
    .map((piece) => ({
      piece,
      drawable: drawableOf(piece),
      placement: placementOf(now.state, piece.id),
    }))
    .filter((item) => item.placement.placed)
    .sort((a, b) => a.placement.z - b.placement.z);
}

const boxes = new WeakMap<Piece, { rotation_deg: number; box: Box }>();

/** The box of a piece on the board; measured again only when the piece is turned. */
export function boxOfItem({ piece, placement }: Item, pose: Pose = placement): Box {
  const { x_mm, y_mm, rotation_deg } = pose;
  let known = boxes.get(piece);
  if (known?.rotation_deg !== rotation_deg) {
    const box = placedBox(piece.outline_mm, { x_mm: 0, y_mm: 0, rotation_deg });
    known = { rotation_deg, box };
    boxes.set(piece, known);
  }
  const { left, top, right, bottom } = known.box;
  return { left: left + x_mm, top: top + y_mm, right: right + x_mm, bottom: bottom + y_mm };
}

export function centreOf(item: Item, pose: Pose = item.placement): Point {
  return apply(pose, item.piece.centroid_mm[0], item.piece.centroid_mm[1]);
}

export function islandOf({ placement }: Item): number {
  return placement.island ?? 1;
}

const islandsByItems = new WeakMap<readonly Item[], ReadonlyMap<number, Item[]>>();

/** Islands with their pieces; remembered for each list. */
export function islandsOf(items: readonly Item[]): ReadonlyMap<number, Item[]> {
  const known = islandsByItems.get(items);
  if (known) return known;
  const islands = new Map<number, Item[]>();
  for (const item of items) {
    const island = islandOf(item);
    const others = islands.get(island);
    if (others) others.push(item);
    else islands.set(island, [item]);
  }
  islandsByItems.set(items, islands);
  return islands;
}

/** A, B, ... as people name objects on a table. */
export function islandName(island: number): string {
  return island <= 26 ? String.fromCharCode(64 + island) : String(island);
}

export type Poses = ReadonlyMap<Id, Pose>;
