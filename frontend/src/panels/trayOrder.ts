/** Which pieces of the tray are shown, and in what order. */
import type { Piece } from "../api/types";
import { byName } from "../parts/words";

export type Order = "name" | "size" | "colour";

export function matches(piece: Piece, wanted: string): boolean {
  const words = [piece.name, piece.inventory, piece.note, piece.provenance].join(" ").toLowerCase();
  return wanted
    .toLowerCase()
    .split(/\s+/)
    .every((part) => words.includes(part));
}

export function sorted(pieces: Piece[], order: Order): Piece[] {
  return pieces.sort((a, b) => {
    if (order === "size") return b.area_mm2 - a.area_mm2;
    if (order === "colour") return hue(a) - hue(b);
    return byName(a.name, b.name);
  });
}

/** Greys first by lightness, then colours around the circle. */
function hue({ colour: [r, g, b] }: Piece): number {
  const [most, least] = [Math.max(r, g, b), Math.min(r, g, b)];
  const spread = most - least;
  if (spread < 14) return most / 256 - 1;
  if (most === r) return ((g - b) / spread + 6) % 6;
  return most === g ? (b - r) / spread + 2 : (r - g) / spread + 4;
}
