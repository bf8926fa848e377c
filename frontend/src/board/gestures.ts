/** What a pointer does once it is down: pan, pinch, drag, turn, choose, measure, move a guide. */
import type { Id } from "../api/types";
import { angleOf, type Point, type Pose } from "../geometry/pose";
import { sayMeasured } from "../geometry/scale";
import { centreOfMass, movable, placeAt, sayIfLocked, turnedPoses } from "../state/actions";
import { refusedForAttempt } from "../state/attempt";
import { announce, bench, pieceOf, select, withGroups } from "../state/bench";
import { placementOf } from "../state/operations";
import { edit } from "../state/queue";
import { view } from "../state/view";
import type { Board } from "./Board";
import { panned, toBoard, toScreen } from "./camera";
import { RULER_PX } from "./marks";
import { piecesIn, piecesWithin } from "./pick";

export interface Gesture {
  move(at: Point, event: PointerEvent): void;
  end(at: Point, event: PointerEvent): void;
  cancel(): void;
}

const STARTS_PX = 3;
const NOTHING = () => undefined;

export function distance(a: Point, b: Point): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}

export function pan(board: Board, from: Point): Gesture {
  const start = board.camera;
  const move = (at: Point) => board.look(panned(start, at[0] - from[0], at[1] - from[1]));
  return { move, end: NOTHING, cancel: NOTHING };
}

/** A finger on empty ground: pans, and chooses nothing where it only taps. */
export function panOrTap(board: Board, from: Point): Gesture {
  const { move, cancel } = pan(board, from);
  let moved = false;
  return {
    move(at, event) {
      moved ||= distance(at, from) >= STARTS_PX;
      if (moved) move(at, event);
    },
    end: () => moved || select([]),
    cancel,
  };
}

export function pinch(board: Board, fingers: ReadonlyMap<number, Point>): Gesture {
  const state = () => {
    const [a = [0, 0], b = [0, 0]] = [...fingers.values()];
    return {
      apart: Math.max(distance(a, b), 1),
      middle: [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2] as Point,
    };
  };
  let before = state();
  return {
    move() {
      if (fingers.size < 2) return;
      const now = state();
      board.look(
        panned(board.camera, now.middle[0] - before.middle[0], now.middle[1] - before.middle[1]),
      );
      board.zoomBy(now.apart / before.apart, now.middle);
      before = now;
    },
    end: NOTHING,
    cancel: NOTHING,
  };
}

/** A press on a piece: chooses it, and drags the choice once the pointer moves. */
export function choose(board: Board, id: Id, from: Point, adding: boolean): Gesture {
  const now = bench.get();
  const together = withGroups(now, [id]);
  const already = now.selection.has(id);
  if (adding) {
    const chosen = new Set(now.selection);
    for (const one of together) already ? chosen.delete(one) : chosen.add(one);
    select(chosen);
  } else if (!already) select(together);
  board.expect(movable());
  let started: Map<Id, Pose> | null = null;
  return {
    move(at) {
      if (!started) {
        if (distance(at, from) < STARTS_PX) return;
        // What a pointer grabs in an attempt lies elsewhere, or nowhere.
        const refused = refusedForAttempt();
        started = refused ? new Map<Id, Pose>() : posesOf(board, movable());
        if (!refused && !started.size) sayIfLocked();
      }
      const { px_per_mm } = board.camera;
      for (const [piece, pose] of started) {
        board.live.set(piece, {
          ...pose,
          x_mm: pose.x_mm + (at[0] - from[0]) / px_per_mm,
          y_mm: pose.y_mm + (at[1] - from[1]) / px_per_mm,
        });
      }
      board.redrawLive();
    },
    end() {
      if (started?.size) commit(board);
      else if (!started && already && !adding) select(together);
    },
    cancel: () => drop(board),
  };
}

/** Where pieces truly lie, or are on the move; never where a solver's attempt has them. */
export function posesOf(board: Board, ids: readonly Id[]): Map<Id, Pose> {
  const now = bench.get();
  return new Map(
    ids
      .filter((id) => pieceOf(now, id)?.discarded === false)
      .map((id) => {
        const { x_mm, y_mm, rotation_deg } = board.live.get(id) ?? placementOf(now.state, id);
        return [id, { x_mm, y_mm, rotation_deg }];
      }),
  );
}

/** Makes what is on the move a step of the history. */
export function commit(board: Board): void {
  const poses = new Map(board.live);
  board.live.clear();
  if (poses.size) placeAt(poses);
  board.redraw();
}

function drop(board: Board): void {
  board.live.clear();
  board.redraw();
}

const SNAP_WITH_SHIFT = 15;

export function rotate(board: Board, from: Point): Gesture {
  const ids = movable();
  const poses = posesOf(board, ids);
  const pieces = ids.flatMap((id) => pieceOf(bench.get(), id) ?? []);
  const [px, py] = toScreen(board.camera, ...centreOfMass(pieces, poses));
  const first = angleOf(from[0] - px, from[1] - py);
  const single = poses.size === 1 ? [...poses.values()][0] : undefined;
  return {
    move(at, event) {
      let deg = angleOf(at[0] - px, at[1] - py) - first;
      const snap = event.shiftKey ? SNAP_WITH_SHIFT : view.get().snap_deg;
      if (snap) {
        const base = single?.rotation_deg ?? 0;
        deg = Math.round((base + deg) / snap) * snap - base;
      }
      for (const [id, pose] of turnedPoses(ids, poses, deg)) board.live.set(id, pose);
      board.redrawLive();
    },
    end: () => commit(board),
    cancel: () => drop(board),
  };
}

export function frame(board: Board, from: Point, adding: boolean): Gesture {
  const before = adding ? bench.get().selection : new Set<Id>();
  if (!adding) select([]);
  const finish = () => board.showLoop(null);
  return {
    move(at) {
      board.showLoop([from, [at[0], from[1]], at, [from[0], at[1]]]);
      const [x1, y1] = toBoard(board.camera, ...from);
      const [x2, y2] = toBoard(board.camera, ...at);
      const taken = piecesIn(board, {
        left: Math.min(x1, x2),
        right: Math.max(x1, x2),
        top: Math.min(y1, y2),
        bottom: Math.max(y1, y2),
      });
      select([...before, ...withGroups(bench.get(), taken)]);
    },
    end: finish,
    cancel: finish,
  };
}

export function lasso(board: Board, from: Point, adding: boolean): Gesture {
  const points: Point[] = [from];
  const finish = () => board.showLoop(null);
  return {
    move(at) {
      points.push(at);
      board.showLoop(points);
    },
    end() {
      const taken = piecesWithin(
        board,
        points.map((point) => toBoard(board.camera, ...point)),
      );
      const before = adding ? bench.get().selection : [];
      select([...before, ...withGroups(bench.get(), taken)]);
      finish();
    },
    cancel: finish,
  };
}

export function measure(board: Board, from: Point): Gesture {
  const start = toBoard(board.camera, ...from);
  board.measured = null;
  board.remark();
  return {
    move(at) {
      board.measured = [start, toBoard(board.camera, ...at)];
      board.remark();
    },
    end() {
      if (board.measured) announce(sayMeasured(board.measured));
    },
    cancel: () => {
      board.measured = null;
      board.remark();
    },
  };
}

/** Drags a guide; let go on the ruler it came from, it is gone. */
export function dragGuide(board: Board, id: string, axis: "x" | "y"): Gesture {
  const known = bench.get().state.guides.some((guide) => guide.id === id);
  const position = (at: Point) => {
    const [x, y] = toBoard(board.camera, ...at);
    return Math.round((axis === "x" ? x : y) * 100) / 100;
  };
  const away = (at: Point) => (axis === "x" ? at[0] : at[1]) < RULER_PX;
  const finish = () => {
    board.guide = null;
    board.remark();
  };
  return {
    move(at) {
      board.guide = { id, axis, position_mm: position(at) };
      board.remark();
    },
    end(at) {
      const moved = board.guide !== null;
      finish();
      if (moved && !away(at)) edit([{ op: "guide", id, axis, position_mm: position(at) }]);
      else if (moved && known) edit([{ op: "guide", id, axis: null, position_mm: null }]);
    },
    cancel: finish,
  };
}
