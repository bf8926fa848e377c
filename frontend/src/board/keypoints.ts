/** Keypoints of pieces, asked for once somebody wants to see them. */
import { api } from "../api/client";
import type { Id } from "../api/types";
import type { Point } from "../geometry/pose";
import { bench, placedIds } from "../state/bench";

export class Keypoints {
  readonly known = new Map<Id, readonly Point[]>();

  constructor(private readonly changed: () => void) {}

  /** Asks for those of every placed piece that is not known yet. */
  fetch(): void {
    const { project } = bench.get();
    for (const id of project ? placedIds(bench.get()) : []) {
      if (!project || this.known.has(id)) continue;
      this.known.set(id, []);
      void api.keypoints(project.id, id).then(
        ({ keypoints_mm }) => {
          this.known.set(id, keypoints_mm);
          this.changed();
        },
        () => this.known.delete(id),
      );
    }
  }
}
