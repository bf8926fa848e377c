/** The board with its tools, what it shows, its scale, and words where it is empty. */
import { useEffect, useRef, type RefObject } from "react";
import { Board } from "../board/Board";
import { cameraStore } from "../board/camerastore";
import { listenToPointers } from "../board/pointers";
import { listenToKeys, nextSnap } from "../board/keys";
import { roundLength, sayLength } from "../geometry/scale";
import { Button, IconButton } from "../parts/Button";
import { FileButton } from "../parts/FileButtons";
import { attemptOf, isAttemptShown, showAttempt } from "../state/attempt";
import { bench, livePieces, placedIds } from "../state/bench";
import { useStore } from "../state/store";
import { view, type Tool } from "../state/view";

export function BoardView({
  board,
  onReady,
}: {
  board: RefObject<Board | null>;
  onReady: () => void;
}) {
  const container = useRef<HTMLDivElement>(null);
  const tool = useStore(view, (now) => now.tool);
  useEffect(() => {
    if (!container.current) return;
    const made = new Board(container.current);
    board.current = made;
    window.reassembly = { board: made };
    const keys = listenToKeys(made);
    const stopPointers = listenToPointers(made, keys.space);
    onReady();
    return () => {
      keys.stop();
      stopPointers();
      made.destroy();
      board.current = null;
    };
  }, []);
  return (
    <main className="board-area">
      <div
        ref={container}
        className={`board tool-${tool}`}
        tabIndex={0}
        role="application"
        aria-label="Board. Arrow keys move the chosen pieces, Q and E turn them, N chooses the next piece, question mark shows all keys."
        onContextMenu={(event) => event.preventDefault()}
      />
      <Tools />
      <Shows />
      <ScaleBar />
      <PreviewBanner />
      <ToolHint />
      <Empty />
      <ZoomButtons board={board} />
      <Announcer />
    </main>
  );
}

function Tools() {
  const tool = useStore(view, (now) => now.tool);
  const snap = useStore(view, (now) => now.snap_deg);
  return (
    <div className="tools floating" role="toolbar" aria-label="Tools" aria-orientation="vertical">
      <IconButton
        icon="select"
        label="Choose and move"
        keys="V"
        pressed={tool === "select"}
        onClick={() => view.set({ tool: "select" })}
      />
      <IconButton
        icon="hand"
        label="Pan"
        keys="H"
        pressed={tool === "hand"}
        onClick={() => view.set({ tool: "hand" })}
      />
      <IconButton
        icon="lasso"
        label="Lasso"
        keys="W"
        pressed={tool === "lasso"}
        onClick={() => view.set({ tool: "lasso" })}
      />
      <IconButton
        icon="ruler"
        label="Measure"
        keys="M"
        pressed={tool === "ruler"}
        onClick={() => view.set({ tool: "ruler" })}
      />
      <button
        type="button"
        className="button snap"
        aria-label={`Snap angles: ${snap ? `${snap} degrees` : "off"}`}
        aria-pressed={snap > 0}
        title="Snap angles: off, 15°, 45° (X)"
        onClick={nextSnap}
      >
        {snap ? `${snap}°` : "∠"}
      </button>
    </div>
  );
}

const SHOWN = [
  ["outlines", "Outlines"],
  ["overlaps", "Overlaps"],
  ["gaps", "Gaps"],
  ["keypoints", "Keypoints"],
  ["rulers", "Rulers"],
] as const;

function Shows() {
  const now = useStore(view, (value) => value);
  return (
    <div className="shows floating" role="toolbar" aria-label="Show">
      {SHOWN.map(([name, label]) => (
        <Button
          key={name}
          kind="quiet"
          pressed={now[name]}
          onClick={() => view.set({ [name]: !now[name] })}
        >
          {label}
        </Button>
      ))}
    </div>
  );
}

/** A bar of a round length; written straight into the page, since it changes with every frame. */
function ScaleBar() {
  const bar = useRef<HTMLDivElement>(null);
  const words = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const draw = () => {
      const { px_per_mm } = cameraStore.get().camera;
      const mm = roundLength(160 / px_per_mm);
      if (bar.current) bar.current.style.width = `${mm * px_per_mm}px`;
      if (words.current) words.current.textContent = sayLength(mm);
    };
    draw();
    return cameraStore.watch(draw);
  }, []);
  return (
    <div className="scale-bar" aria-label="Scale bar">
      <span ref={words} />
      <div ref={bar} />
    </div>
  );
}

function ZoomButtons({ board }: { board: RefObject<Board | null> }) {
  return (
    <div className="zoom floating" role="toolbar" aria-label="Zoom">
      <IconButton
        icon="minus"
        label="Zoom out"
        keys="−"
        onClick={() => board.current?.zoomBy(1 / 1.25)}
      />
      <IconButton icon="fit" label="Fit to view" keys="F" onClick={() => board.current?.fit()} />
      <IconButton
        icon="plus"
        label="Zoom in"
        keys="+"
        onClick={() => board.current?.zoomBy(1.25)}
      />
    </div>
  );
}

function PreviewBanner() {
  const trying = useStore(bench, (now) => attemptOf(now) !== null);
  const shown = useStore(bench, isAttemptShown);
  if (!trying) return null;
  return (
    <div className={`preview-banner floating${shown ? " attempt" : ""}`}>
      <span role="status">
        {shown ? "A solver’s attempt, not yet placed" : "Your own board, while a solver tries"}
      </span>
      <Button onClick={() => showAttempt(!shown)}>
        {shown ? "Show my board" : "Show the attempt"}
      </Button>
    </div>
  );
}

const HINTS: Partial<Record<Tool, string>> = {
  lasso:
    "Draw around pieces. Or move the cross with the arrow keys: Enter sets corners, on the first one it closes.",
  ruler: "Drag from end to end. Or move the cross with the arrow keys: Enter sets each end.",
};

/** How the tool in hand is used, by pointer and by keys. */
function ToolHint() {
  const tool = useStore(view, (now) => now.tool);
  const words = HINTS[tool];
  return words ? (
    <p className="tool-hint" role="status">
      {words}
    </p>
  ) : null;
}

function Empty() {
  const pieces = useStore(bench, (now) => livePieces(now).length);
  const placed = useStore(bench, (now) => placedIds(now).length);
  const trying = useStore(bench, isAttemptShown);
  if (placed || trying) return null;
  return (
    <div className="empty">
      {pieces ? (
        <>
          <h2>The board is empty</h2>
          <p>Drag pieces here from the tray, press Enter on one, or let a solver propose.</p>
          <Button kind="main" onClick={() => view.set({ tab: "solve", side: true })}>
            Solve…
          </Button>
        </>
      ) : (
        <>
          <h2>Bring in the pieces</h2>
          <p>
            Drop photographs here: cut-outs, single pieces on a plain ground, a tray with many, from
            a phone (HEIC too), a folder or a zip. You set the scale next.
          </p>
          <div className="row wrap centred">
            <FileButton kind="main">Choose files</FileButton>
            <FileButton folder>Choose a folder</FileButton>
          </div>
        </>
      )}
    </div>
  );
}

/** Says what is chosen to those who cannot see it. */
function Announcer() {
  const words = useStore(bench, (now) => {
    const names = [...now.selection].map(
      (id) => now.pieces.find((piece) => piece.id === id)?.name ?? "",
    );
    if (!names.length) return "";
    return names.length > 3 ? `${names.length} pieces chosen` : `${names.join(", ")} chosen`;
  });
  const announced = useStore(bench, (now) => now.announced);
  return (
    <>
      <p className="hidden" aria-live="polite">
        {words}
      </p>
      <p className="hidden" aria-live="polite">
        {announced}
      </p>
    </>
  );
}
