/** Pointers on the board: pan, zoom, choose, drag, turn, lasso, measure, guides. */
import type { Id } from "../api/types";
import { angleOf, type Point, type Pose } from "../geometry/pose";
import { centreOfMass, movable, placeAt, sayIfLocked, turnedPoses } from "../state/actions";
import { bench, pieceOf, select, withGroups } from "../state/bench";
import { randomName } from "../state/identity";
import { edit } from "../state/queue";
import { view } from "../state/view";
import type { Board } from "./Board";
import { panned, toBoard, toScreen } from "./camera";
import { cameraStore } from "./camerastore";
import { RULER_PX } from "./marks";
import { pieceAt, piecesIn, piecesWithin } from "./pick";

interface Gesture {
  move(at: Point, event: PointerEvent): void;
  end(at: Point, event: PointerEvent): void;
  cancel(): void;
}

const NEAR_PX = 14;
const GUIDE_PX = 5;
const STARTS_PX = 3;
const NOTHING = () => undefined;

export function listenToPointers(board: Board, space: () => boolean): () => void {
  const element = board.container;
  let gesture: Gesture | null = null;
  const fingers = new Map<number, Point>();

  const at = (event: MouseEvent): Point => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  const down = (event: PointerEvent) => {
    element.focus({ preventScroll: true });
    fingers.set(event.pointerId, at(event));
    element.setPointerCapture(event.pointerId);
    if (fingers.size === 2) {
      gesture?.cancel();
      gesture = pinch(board, fingers);
      return;
    }
    gesture = begin(board, at(event), event, space());
    element.classList.toggle("grabbing", gesture !== null && view.get().tool !== "ruler");
  };
  const move = (event: PointerEvent) => {
    const point = at(event);
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, point);
    if (gesture) gesture.move(point, event);
    else hover(board, point);
    cameraStore.set({ pointer_mm: toBoard(board.camera, ...point) });
  };
  const up = (event: PointerEvent) => {
    fingers.delete(event.pointerId);
    gesture?.end(at(event), event);
    gesture = null;
    element.classList.remove("grabbing");
  };
  const stop = (event: PointerEvent) => {
    fingers.delete(event.pointerId);
    gesture?.cancel();
    gesture = null;
    element.classList.remove("grabbing");
  };
  const escape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !gesture) return;
    gesture.cancel();
    gesture = null;
    event.stopImmediatePropagation();
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) board.look(panned(board.camera, -(event.deltaX || event.deltaY) * unit, 0));
    else board.zoomBy(Math.exp((-event.deltaY * unit * (event.ctrlKey ? 3 : 1)) / 500), at(event));
  };
  const leave = () => {
    cameraStore.set({ pointer_mm: null });
    if (board.hovered) {
      board.hovered = null;
      board.remark();
    }
  };

  element.addEventListener("pointerdown", down);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", stop);
  element.addEventListener("pointerleave", leave);
  element.addEventListener("wheel", wheel, { passive: false });
  window.addEventListener("keydown", escape, true);
  return () => {
    element.removeEventListener("pointerdown", down);
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", up);
    element.removeEventListener("pointercancel", stop);
    element.removeEventListener("pointerleave", leave);
    element.removeEventListener("wheel", wheel);
    window.removeEventListener("keydown", escape, true);
  };
}

function begin(board: Board, at: Point, event: PointerEvent, space: boolean): Gesture | null {
  const { tool, rulers } = view.get();
  if (event.button === 1 || (event.button === 0 && (tool === "hand" || space))) return pan(board, at);
  if (event.button !== 0) return null;
  if (tool === "ruler") return measure(board, at);
  if (tool === "lasso") return lasso(board, at, event.shiftKey);
  if (rulers && (at[0] < RULER_PX || at[1] < RULER_PX)) {
    return dragGuide(board, randomName(), at[1] < RULER_PX ? "y" : "x");
  }
  const handle = board.handleAt;
  if (handle && distance(handle, at) < NEAR_PX) return rotate(board, at);
  const id = pieceAt(board, at);
  if (id) return choose(board, id, at, event.shiftKey || event.ctrlKey || event.metaKey);
  const guide = guideAt(board, at);
  if (guide) return dragGuide(board, guide.id, guide.axis);
  return frame(board, at, event.shiftKey);
}

function distance(a: Point, b: Point): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}

function hover(board: Board, at: Point): void {
  const { tool } = view.get();
  const overHandle = board.handleAt !== null && distance(board.handleAt, at) < NEAR_PX;
  const id = tool === "select" && !overHandle ? pieceAt(board, at) : null;
  const guide = tool === "select" && !id ? guideAt(board, at) : undefined;
  board.container.style.cursor = overHandle ? "grab" : id ? "move"
    : guide ? (guide.axis === "x" ? "col-resize" : "row-resize") : "";
  if (id !== board.hovered) {
    board.hovered = id;
    board.remark();
  }
}

function guideAt(board: Board, [x, y]: Point) {
  return bench.get().state.guides.find(({ axis, position_mm }) => {
    const [gx, gy] = toScreen(board.camera, position_mm, position_mm);
    return Math.abs(axis === "x" ? gx - x : gy - y) <= GUIDE_PX;
  });
}

function pan(board: Board, from: Point): Gesture {
  const start = board.camera;
  const move = (at: Point) => board.look(panned(start, at[0] - from[0], at[1] - from[1]));
  return { move, end: NOTHING, cancel: NOTHING };
}

function pinch(board: Board, fingers: ReadonlyMap<number, Point>): Gesture {
  const state = () => {
    const [a = [0, 0], b = [0, 0]] = [...fingers.values()];
    return { apart: Math.max(distance(a, b), 1), middle: [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2] as Point };
  };
  let before = state();
  return {
    move() {
      if (fingers.size < 2) return;
      const now = state();
      board.look(panned(board.camera, now.middle[0] - before.middle[0], now.middle[1] - before.middle[1]));
      board.zoomBy(now.apart / before.apart, now.middle);
      before = now;
    },
    end: NOTHING,
    cancel: NOTHING,
  };
}

/** A press on a piece: chooses it, and drags the choice once the pointer moves. */
function choose(board: Board, id: Id, from: Point, adding: boolean): Gesture {
  const now = bench.get();
  const together = withGroups(now, [id]);
  const already = now.selection.has(id);
  if (adding) {
    const chosen = new Set(now.selection);
    for (const one of together) already ? chosen.delete(one) : chosen.add(one);
    select(chosen);
  } else if (!already) select(together);
  let started: Map<Id, Pose> | null = null;
  return {
    move(at) {
      if (!started) {
        if (distance(at, from) < STARTS_PX) return;
        started = posesOf(board, movable());
        if (!started.size) sayIfLocked();
      }
      const { px_per_mm } = board.camera;
      for (const [piece, pose] of started) {
        board.live.set(piece, {
          ...pose,
          x_mm: pose.x_mm + (at[0] - from[0]) / px_per_mm,
          y_mm: pose.y_mm + (at[1] - from[1]) / px_per_mm,
        });
      }
      board.redraw();
    },
    end() {
      if (started?.size) commit(board);
      else if (!started && already && !adding) select(together);
    },
    cancel: () => drop(board),
  };
}

export function posesOf(board: Board, ids: readonly Id[]): Map<Id, Pose> {
  const wanted = new Set(ids);
  return new Map(
    board.items
      .filter((item) => wanted.has(item.piece.id))
      .map((item) => {
        const { x_mm, y_mm, rotation_deg } = board.poseOf(item);
        return [item.piece.id, { x_mm, y_mm, rotation_deg }];
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

function rotate(board: Board, from: Point): Gesture {
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
      board.redraw();
    },
    end: () => commit(board),
    cancel: () => drop(board),
  };
}

function frame(board: Board, from: Point, adding: boolean): Gesture {
  const before = adding ? bench.get().selection : new Set<Id>();
  if (!adding) select([]);
  const finish = () => board.showLoop(null);
  return {
    move(at) {
      board.showLoop([from, [at[0], from[1]], at, [from[0], at[1]]]);
      const [x1, y1] = toBoard(board.camera, ...from);
      const [x2, y2] = toBoard(board.camera, ...at);
      const taken = piecesIn(board, {
        left: Math.min(x1, x2), right: Math.max(x1, x2), top: Math.min(y1, y2), bottom: Math.max(y1, y2),
      });
      select([...before, ...withGroups(bench.get(), taken)]);
    },
    end: finish,
    cancel: finish,
  };
}

function lasso(board: Board, from: Point, adding: boolean): Gesture {
  const points: Point[] = [from];
  const finish = () => board.showLoop(null);
  return {
    move(at) {
      points.push(at);
      board.showLoop(points);
    },
    end() {
      const taken = piecesWithin(board, points.map((point) => toBoard(board.camera, ...point)));
      const before = adding ? bench.get().selection : [];
      select([...before, ...withGroups(bench.get(), taken)]);
      finish();
    },
    cancel: finish,
  };
}

function measure(board: Board, from: Point): Gesture {
  const start = toBoard(board.camera, ...from);
  board.measured = null;
  board.remark();
  return {
    move(at) {
      board.measured = [start, toBoard(board.camera, ...at)];
      board.remark();
    },
    end: NOTHING,
    cancel: () => {
      board.measured = null;
      board.remark();
    },
  };
}

/** Drags a guide; let go on the ruler it came from, it is gone. */
function dragGuide(board: Board, id: string, axis: "x" | "y"): Gesture {
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
