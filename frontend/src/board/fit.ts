/** Overlaps and gaps as the server measures them, asked for once the pieces lie still. */
import { api } from "../api/client";
import type { Fit, Placement } from "../api/types";
import { bench } from "../state/bench";
import { createStore } from "../state/store";

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
        (found) => asked === key && fit.set({ ...found, placements: state.placements }),
        () => undefined,
      );
    }, STILL_MS);
  });
}
