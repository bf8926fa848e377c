/** Overlaps and gaps as the server measures them, asked for once the pieces lie still. */
import { api } from "../api/client";
import type { Fit, Id, Placement } from "../api/types";
import { bench } from "../state/bench";
import { createStore } from "../state/store";
import { preparePaths } from "./overlaps";
import type { Item } from "./scene";

interface FitState extends Fit {
  /** The placements that were measured; a piece that has moved since is out of date. */
  placements: Readonly<Record<string, Placement>>;
}

const NONE: FitState = { overlaps: [], gaps: [], placements: {} };
const STILL_MS = 200;

export const fit = createStore<FitState>(NONE);

let timer = 0;
let asked = "";

/** Asks again when a confirmed change has moved something. */
export function followFit(): () => void {
  return bench.watch(() => {
    const { project, hypothesis, state, unsaved } = bench.get();
    const key = project && hypothesis ? `${hypothesis}@${state.revision}` : "";
    if (key === asked || unsaved) return;
    asked = key;
    clearTimeout(timer);
    if (!project || !hypothesis) {
      fit.set(NONE);
      return;
    }
    timer = window.setTimeout(() => {
      void api.fit(project.id, hypothesis).then(
        async (found) => {
          await preparePaths(found.overlaps);
          if (asked === key) fit.set({ ...found, placements: state.placements });
        },
        () => undefined,
      );
    }, STILL_MS);
  });
}

let moved: { measured: object; items: readonly Item[]; ids: ReadonlySet<Id> } | null = null;

/** Pieces that lie elsewhere than when overlaps and gaps were measured. */
export function movedSinceFit(items: readonly Item[]): ReadonlySet<Id> {
  const measured = fit.get().placements;
  if (moved?.measured === measured && moved.items === items) return moved.ids;
  const ids = new Set<Id>();
  for (const { piece, placement } of items) {
    const then = measured[piece.id];
    if (
      !then?.placed ||
      then.x_mm !== placement.x_mm ||
      then.y_mm !== placement.y_mm ||
      then.rotation_deg !== placement.rotation_deg
    ) {
      ids.add(piece.id);
    }
  }
  moved = { measured, items, ids };
  return ids;
}
