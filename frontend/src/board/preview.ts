/** A running solve's attempt, as if its pieces lay there. */
import type { Id, Placement } from "../api/types";
import type { Bench } from "../state/bench";
import { itemsOf, type Item } from "./scene";

/** How a running solve of the open hypothesis would have its pieces lie, those in the tray too. */
export function previewOf({
  previews,
  jobs,
  hypothesis,
}: Bench): ReadonlyMap<Id, Placement> | null {
  const job = Object.keys(previews).find((id) => jobs[id]?.hypothesis === hypothesis);
  const placements = job ? previews[job] : undefined;
  return placements ? new Map(Object.entries(placements)) : null;
}

export function withPreview(now: Bench, preview: ReadonlyMap<Id, Placement>): Item[] {
  const placements = { ...now.state.placements, ...Object.fromEntries(preview) };
  return itemsOf({ ...now, state: { ...now.state, placements } });
}
