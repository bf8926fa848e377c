/** A running solve's attempt, as if its pieces lay there. */
import type { Id } from "../api/types";
import type { Pose } from "../geometry/pose";
import type { Bench } from "../state/bench";
import { itemsOf, type Item } from "./scene";

/** Poses that a running solve of the open hypothesis tries. */
export function previewOf({ previews, jobs, hypothesis }: Bench): ReadonlyMap<Id, Pose> | null {
  const job = Object.keys(previews).find((id) => jobs[id]?.hypothesis === hypothesis);
  const poses = job ? previews[job] : undefined;
  return poses ? new Map(Object.entries(poses)) : null;
}

export function withPreview(now: Bench, preview: ReadonlyMap<Id, Pose>): Item[] {
  const placements = { ...now.state.placements };
  for (const [id, pose] of preview) {
    const before = placements[id];
    placements[id] = {
      placed: true,
      locked: before?.locked ?? false,
      group: before?.group ?? null,
      z: before?.z ?? 0,
      opacity: 1,
      island: (pose as { island?: number }).island ?? 1,
      gain: before?.gain ?? null,
      confidence: null,
      x_mm: pose.x_mm,
      y_mm: pose.y_mm,
      rotation_deg: pose.rotation_deg,
    };
  }
  return itemsOf({ ...now, state: { ...now.state, placements } });
}
