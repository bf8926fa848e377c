/** All about the chosen pieces: what they are and where they lie. */
import type { RefObject } from "react";
import type { Board } from "../board/Board";
import { bench, pieceOf } from "../state/bench";
import { placementOf } from "../state/operations";
import { useStore } from "../state/store";
import { BoardSettings } from "./BoardSettings";
import { OnePiece } from "./OnePiece";
import { SeveralPieces } from "./SeveralPieces";

export function PiecePanel({ board }: { board: RefObject<Board | null> }) {
  const selection = useStore(bench, (now) => now.selection);
  const pieces = useStore(bench, (now) => now.pieces);
  const state = useStore(bench, (now) => now.state);
  const chosen = [...selection].filter((id) => pieces.some((piece) => piece.id === id));
  const [first] = chosen;
  if (!first) {
    return (
      <>
        <p className="faint">
          Nothing is chosen. Click a piece on the board or in the tray; hold Shift for several, draw
          a frame, or take the lasso.
        </p>
        <BoardSettings board={board} />
      </>
    );
  }
  if (chosen.length > 1) return <SeveralPieces ids={chosen} />;
  const piece = pieceOf(bench.get(), first);
  return piece ? (
    <OnePiece piece={piece} placement={placementOf(state, first)} board={board} />
  ) : null;
}
