/** What a person can do to the chosen pieces; each is one step of the history. */
import type { Colour, Id, Op, Piece } from "../api/types";
import { placedBox } from "../geometry/polygon";
import { roomNear } from "../geometry/room";
import { apply, turnAbout, type Point, type Pose } from "../geometry/pose";
import { bench, pieceOf, placedIds, say, select, withGroups } from "./bench";
import { randomName } from "./identity";
import { placementOf } from "./operations";
import { edit } from "./queue";

/** Chosen pieces with their groups that are free to move; a group holds on to its locked piece. */
export function movable(): Id[] {
  const now = bench.get();
  const rows = [...withGroups(now, now.selection)].map((id) => ({
    id,
    ...placementOf(now.state, id),
  }));
  const held = new Set(rows.filter((row) => row.locked && row.group).map((row) => row.group));
  return rows
    .filter((row) => row.placed && !row.locked && !held.has(row.group))
    .map((row) => row.id);
}

/** Says why nothing moves, where the whole choice is locked. */
export function sayIfLocked(): void {
  const now = bench.get();
  const all = [...withGroups(now, now.selection)];
  const locked = all.filter((id) => placementOf(now.state, id).locked);
  if (locked.length) say("A locked piece does not move.", "Press L to unlock it.");
}

/** @param island where they lie from now on; left out, they stay in their own. */
export function placeAt(poses: ReadonlyMap<Id, Pose>, island?: number): void {
  const operations: Op[] = [];
  for (const [piece, pose] of poses) {
    const { x_mm, y_mm, rotation_deg } = pose;
    operations.push({
      op: "place",
      piece,
      x_mm,
      y_mm,
      rotation_deg,
      ...(island ? { island } : {}),
    });
  }
  edit(operations);
}

/** The island of the placed piece nearest to a point of the board. */
function islandNear([x, y]: Point): number {
  const now = bench.get();
  let nearest = { island: 1, distance: Infinity };
  for (const id of placedIds(now)) {
    const placement = placementOf(now.state, id);
    const piece = pieceOf(now, id);
    if (!piece) continue;
    const [cx, cy] = apply(placement, ...piece.centroid_mm);
    const distance = Math.hypot(cx - x, cy - y);
    if (distance < nearest.distance) nearest = { island: placement.island ?? 1, distance };
  }
  return nearest.island;
}

/**
 * Takes pieces out of the tray, on top of the others: the first with its centre at a point of the
 * board, unless it too is to be `clear` of what lies there, as the others are.
 */
export function takeOut(ids: readonly Id[], at: Point, clear = false): void {
  const now = bench.get();
  const top = highest() + 1;
  const island = islandNear(at);
  const operations: Op[] = [];
  const taken = placedIds(now).map((id) =>
    placedBox(pieceOf(now, id)?.outline_mm ?? [], placementOf(now.state, id)),
  );
  ids.forEach((id, k) => {
    const piece = pieceOf(now, id);
    if (!piece) return;
    const { rotation_deg } = placementOf(now.state, id);
    const turned = { x_mm: 0, y_mm: 0, rotation_deg };
    const box = placedBox(piece.outline_mm, turned);
    const [width, height] = [box.right - box.left, box.bottom - box.top];
    const [cx, cy] = apply(turned, ...piece.centroid_mm);
    // From the centre of the piece to the middle of its box.
    const [dx, dy] = [(box.left + box.right) / 2 - cx, (box.top + box.bottom) / 2 - cy];
    const wanted: Point = [at[0] + dx, at[1] + dy];
    const [x, y] = k === 0 && !clear ? wanted : roomNear(wanted, width, height, taken);
    const pose = { x_mm: x - dx - cx, y_mm: y - dy - cy, rotation_deg };
    operations.push({ op: "place", piece: id, ...pose, island });
    operations.push({ op: "order", piece: id, z: top + k });
    taken.push(placedBox(piece.outline_mm, pose));
  });
  edit(operations);
  select(ids);
}

export function backToTray(): void {
  const ids = movable();
  if (!ids.length) return sayIfLocked();
  edit(ids.map((piece) => ({ op: "unplace", piece })));
}

export function toggleLock(): void {
  const now = bench.get();
  const ids = [...withGroups(now, now.selection)].filter((id) => placementOf(now.state, id).placed);
  const locked = !ids.every((id) => placementOf(now.state, id).locked);
  edit(ids.map((piece) => ({ op: "lock", piece, locked })));
}

export function group(): void {
  const pieces = [...bench.get().selection].filter(
    (id) => placementOf(bench.get().state, id).placed,
  );
  if (pieces.length < 2)
    return say("A group needs two pieces or more.", "Hold Shift and click to choose more.");
  edit([{ op: "group", pieces, group: randomName() }]);
}

export function ungroup(): void {
  const now = bench.get();
  const pieces = [...withGroups(now, now.selection)].filter(
    (id) => placementOf(now.state, id).group,
  );
  if (pieces.length) edit([{ op: "group", pieces, group: null }]);
}

function highest(): number {
  const now = bench.get();
  return Math.max(0, ...placedIds(now).map((id) => placementOf(now.state, id).z));
}

function lowest(): number {
  const now = bench.get();
  return Math.min(0, ...placedIds(now).map((id) => placementOf(now.state, id).z));
}

export function bringToFront(): void {
  const top = highest();
  edit(chosen().map((piece, k) => ({ op: "order", piece, z: top + 1 + k })));
}

export function sendToBack(): void {
  const bottom = lowest();
  const ids = chosen();
  edit(ids.map((piece, k) => ({ op: "order", piece, z: bottom - ids.length + k })));
}

function chosen(): Id[] {
  const now = bench.get();
  return [...now.selection].filter((id) => placementOf(now.state, id).placed);
}

export function fade(opacity: number): void {
  edit(chosen().map((piece) => ({ op: "fade", piece, opacity })));
}

export function toIsland(island: number): void {
  const now = bench.get();
  const pieces = [...withGroups(now, now.selection)].filter(
    (id) => placementOf(now.state, id).placed,
  );
  if (pieces.length) edit([{ op: "island", pieces, island }]);
}

export function discard(ids: readonly Id[], discarded: boolean): void {
  edit(ids.map((piece) => ({ op: "discard", piece, discarded })));
  select([]);
}

/** Turns the choice about its common centre. */
export function turnedPoses(
  ids: readonly Id[],
  poses: ReadonlyMap<Id, Pose>,
  deg: number,
): Map<Id, Pose> {
  const now = bench.get();
  const pieces = ids.map((id) => pieceOf(now, id)).filter((piece): piece is Piece => !!piece);
  const pivot = centreOfMass(pieces, poses);
  return new Map(
    pieces.flatMap((piece) => {
      const pose = poses.get(piece.id);
      return pose ? [[piece.id, turnAbout(pose, pivot, deg)] as const] : [];
    }),
  );
}

/** The pieces' common centre on the board, by area. */
export function centreOfMass(pieces: readonly Piece[], poses: ReadonlyMap<Id, Pose>): Point {
  let [x, y, mass] = [0, 0, 0];
  for (const piece of pieces) {
    const pose = poses.get(piece.id);
    if (!pose) continue;
    const [cx, cy] = apply(pose, ...piece.centroid_mm);
    x += cx * piece.area_mm2;
    y += cy * piece.area_mm2;
    mass += piece.area_mm2;
  }
  return mass ? [x / mass, y / mass] : [0, 0];
}

/** Brings the mean colour of the chosen pieces to that of the first chosen. */
export function matchColours(): void {
  const now = bench.get();
  const [model, ...others] = chosen()
    .map((id) => pieceOf(now, id))
    .filter((p): p is Piece => !!p);
  if (!model || !others.length) {
    return say("Choose the piece to match first, then the others with Shift.");
  }
  const like = placementOf(now.state, model.id).gain ?? [1, 1, 1];
  edit(
    others.map((piece) => ({
      op: "tint",
      piece: piece.id,
      gain: model.colour.map((value, k) =>
        Math.min(4, Math.max(0.25, (value * (like[k] ?? 1)) / Math.max(piece.colour[k] ?? 1, 1))),
      ) as Colour,
    })),
  );
}

export function ownColours(): void {
  const now = bench.get();
  const ids = chosen().filter((id) => placementOf(now.state, id).gain);
  edit(ids.map((piece) => ({ op: "tint", piece, gain: null })));
}

export function selectAll(): void {
  select(placedIds(bench.get()));
}

/** Chooses the piece on the board after the last chosen, or before; `adding` keeps the others. */
export function selectNext(step: 1 | -1, adding: boolean): void {
  const now = bench.get();
  const ids = placedIds(now);
  const last = [...now.selection].at(-1);
  const at = last ? ids.indexOf(last) : step > 0 ? -1 : 0;
  const next = ids[(at + step + ids.length) % ids.length];
  if (next) select(adding ? [...now.selection, next] : [next]);
}

export function nameOf(id: Id): string {
  const piece = pieceOf(bench.get(), id);
  return piece ? piece.inventory || piece.name : "?";
}
