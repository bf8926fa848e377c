/** A small picture of a piece. */
import { pictureUrl } from "../api/client";
import type { Piece } from "../api/types";

export function Thumb({ piece, level = 256 }: { piece: Piece; level?: number }) {
  const at = [...piece.levels].reverse().find((one) => one <= level);
  const source = at ? pictureUrl.level(piece.picture, at) : pictureUrl.full(piece.picture);
  return <img className="thumb" src={source} alt="" loading="lazy" draggable={false} />;
}
