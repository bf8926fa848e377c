/** The line at the bottom: what is saved, how many pieces lie, where the pointer is. */
import { useEffect, useRef, type RefObject } from "react";
import { api } from "../api/client";
import type { Job } from "../api/types";
import type { Board } from "../board/Board";
import { cameraStore } from "../board/camerastore";
import { trim } from "../geometry/scale";
import { Button, IconButton } from "../parts/Button";
import { bench, livePieces, placedIds } from "../state/bench";
import { useStore } from "../state/store";
import { isOver, tell } from "../state/sync";
import { view } from "../state/view";

/** CSS pixels in a millimetre: 100 % is life size on a screen that keeps to the rule. */
const LIFE_SIZE = 96 / 25.4;

export function StatusBar({ board }: { board: RefObject<Board | null> }) {
  const placed = useStore(bench, (now) => placedIds(now).length);
  const all = useStore(bench, (now) => livePieces(now).length);
  const chosen = useStore(bench, (now) => now.selection.size);
  const tray = useStore(view, (now) => now.tray);
  const side = useStore(view, (now) => now.side);
  return (
    <footer className="status-bar">
      <Button kind="quiet" pressed={tray} onClick={() => view.set({ tray: !tray })}>
        Tray
      </Button>
      <Saved />
      <span>
        {placed} of {all} placed{chosen > 0 && ` · ${chosen} chosen`}
      </span>
      <Running />
      <span className="spacer" />
      <Pointer />
      <button
        type="button"
        className="link"
        title="Life size"
        onClick={() => {
          const shown = board.current;
          if (shown) shown.zoomBy(LIFE_SIZE / shown.camera.px_per_mm);
        }}
      >
        <Zoom />
      </button>
      <Button kind="quiet" pressed={side} onClick={() => view.set({ side: !side })}>
        Panel
      </Button>
    </footer>
  );
}

const DOING: Partial<Record<Job["kind"], string>> = {
  import: "Bringing in",
  solve: "Solving",
  joins: "Looking for joins",
  repair: "Repairing",
  export: "Exporting",
};

/** What goes on in the background, wherever it was started. */
function Running() {
  const jobs = useStore(bench, (now) => now.jobs);
  return Object.values(jobs)
    .filter((job) => !isOver(job) && DOING[job.kind])
    .map((job) => (
      <span key={job.id} className="running" title={job.stage}>
        {DOING[job.kind]} {Math.round(job.fraction * 100)} %
        <IconButton
          icon="close"
          label={`Cancel: ${DOING[job.kind]}`}
          onClick={() => tell(() => api.cancel(job.id))}
        />
      </span>
    ));
}

function Saved() {
  const unsaved = useStore(bench, (now) => now.unsaved + now.unsaved_elsewhere);
  const typing = useStore(bench, (now) => now.typing);
  const connected = useStore(bench, (now) => now.connected);
  const writable = useStore(bench, (now) => now.writable);
  const barred = useStore(bench, (now) => now.barred);
  if (!connected || !writable) {
    const [why, until] = barred
      ? ["The server asks for its new token: open the address that it has printed.", "then"]
      : connected
        ? ["The workspace cannot be written: make room on its disk.", "then"]
        : ["The server is away.", "it is back"];
    return (
      <span className="saved lost" role="status">
        {why}
        {unsaved > 0 && ` ${unsaved} change${unsaved > 1 ? "s" : ""} kept here until ${until}.`}
      </span>
    );
  }
  return (
    <span className="saved" role="status">
      {unsaved ? "Saving…" : typing ? "Typing…" : "Saved"}
    </span>
  );
}

function useWritten(write: () => string) {
  const element = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const draw = () => {
      const words = write();
      if (element.current && element.current.textContent !== words)
        element.current.textContent = words;
    };
    draw();
    return cameraStore.watch(draw);
  }, []);
  return element;
}

function Pointer() {
  const element = useWritten(() => {
    const at = cameraStore.get().pointer_mm;
    return at ? `${trim(at[0], 1)}, ${trim(at[1], 1)} mm` : "";
  });
  return <span ref={element} className="figures" />;
}

function Zoom() {
  const element = useWritten(
    () => `${Math.round((cameraStore.get().camera.px_per_mm / LIFE_SIZE) * 100)} %`,
  );
  return <span ref={element} className="figures" />;
}
