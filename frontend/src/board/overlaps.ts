/** Overlaps as paths on the board, made a few at a time so that no frame waits for all of them. */
import type { Fit } from "../api/types";
import { outlinePath } from "./painter";

type Overlap = Fit["overlaps"][number];

const AT_ONCE = 40;
const paths = new WeakMap<Overlap, Path2D>();

export function pathOf(overlap: Overlap): Path2D {
  const known = paths.get(overlap);
  if (known) return known;
  const made = outlinePath(overlap.rings_mm);
  paths.set(overlap, made);
  return made;
}

/** Makes the paths of all, and lets the page do other things in between. */
export async function preparePaths(overlaps: readonly Overlap[]): Promise<void> {
  for (let at = 0; at < overlaps.length; at += AT_ONCE) {
    overlaps.slice(at, at + AT_ONCE).forEach(pathOf);
    await new Promise((done) => setTimeout(done));
  }
}
