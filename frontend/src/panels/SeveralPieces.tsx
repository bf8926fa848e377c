/** Several chosen pieces: group, colours, merge. */
import type { Id } from "../api/types";
import { Button } from "../parts/Button";
import * as actions from "../state/actions";
import { bench } from "../state/bench";
import { placementOf } from "../state/operations";
import { mergeChosen } from "../state/repairs";
import { useStore } from "../state/store";
import { Arrange } from "./Arrange";

export function SeveralPieces({ ids }: { ids: readonly Id[] }) {
  const state = useStore(bench, (now) => now.state);
  const placed = ids.filter((id) => placementOf(state, id).placed);
  return (
    <div className="stack">
      <h2>{ids.length} pieces</h2>
      <p className="faint">{sayNames(ids)}</p>
      {placed.length > 0 && (
        <fieldset className="place">
          <legend>Place</legend>
          <div className="row wrap">
            <Button onClick={actions.group} hint="G">
              Group
            </Button>
            <Button
              onClick={actions.ungroup}
              hint="U"
              disabled={!placed.some((id) => placementOf(state, id).group)}
            >
              Ungroup
            </Button>
          </div>
          <Arrange ids={placed} />
        </fieldset>
      )}
      {placed.length > 1 && (
        <fieldset className="place">
          <legend>Colour</legend>
          <p className="faint">
            Brings the others to the colour of {actions.nameOf(placed[0] ?? "")}, chosen first. Only
            the view changes, not the pictures.
          </p>
          <div className="row wrap">
            <Button onClick={actions.matchColours}>Match colours</Button>
            <Button
              onClick={actions.ownColours}
              disabled={!placed.some((id) => placementOf(state, id).gain)}
            >
              Own colours
            </Button>
          </div>
        </fieldset>
      )}
      <div className="row wrap">
        {placed.length > 1 && (
          <Button onClick={() => mergeChosen()} hint="Makes one piece of them, as they lie now">
            Merge into one piece
          </Button>
        )}
        <Button kind="quiet" onClick={() => actions.discard(ids, true)}>
          Discard
        </Button>
      </div>
    </div>
  );
}

function sayNames(ids: readonly Id[]): string {
  const names = ids.slice(0, 6).map(actions.nameOf).join(", ");
  return ids.length > 6 ? `${names} and ${ids.length - 6} more` : names;
}
