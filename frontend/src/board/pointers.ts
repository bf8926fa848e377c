/** Listens to pointers on the board and begins the gesture that fits where they are. */
import type { Point } from "../geometry/pose";
import { bench, select } from "../state/bench";
import { randomName } from "../state/identity";
import { view } from "../state/view";
import type { Board } from "./Board";
import { panned, toBoard, toScreen } from "./camera";
import { cameraStore } from "./camerastore";
import * as gestures from "./gestures";
import { distance, type Gesture } from "./gestures";
import { undoes } from "./keys";
import { RULER_PX } from "./marks";
import { pieceAt } from "./pick";

/** How near to a handle is on it; a finger covers more than a mouse. */
const near_px = (event: PointerEvent) => (event.pointerType === "touch" ? 26 : 14);
const GUIDE_PX = 5;
/** A finger that rests as long as this on a piece adds it to the choice, as Shift does. */
const RESTS_MS = 450;

export function listenToPointers(board: Board, space: () => boolean): () => void {
  const element = board.container;
  let gesture: Gesture | null = null;
  /** The hypothesis in which it was begun. */
  let begunIn = bench.get().hypothesis;
  let resting = 0;
  const fingers = new Map<number, Point>();

  const at = (event: MouseEvent): Point => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  const down = (event: PointerEvent) => {
    element.focus({ preventScroll: true });
    board.pen.lift();
    fingers.set(event.pointerId, at(event));
    element.setPointerCapture(event.pointerId);
    clearTimeout(resting);
    if (fingers.size > 1) {
      gesture?.cancel();
      gesture = gestures.pinch(board, fingers);
      return;
    }
    const from = at(event);
    const before = bench.get().selection;
    begunIn = bench.get().hypothesis;
    gesture = begin(board, from, event, space());
    if (event.pointerType === "touch" && view.get().tool === "select") {
      resting = window.setTimeout(() => {
        const id = pieceAt(board, from);
        if (!id || board.live.size || fingers.size !== 1) return;
        select(before);
        gesture = gestures.choose(board, id, from, true);
      }, RESTS_MS);
    }
    element.classList.toggle("grabbing", gesture !== null && view.get().tool !== "ruler");
  };
  const giveUp = () => {
    gesture?.cancel();
    gesture = null;
  };
  /** What was begun in a hypothesis that is gone means nothing in another. */
  const giveUpElsewhere = () => bench.get().hypothesis === begunIn || giveUp();
  const move = (event: PointerEvent) => {
    const point = at(event);
    giveUpElsewhere();
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, point);
    if (gesture) gesture.move(point, event);
    else if (event.pointerType !== "touch") hover(board, point, event);
    cameraStore.set({ pointer_mm: toBoard(board.camera, ...point) });
  };
  const up = (event: PointerEvent) => {
    clearTimeout(resting);
    fingers.delete(event.pointerId);
    giveUpElsewhere();
    gesture?.end(at(event), event);
    gesture = null;
    element.classList.remove("grabbing");
  };
  const stop = (event: PointerEvent) => {
    clearTimeout(resting);
    fingers.delete(event.pointerId);
    giveUp();
    element.classList.remove("grabbing");
  };
  const escape = (event: KeyboardEvent) => {
    if (!gesture || (event.key !== "Escape" && !undoes(event))) return;
    giveUp();
    event.preventDefault();
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
  if (event.button === 1 || (event.button === 0 && (tool === "hand" || space)))
    return gestures.pan(board, at);
  if (event.button !== 0) return null;
  if (tool === "ruler") return gestures.measure(board, at);
  if (tool === "lasso") return gestures.lasso(board, at, event.shiftKey);
  if (rulers && (at[0] < RULER_PX || at[1] < RULER_PX)) {
    return gestures.dragGuide(board, randomName(), at[1] < RULER_PX ? "y" : "x");
  }
  const handle = board.handleAt;
  if (handle && distance(handle, at) < near_px(event)) return gestures.rotate(board, at);
  const id = pieceAt(board, at);
  if (id) return gestures.choose(board, id, at, event.shiftKey || event.ctrlKey || event.metaKey);
  const guide = guideAt(board, at);
  if (guide) return gestures.dragGuide(board, guide.id, guide.axis);
  if (event.pointerType === "touch") return gestures.panOrTap(board, at);
  return gestures.frame(board, at, event.shiftKey);
}

function hover(board: Board, at: Point, event: PointerEvent): void {
  const { tool } = view.get();
  const handle = board.handleAt;
  const overHandle = handle !== null && distance(handle, at) < near_px(event);
  const id = tool === "select" && !overHandle ? pieceAt(board, at) : null;
  const guide = tool === "select" && !id ? guideAt(board, at) : undefined;
  board.container.style.cursor = overHandle
    ? "grab"
    : id
      ? "move"
      : guide
        ? guide.axis === "x"
          ? "col-resize"
          : "row-resize"
        : "";
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
