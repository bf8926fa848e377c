/** Which pieces a point, a frame or a lasso takes. */
import type { Id } from "../api/types";
import { contains, type Box } from "../geometry/polygon";
import { unapply, type Point } from "../geometry/pose";
import { toBoard } from "./camera";
import type { Board } from "./Board";
import { centreOf } from "./scene";

/** The highest piece under a point of the screen. */
export function pieceAt(board: Board, [x, y]: Point): Id | null {
  const [bx, by] = toBoard(board.camera, x, y);
  for (let k = board.items.length - 1; k >= 0; k--) {
    const item = board.items[k];
    if (!item) continue;
    const [px, py] = unapply(board.poseOf(item), bx, by);
    const reach = item.drawable.reach_mm;
    if (px * px + py * py <= reach * reach && contains(item.piece.outline_mm, px, py)) {
      return item.piece.id;
    }
  }
  return null;
}

/** Pieces whose box meets a frame on the board. */
export function piecesIn(board: Board, frame: Box): Id[] {
  return board.items
    .filter((item) => {
      const box = board.boxOf([item]);
      return (
        box.left <= frame.right &&
        frame.left <= box.right &&
        box.top <= frame.bottom &&
        frame.top <= box.bottom
      );
    })
    .map((item) => item.piece.id);
}

/** Pieces whose centre lies within a loop on the board. */
export function piecesWithin(board: Board, loop: readonly Point[]): Id[] {
  return board.items
    .filter((item) => contains([loop], ...centreOf(item, board.poseOf(item))))
    .map((item) => item.piece.id);
}
