/** A running solve's attempt, as if its pieces lay there. */
import type { Id, Placement } from "../api/types";
import { attemptOf, isAttemptShown } from "../state/attempt";
import type { Bench } from "../state/bench";
import { itemsOf, type Item } from "./scene";

/** How the attempt that is shown would have its pieces lie, those in the tray too. */
export function previewOf(now: Bench): ReadonlyMap<Id, Placement> | null {
  const job = isAttemptShown(now) ? attemptOf(now) : null;
  const placements = job ? now.previews[job] : undefined;
  return placements ? new Map(Object.entries(placements)) : null;
}

export function withPreview(now: Bench, preview: ReadonlyMap<Id, Placement>): Item[] {
  const placements = { ...now.state.placements, ...Object.fromEntries(preview) };
  return itemsOf({ ...now, state: { ...now.state, placements } });
}
