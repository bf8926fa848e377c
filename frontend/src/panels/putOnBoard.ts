import type { Id } from "../api/types";
import type { Board } from "../board/Board";
import { takeOut } from "../state/actions";

/** Lays pieces of the tray into free space, as near to the middle of the view as there is room. */
export function putOnBoard(board: Board | null, ids: readonly Id[]): void {
  if (!board) return;
  takeOut(ids, board.middle, true);
  board.reveal(ids);
}
