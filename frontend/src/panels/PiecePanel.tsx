/** All about the chosen pieces: what they are and where they lie. */
import type { RefObject } from "react";
import type { Id, Piece, Placement } from "../api/types";
import type { Board } from "../board/Board";
import { islandName } from "../board/scene";
import { trim } from "../geometry/scale";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { NumberField } from "../parts/NumberField";
import { Slider } from "../parts/Slider";
import { TextField } from "../parts/TextField";
import { Thumb } from "../parts/Thumb";
import * as actions from "../state/actions";
import { bench, open, pieceOf } from "../state/bench";
import { placementOf } from "../state/operations";
import { edit } from "../state/queue";
import { useStore } from "../state/store";
import { mergeChosen } from "../state/repairs";
import { BoardSettings } from "./BoardSettings";

export function PiecePanel({ board }: { board: RefObject<Board | null> }) {
  const selection = useStore(bench, (now) => now.selection);
  const pieces = useStore(bench, (now) => now.pieces);
  const state = useStore(bench, (now) => now.state);
  const chosen = [...selection].filter((id) => pieces.some((piece) => piece.id === id));
  const [first] = chosen;
  if (!first) {
    return (
      <>
        <p className="faint">
          Nothing is chosen. Click a piece on the board or in the tray; hold Shift for several, draw
          a frame, or take the lasso.
        </p>
        <BoardSettings board={board} />
      </>
    );
  }
  if (chosen.length > 1) return <Several ids={chosen} />;
  const piece = pieceOf(bench.get(), first);
  return piece ? <One piece={piece} placement={placementOf(state, first)} board={board} /> : null;
}

function One({ piece, placement, board }: { piece: Piece; placement: Placement; board: RefObject<Board | null> }) {
  const describe = (part: { name?: string; inventory?: string; note?: string; provenance?: string }) =>
    edit([{ op: "describe", piece: piece.id, ...part }]);
  return (
    <div className="stack">
      <div className="piece-head">
        <Thumb piece={piece} level={512} />
        <div>
          <h2>{piece.name}</h2>
          <p className="faint">
            {trim(piece.area_mm2 / 100, 1)} cm² · {piece.width_px} × {piece.height_px} px
          </p>
          {placement.placed && placement.confidence !== null && <Confidence value={placement.confidence} />}
        </div>
      </div>
      {piece.warnings.map((warning) => <p key={warning} className="caution"><Icon name="warning" />{warning}</p>)}
      {placement.placed ? <Place piece={piece} placement={placement} /> : (
        <Button onClick={() => {
          const shown = board.current;
          if (shown) actions.takeOut([piece.id], [shown.camera.x_mm + shown.width / 2 / shown.camera.px_per_mm, shown.camera.y_mm + shown.height / 2 / shown.camera.px_per_mm]);
        }}>Put on the board</Button>
      )}
      <TextField label="Name" value={piece.name} onTake={(name) => name.trim() && describe({ name })} />
      <TextField label="Inventory number" value={piece.inventory} onTake={(inventory) => describe({ inventory })} />
      <TextField label="Provenance" value={piece.provenance} onTake={(provenance) => describe({ provenance })} />
      <TextField label="Note" lines={3} value={piece.note} onTake={(note) => describe({ note })} />
      <NumberField label="Scale" value={piece.mm_per_px} unit="mm/px" digits={5} onTake={(mm_per_px) => mm_per_px > 0 && edit([{ op: "scale", piece: piece.id, mm_per_px }])} />
      <p className={piece.scale_origin === "assumed" ? "caution" : "faint"}>{SCALE[piece.scale_origin] ?? ""}</p>
      <div className="row wrap">
        <Button onClick={() => open({ kind: "cutout", piece: piece.id })}>Repair the cut-out</Button>
        <Button kind="quiet" onClick={() => actions.discard([piece.id], true)} disabled={placement.locked}>Discard</Button>
      </div>
    </div>
  );
}

const SCALE: Record<string, string> = {
  option: "The scale was given when it was brought in.",
  ruler: "The scale comes from a ruler in the photograph.",
  dpi: "The scale comes from the file’s resolution.",
  sidecar: "The scale comes from a file beside the picture.",
  "data.json": "The scale comes with the data set.",
  repair: "The scale is that of the RePAIR data set.",
  assumed: "No scale was known; this one is assumed. Lengths in mm are not to be trusted.",
  edited: "The scale was set by hand.",
};

export function Confidence({ value }: { value: number }) {
  return (
    <p className="confidence" title="How likely the solver holds this place to be right">
      <meter min={0} max={1} value={value} aria-label="Confidence" /> {Math.round(value * 100)} %
    </p>
  );
}

function Place({ piece, placement }: { piece: Piece; placement: Placement }) {
  const put = (part: Partial<Placement>) => actions.placeAt(new Map([[piece.id, { ...placement, ...part }]]));
  return (
    <fieldset className="place">
      <legend>Place</legend>
      <div className="three">
        <NumberField label="x" value={placement.x_mm} unit="mm" disabled={placement.locked} onTake={(x_mm) => put({ x_mm })} />
        <NumberField label="y" value={placement.y_mm} unit="mm" disabled={placement.locked} onTake={(y_mm) => put({ y_mm })} />
        <NumberField label="Angle" value={placement.rotation_deg} unit="°" disabled={placement.locked} onTake={(rotation_deg) => put({ rotation_deg })} />
      </div>
      <Common ids={[piece.id]} />
    </fieldset>
  );
}

function Several({ ids }: { ids: readonly Id[] }) {
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
            <Button onClick={actions.group} hint="G">Group</Button>
            <Button onClick={actions.ungroup} hint="U" disabled={!placed.some((id) => placementOf(state, id).group)}>Ungroup</Button>
          </div>
          <Common ids={placed} />
        </fieldset>
      )}
      {placed.length > 1 && (
        <fieldset className="place">
          <legend>Colour</legend>
          <p className="faint">Brings the others to the colour of {actions.nameOf(placed[0] ?? "")}, chosen first. Only the view changes, not the pictures.</p>
          <div className="row wrap">
            <Button onClick={actions.matchColours}>Match colours</Button>
            <Button onClick={actions.ownColours} disabled={!placed.some((id) => placementOf(state, id).gain)}>Own colours</Button>
          </div>
        </fieldset>
      )}
      <div className="row wrap">
        {placed.length > 1 && <Button onClick={() => void mergeChosen()} hint="Makes one piece of them, as they lie now">Merge into one piece</Button>}
        <Button kind="quiet" onClick={() => actions.discard(ids, true)}>Discard</Button>
      </div>
    </div>
  );
}

function sayNames(ids: readonly Id[]): string {
  const names = ids.slice(0, 6).map(actions.nameOf).join(", ");
  return ids.length > 6 ? `${names} and ${ids.length - 6} more` : names;
}

/** What one piece and several have in common. */
function Common({ ids }: { ids: readonly Id[] }) {
  const state = useStore(bench, (now) => now.state);
  const placements = ids.map((id) => placementOf(state, id));
  const locked = placements.every((placement) => placement.locked);
  const [first] = placements;
  const islands = new Set(Object.values(state.placements).filter((p) => p.placed).map((p) => p.island ?? 1));
  const fresh = Math.max(0, ...islands) + 1;
  if (!first) return null;
  return (
    <>
      <div className="arrange">
        <Button icon={locked ? "unlock" : "lock"} pressed={locked} onClick={actions.toggleLock} hint="L">{locked ? "Unlock" : "Lock"}</Button>
        <Button onClick={actions.bringToFront} hint="Page up">To front</Button>
        <Button onClick={actions.sendToBack} hint="Page down">To back</Button>
        <Button onClick={actions.backToTray} hint="T" disabled={locked}>To tray</Button>
      </div>
      <Slider label="Opacity" value={first.opacity} least={0.1} onTake={actions.fade} />
      <label className="text-field">
        <span>Island</span>
        <select value={first.island ?? 1} onChange={(event) => actions.toIsland(Number(event.target.value))}>
          {[...islands].sort((a, b) => a - b).map((island) => <option key={island} value={island}>{islandName(island)}</option>)}
          <option value={fresh}>{islandName(fresh)} (new)</option>
        </select>
      </label>
    </>
  );
}
