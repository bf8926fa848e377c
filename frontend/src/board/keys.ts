/** Every key of the workbench: one table for the keyboard and for the help sheet. */
import type { Id } from "../api/types";
import type { Pose } from "../geometry/pose";
import * as actions from "../state/actions";
import { refusedForAttempt } from "../state/attempt";
import { bench, open, select } from "../state/bench";
import { takeTyped } from "../parts/typed";
import { redo, undo } from "../state/queue";
import { view, type Snap, type Tab, type Tool } from "../state/view";
import type { Board } from "./Board";
import { panned } from "./camera";
import { commit, posesOf } from "./gestures";

export interface Shortcut {
  /** As a keyboard shows it. */
  keys: string;
  does: string;
  part: "Move" | "Choose" | "Arrange" | "Look" | "Work";
  hits: (event: KeyboardEvent) => boolean;
  run: (board: Board, event: KeyboardEvent) => void;
  /** Only with the board in focus, since other parts of the page use the key too. */
  onBoard?: boolean;
}

const STEP_MM = 1;
const FINE = 0.1;
const COARSE = 10;
const PAN_PX = 60;

const ARROWS: Record<string, readonly [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Keys that move or turn for as long as they are down, in lower case. */
const MOVES: ReadonlySet<string> = new Set(
  [...Object.keys(ARROWS), "q", "e"].map((name) => name.toLowerCase()),
);

const command = (event: KeyboardEvent) => event.ctrlKey || event.metaKey;
const letter = (key: string) => (event: KeyboardEvent) =>
  event.key.toLowerCase() === key && !command(event) && !event.altKey;
const withCommand =
  (key: string, shift = false) =>
  (event: KeyboardEvent) =>
    event.key.toLowerCase() === key && command(event) && event.shiftKey === shift;
const key =
  (...names: string[]) =>
  (event: KeyboardEvent) =>
    names.includes(event.key);

const toggle = (name: "outlines" | "overlaps" | "gaps" | "keypoints" | "rulers") => () =>
  view.set((now) => ({ [name]: !now[name] }));
const tool = (name: Tool) => (board: Board) => {
  board.pen.lift();
  view.set({ tool: name });
};
const TABS: Record<string, Tab> = {
  i: "piece",
  j: "joins",
  s: "solve",
  b: "versions",
  y: "history",
};

/** Opens a panel and goes there, so that the next Tab is its first control. */
function goToPanel(name: Tab): void {
  view.set({ tab: name, side: true });
  const tab = () => document.getElementById(`tab-${name}`);
  if (tab()) tab()?.focus();
  else setTimeout(() => tab()?.focus()); // The panels have been away until now.
}

export function nextSnap(): void {
  const next: Record<Snap, Snap> = { 0: 15, 15: 45, 45: 0 };
  view.set((now) => ({ snap_deg: next[now.snap_deg] }));
}

function nudge(board: Board, event: KeyboardEvent): void {
  const [dx, dy] = ARROWS[event.key] ?? [0, 0];
  if (board.pen.drawing) return board.pen.move([dx, dy], event);
  if (!bench.get().selection.size) {
    board.look(panned(board.camera, -dx * PAN_PX, -dy * PAN_PX));
    return;
  }
  const step = STEP_MM * (event.shiftKey ? FINE : command(event) ? COARSE : 1);
  keepMoving(
    board,
    (poses) =>
      new Map(
        [...poses].map(([id, pose]) => [
          id,
          { ...pose, x_mm: pose.x_mm + dx * step, y_mm: pose.y_mm + dy * step },
        ]),
      ),
  );
}

function turn(board: Board, event: KeyboardEvent): void {
  const sense = event.key.toLowerCase() === "q" ? 1 : -1;
  const snap = view.get().snap_deg;
  keepMoving(board, (poses) => {
    const ids = [...poses.keys()];
    const now = poses.size === 1 ? ([...poses.values()][0]?.rotation_deg ?? 0) : 0;
    const deg = snap
      ? (sense > 0 ? Math.floor(now / snap + 1e-6) + 1 : Math.ceil(now / snap - 1e-6) - 1) * snap -
        now
      : sense * (event.shiftKey ? FINE : 1);
    return actions.turnedPoses(ids, poses, deg);
  });
}

function keepMoving(board: Board, move: (poses: Map<Id, Pose>) => Map<Id, Pose>): void {
  if (bench.get().selection.size && refusedForAttempt()) return;
  const ids = actions.movable();
  if (!ids.length) return actions.sayIfLocked();
  for (const [id, pose] of move(posesOf(board, ids))) board.live.set(id, pose);
  board.redrawLive();
}

export const SHORTCUTS: readonly Shortcut[] = [
  {
    keys: "← ↑ → ↓",
    does: "Move the chosen pieces by 1 mm (Shift 0.1, Ctrl 10); with none chosen, the view",
    part: "Move",
    hits: key(...Object.keys(ARROWS)),
    run: nudge,
    onBoard: true,
  },
  {
    keys: "Q  E",
    does: "Turn counter-clockwise, clockwise by 1° (Shift 0.1°, or to the next snap)",
    part: "Move",
    hits: (e) => letter("q")(e) || letter("e")(e),
    run: turn,
  },
  {
    keys: "X",
    does: "Snap angles to 15°, 45°, not at all",
    part: "Move",
    hits: letter("x"),
    run: nextSnap,
  },
  {
    keys: "N  P",
    does: "Choose the next piece, the one before (Shift: one more)",
    part: "Choose",
    hits: (e) => letter("n")(e) || letter("p")(e),
    run: (_, e) => actions.selectNext(e.key.toLowerCase() === "n" ? 1 : -1, e.shiftKey),
  },
  {
    keys: "Ctrl A",
    does: "Choose every piece on the board",
    part: "Choose",
    hits: withCommand("a"),
    run: actions.selectAll,
  },
  {
    keys: "Esc",
    does: "Choose nothing; stop what is going on",
    part: "Choose",
    hits: key("Escape"),
    run: (board) => {
      select([]);
      board.pen.lift();
      board.measured = null;
      board.live.clear();
      board.redraw();
    },
  },
  {
    keys: "V",
    does: "Tool: choose and move",
    part: "Choose",
    hits: letter("v"),
    run: tool("select"),
  },
  {
    keys: "H",
    does: "Tool: pan (also Space or the middle button)",
    part: "Choose",
    hits: letter("h"),
    run: tool("hand"),
  },
  { keys: "W", does: "Tool: lasso", part: "Choose", hits: letter("w"), run: tool("lasso") },
  { keys: "M", does: "Tool: measure", part: "Choose", hits: letter("m"), run: tool("ruler") },
  {
    keys: "Enter",
    does: "With these two: a corner or an end where the cross is, which the arrow keys move",
    part: "Choose",
    hits: key("Enter"),
    run: (board, e) => board.pen.drawing && board.pen.mark(e.shiftKey),
    onBoard: true,
  },
  {
    keys: "L",
    does: "Lock or unlock",
    part: "Arrange",
    hits: letter("l"),
    run: actions.toggleLock,
  },
  {
    keys: "G  U",
    does: "Group, ungroup",
    part: "Arrange",
    hits: (e) => letter("g")(e) || letter("u")(e),
    run: (_, e) => (e.key.toLowerCase() === "g" ? actions.group() : actions.ungroup()),
  },
  {
    keys: "T  Del",
    does: "Back to the tray",
    part: "Arrange",
    hits: (e) => letter("t")(e) || key("Delete", "Backspace")(e),
    run: actions.backToTray,
  },
  {
    keys: "PgUp  PgDn",
    does: "Bring to the front, send to the back",
    part: "Arrange",
    hits: key("PageUp", "PageDown"),
    run: (_, e) => (e.key === "PageUp" ? actions.bringToFront() : actions.sendToBack()),
    onBoard: true,
  },
  {
    keys: "F",
    does: "Fit everything into view (Shift: the chosen pieces)",
    part: "Look",
    hits: letter("f"),
    run: (board, e) => board.fit(e.shiftKey ? bench.get().selection : null),
  },
  {
    keys: "+  −",
    does: "Zoom in, out (also the wheel)",
    part: "Look",
    hits: (e) => key("+", "=", "-")(e) && !command(e),
    run: (board, e) => board.zoomBy(e.key === "-" ? 1 / 1.25 : 1.25),
  },
  { keys: "O", does: "Show outlines", part: "Look", hits: letter("o"), run: toggle("outlines") },
  { keys: "R", does: "Show overlaps", part: "Look", hits: letter("r"), run: toggle("overlaps") },
  { keys: "C", does: "Show gaps in mm", part: "Look", hits: letter("c"), run: toggle("gaps") },
  { keys: "K", does: "Show keypoints", part: "Look", hits: letter("k"), run: toggle("keypoints") },
  {
    keys: "D",
    does: "Dark or light",
    part: "Look",
    hits: letter("d"),
    run: () => view.set((now) => ({ theme: now.theme === "dark" ? "light" : "dark" })),
  },
  {
    keys: "I  J  S  B  Y",
    does: "Go to a panel: piece, joins, solve, versions, history; A leads back to the board",
    part: "Work",
    hits: (e) => Object.keys(TABS).some((k) => letter(k)(e)),
    run: (_, e) => goToPanel(TABS[e.key.toLowerCase()] ?? "piece"),
  },
  {
    keys: "A",
    does: "Go to the board, from anywhere but a field (also the page’s first Tab stop)",
    part: "Work",
    hits: letter("a"),
    run: (board) => board.container.focus(),
  },
  { keys: "Ctrl Z", does: "Undo", part: "Work", hits: withCommand("z"), run: undo },
  {
    keys: "Ctrl Shift Z",
    does: "Redo (also Ctrl Y)",
    part: "Work",
    hits: (e) => withCommand("z", true)(e) || withCommand("y")(e),
    run: redo,
  },
  {
    keys: "?",
    does: "This sheet",
    part: "Work",
    hits: key("?"),
    run: () => open({ kind: "help" }),
  },
];

/** Where keys are text. */
const TYPED =
  "input:not([type=range], [type=radio], [type=checkbox], [type=color]), textarea, select, [contenteditable]";
/** A field that shows what the project has, with nothing typed into it. */
const KEPT = "[data-kept=true]";
const UNDOES = SHORTCUTS.filter(({ run }) => run === undo || run === redo);
/** Whether a key undoes or redoes. */
export const undoes = (event: KeyboardEvent) => UNDOES.some((shortcut) => shortcut.hits(event));
const SETS = /^(Arrow.*|Page.*|Home|End|Enter|Tab| )$/;

export function listenToKeys(board: Board): { stop: () => void; space: () => boolean } {
  let space = false;
  /** Whether keys that are still down have moved something. */
  let moving = false;
  const down = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (bench.get().dialog || target.closest("dialog")) return;
    // Where nothing is typed, the browser would undo what was typed into another field before.
    if (target.closest(TYPED) && !(undoes(event) && target.closest(KEPT))) return;
    // Keys by which a slider or a choice is set are its own.
    if (target.closest("input") && SETS.test(event.key)) return;
    const onBoard =
      target === document.body || board.container.contains(target) || target === board.container;
    if (event.key === " " && onBoard) {
      space = true;
      board.container.classList.add("panning");
      event.preventDefault();
      return;
    }
    const found = SHORTCUTS.find(
      (shortcut) => shortcut.hits(event) && (!shortcut.onBoard || onBoard),
    );
    if (!found) return;
    event.preventDefault();
    // What a slider is held at is the last step.
    if (UNDOES.includes(found)) takeTyped();
    found.run(board, event);
    if (MOVES.has(event.key.toLowerCase())) moving = board.live.size > 0;
  };
  const up = (event: KeyboardEvent) => {
    if (event.key === " ") {
      space = false;
      board.container.classList.remove("panning");
    }
    if (board.live.size && MOVES.has(event.key.toLowerCase())) commit(board);
    moving = false;
  };
  const blur = () => {
    space = false;
    board.container.classList.remove("panning");
    // Keys that come up elsewhere are not heard of.
    if (moving && board.live.size) commit(board);
    moving = false;
  };
  const leave = () => {
    if (board.live.size) commit(board);
  };
  window.addEventListener("keydown", down);
  window.addEventListener("keyup", up);
  window.addEventListener("blur", blur);
  window.addEventListener("pagehide", leave);
  return {
    space: () => space,
    stop() {
      window.removeEventListener("keydown", down);
      window.removeEventListener("keyup", up);
      window.removeEventListener("blur", blur);
      window.removeEventListener("pagehide", leave);
    },
  };
}
