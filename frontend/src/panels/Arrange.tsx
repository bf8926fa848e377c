/** What one piece and several have in common: lock, height, opacity, island. */
import type { Id } from "../api/types";
import { islandName } from "../board/scene";
import { Button } from "../parts/Button";
import { Slider } from "../parts/Slider";
import * as actions from "../state/actions";
import { bench } from "../state/bench";
import { placementOf } from "../state/operations";
import { useStore } from "../state/store";

export function Arrange({ ids }: { ids: readonly Id[] }) {
  const state = useStore(bench, (now) => now.state);
  const placements = ids.map((id) => placementOf(state, id));
  const locked = placements.every((placement) => placement.locked);
  const [first] = placements;
  const islands = new Set(
    Object.values(state.placements)
      .filter((p) => p.placed)
      .map((p) => p.island ?? 1),
  );
  const fresh = Math.max(0, ...islands) + 1;
  if (!first) return null;
  return (
    <>
      <div className="arrange">
        <Button
          icon={locked ? "unlock" : "lock"}
          pressed={locked}
          onClick={actions.toggleLock}
          hint="L"
        >
          {locked ? "Unlock" : "Lock"}
        </Button>
        <Button onClick={actions.bringToFront} hint="Page up">
          To front
        </Button>
        <Button onClick={actions.sendToBack} hint="Page down">
          To back
        </Button>
        <Button onClick={actions.backToTray} hint="T" disabled={locked}>
          To tray
        </Button>
      </div>
      <Slider label="Opacity" value={first.opacity} least={0.1} onTake={actions.fade} />
      <label className="text-field">
        <span>Island</span>
        <select
          value={first.island ?? 1}
          onChange={(event) => actions.toIsland(Number(event.target.value))}
        >
          {[...islands]
            .sort((a, b) => a - b)
            .map((island) => (
              <option key={island} value={island}>
                {islandName(island)}
              </option>
            ))}
          <option value={fresh}>{islandName(fresh)} (new)</option>
        </select>
      </label>
    </>
  );
}
