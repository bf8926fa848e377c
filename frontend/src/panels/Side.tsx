/** The panels at the right, one at a time. */
import type { KeyboardEvent, RefObject } from "react";
import type { Board } from "../board/Board";
import { useStore } from "../state/store";
import { view, type Tab } from "../state/view";
import { HistoryPanel } from "./HistoryPanel";
import { JoinsPanel } from "./JoinsPanel";
import { PiecePanel } from "./PiecePanel";
import { SolvePanel } from "./SolvePanel";
import { VersionsPanel } from "./VersionsPanel";

const TABS: readonly (readonly [Tab, string])[] = [
  ["piece", "Piece"],
  ["joins", "Joins"],
  ["solve", "Solve"],
  ["versions", "Versions"],
  ["history", "History"],
];

export function Side({ board }: { board: RefObject<Board | null> }) {
  const tab = useStore(view, (now) => now.tab);
  const key = (event: KeyboardEvent<HTMLDivElement>) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.stopPropagation();
    const at = TABS.findIndex(([name]) => name === tab);
    const next = TABS[(at + step + TABS.length) % TABS.length];
    if (!next) return;
    view.set({ tab: next[0] });
    event.currentTarget.querySelectorAll("button")[TABS.indexOf(next)]?.focus();
  };
  return (
    <aside className="side" aria-label="Panels">
      <div className="tabs" role="tablist" onKeyDown={key}>
        {TABS.map(([name, label]) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={tab === name}
            aria-controls="panel"
            tabIndex={tab === name ? 0 : -1}
            onClick={() => view.set({ tab: name })}
          >
            {label}
          </button>
        ))}
      </div>
      <div className="panel" role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`}>
        {tab === "piece" && <PiecePanel board={board} />}
        {tab === "joins" && <JoinsPanel board={board} />}
        {tab === "solve" && <SolvePanel board={board} />}
        {tab === "versions" && <VersionsPanel />}
        {tab === "history" && <HistoryPanel />}
      </div>
    </aside>
  );
}
