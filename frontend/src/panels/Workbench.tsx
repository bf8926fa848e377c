/** One project on the bench: bar, tray, board, panels, status. */
import { useEffect, useRef, useState } from "react";
import type { Board } from "../board/Board";
import { bench, open } from "../state/bench";
import { useStore } from "../state/store";
import { view } from "../state/view";
import { BoardView } from "./BoardView";
import { Side } from "./Side";
import { StatusBar } from "./StatusBar";
import { TopBar } from "./TopBar";
import { Tray } from "./Tray";

/** A project that is left at once, as one made for files that were given up, has no tour. */
const TOUR_MS = 250;

export function Workbench() {
  const tray = useStore(view, (now) => now.tray);
  const side = useStore(view, (now) => now.side);
  const board = useRef<Board | null>(null);
  const [, ready] = useState(false);
  const busy = useStore(bench, (now) => now.dialog !== null);
  // As soon as nothing else asks for an answer, such as the first import.
  useEffect(() => {
    if (view.get().toured || busy) return;
    const soon = setTimeout(() => open({ kind: "tour" }), TOUR_MS);
    return () => clearTimeout(soon);
  }, [busy]);
  return (
    <div className={`workbench${tray ? "" : " no-tray"}${side ? "" : " no-side"}`}>
      <button
        type="button"
        className="skip-link button"
        onClick={() => board.current?.container.focus()}
      >
        Go to the board
      </button>
      <TopBar />
      {tray && <Tray board={board} />}
      <BoardView board={board} onReady={() => ready(true)} />
      {side && <Side board={board} />}
      <StatusBar board={board} />
    </div>
  );
}
