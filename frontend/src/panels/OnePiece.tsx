/** One chosen piece: what it is, where it lies, how large. */
import type { RefObject } from "react";
import type { Op, Piece, Placement } from "../api/types";
import type { Board } from "../board/Board";
import { wrapDeg } from "../geometry/pose";
import { trim } from "../geometry/scale";
import { Button } from "../parts/Button";
import { Confidence } from "../parts/Confidence";
import { Icon } from "../parts/Icon";
import { MM_PER_PX, NumberField } from "../parts/NumberField";
import { TextField } from "../parts/TextField";
import { Thumb } from "../parts/Thumb";
import * as actions from "../state/actions";
import { open } from "../state/bench";
import { draft, edit } from "../state/queue";
import { Arrange } from "./Arrange";
import { putOnBoard } from "./putOnBoard";

export function OnePiece({
  piece,
  placement,
  board,
}: {
  piece: Piece;
  placement: Placement;
  board: RefObject<Board | null>;
}) {
  /** What a field of text tells about this piece, and no other: it goes with the piece. */
  const words = (what: "name" | "inventory" | "provenance" | "note") => {
    const told = (text: string): Op[] => [{ op: "describe", piece: piece.id, [what]: text }];
    const key = `${what} ${piece.id}`;
    return {
      value: piece[what],
      onTake: (text: string) => edit(told(text)),
      onDraft: (text: string | null) => draft(key, text === null ? null : told(text)),
    };
  };
  return (
    <div className="stack">
      <div className="piece-head">
        <Thumb piece={piece} level={512} />
        <div>
          <h2>{piece.name}</h2>
          <p className="faint">
            {trim(piece.area_mm2 / 100, 1)} cm² · {piece.width_px} × {piece.height_px} px
          </p>
          {placement.placed && placement.confidence !== null && (
            <Confidence value={placement.confidence} />
          )}
        </div>
      </div>
      {piece.warnings.map((warning) => (
        <p key={warning} className="caution">
          <Icon name="warning" />
          {warning}
        </p>
      ))}
      {placement.placed ? (
        <Place key={`place ${piece.id}`} piece={piece} placement={placement} />
      ) : (
        <Button onClick={() => putOnBoard(board.current, [piece.id])}>Put on the board</Button>
      )}
      <TextField
        key={`name ${piece.id}`}
        label="Name"
        {...words("name")}
        troubleWith={(name) =>
          name.trim() ? null : `A piece needs a name. “${piece.name}” stays.`
        }
      />
      <TextField key={`inventory ${piece.id}`} label="Inventory number" {...words("inventory")} />
      <TextField key={`provenance ${piece.id}`} label="Provenance" {...words("provenance")} />
      <TextField key={`note ${piece.id}`} label="Note" lines={3} {...words("note")} />
      <NumberField
        key={`scale ${piece.id}`}
        label="Scale"
        value={piece.mm_per_px}
        unit="mm/px"
        digits={5}
        range={MM_PER_PX}
        onTake={(mm_per_px) => edit([{ op: "scale", piece: piece.id, mm_per_px }])}
      />
      <p className={piece.scale_origin === "assumed" ? "caution" : "faint"}>
        {SCALE[piece.scale_origin] ?? ""}
      </p>
      <div className="row wrap">
        <Button onClick={() => open({ kind: "cutout", piece: piece.id })}>
          Repair the cut-out
        </Button>
        <Button
          kind="quiet"
          onClick={() => actions.discard([piece.id], true)}
          disabled={placement.locked}
        >
          Discard
        </Button>
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
  repair: "No file tells the scale; this is the one of the RePAIR project’s scans.",
  assumed:
    "No scale was known; the one of the RePAIR project’s scans is assumed. Lengths in mm are not to be trusted.",
  edited: "The scale was set by hand.",
};

function Place({ piece, placement }: { piece: Piece; placement: Placement }) {
  const put = (part: Partial<Placement>) =>
    actions.placeAt(new Map([[piece.id, { ...placement, ...part }]]));
  return (
    <fieldset className="place">
      <legend>Place</legend>
      <div className="three">
        <NumberField
          label="x"
          value={placement.x_mm}
          unit="mm"
          disabled={placement.locked}
          onTake={(x_mm) => put({ x_mm })}
        />
        <NumberField
          label="y"
          value={placement.y_mm}
          unit="mm"
          disabled={placement.locked}
          onTake={(y_mm) => put({ y_mm })}
        />
        <NumberField
          label="Angle"
          value={placement.rotation_deg}
          unit="°"
          disabled={placement.locked}
          onTake={(angle) => put({ rotation_deg: wrapDeg(angle) })}
        />
      </div>
      <Arrange ids={[piece.id]} />
    </fieldset>
  );
}
