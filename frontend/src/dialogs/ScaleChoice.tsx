/** How large a pixel is: from the files, as a number, or by two clicks on a ruler in a photograph. */
import { useState } from "react";
import type { RulerLine, UploadFile } from "../api/types";
import { trim } from "../geometry/scale";
import { IconButton } from "../parts/Button";
import { MM_PER_PX, NumberField } from "../parts/NumberField";
import { RulerPhoto } from "./RulerPhoto";

/** A line whose length may still be asked for. */
export type DrawnRuler = Omit<RulerLine, "length_mm"> & { length_mm: number | null };

export interface Scale {
  by: "files" | "number" | "ruler";
  mm_per_px: number | null;
  rulers: DrawnRuler[];
}

const RULER_MM = [0.01, 1e5] as const;

/** What the server is told; `null` while the choice is not complete. */
export function scaleOf(scale: Scale): { mm_per_px: number | null; rulers: RulerLine[] } | null {
  if (scale.by === "files") return { mm_per_px: null, rulers: [] };
  if (scale.by === "number")
    return scale.mm_per_px === null ? null : { mm_per_px: scale.mm_per_px, rulers: [] };
  const rulers = scale.rulers.filter((ruler): ruler is RulerLine => ruler.length_mm !== null);
  const complete = rulers.length > 0 && rulers.length === scale.rulers.length;
  return complete ? { mm_per_px: null, rulers } : null;
}

export function ScaleChoice({
  files,
  guessed,
  scale,
  onChange,
}: {
  files: readonly UploadFile[];
  /** Whether a scale that no file tells is guessed. */
  guessed: boolean;
  scale: Scale;
  onChange: (scale: Scale) => void;
}) {
  const photos = files.filter((file) => file.preview);
  const [shown, setShown] = useState(0);
  const photo = photos.find((file) => file.index === shown) ?? photos[0];
  const dpi = files.find((file) => file.mm_per_px);
  return (
    <fieldset className="choices scale-choice">
      <legend>Scale</legend>
      <label>
        <input
          type="radio"
          name="scale"
          checked={scale.by === "files"}
          onChange={() => onChange({ ...scale, by: "files" })}
        />
        <span>
          From the files
          <small>
            {dpi?.mm_per_px
              ? `${dpi.name} says ${trim(dpi.mm_per_px, 4)} mm per pixel`
              : guessed
                ? "The pictures tell no resolution. Unless a file beside them does, 0.1357 mm per pixel is assumed, as in the RePAIR project’s scans, and marked as a guess."
                : "The photograph tells no resolution, and pieces are not cut out without."}
          </small>
        </span>
      </label>
      <label>
        <input
          type="radio"
          name="scale"
          checked={scale.by === "number"}
          onChange={() => onChange({ ...scale, by: "number" })}
        />
        <span>I know it</span>
      </label>
      {scale.by === "number" && (
        <NumberField
          label="One pixel is"
          value={scale.mm_per_px}
          unit="mm"
          digits={5}
          range={MM_PER_PX}
          onTake={(mm_per_px) => onChange({ ...scale, mm_per_px })}
          onType={(mm_per_px) => onChange({ ...scale, mm_per_px })}
        />
      )}
      <label>
        <input
          type="radio"
          name="scale"
          checked={scale.by === "ruler"}
          disabled={!photo}
          onChange={() => onChange({ ...scale, by: "ruler" })}
        />
        <span>
          Two clicks on a ruler in the photograph
          <small>A second ruler elsewhere shows whether the camera was tilted.</small>
        </span>
      </label>
      {scale.by === "ruler" && photo && (
        <>
          {photos.length > 1 && (
            <label className="text-field">
              <span>Photograph</span>
              <select
                value={photo.index}
                onChange={(event) => setShown(Number(event.target.value))}
              >
                {photos.map((file) => (
                  <option key={file.index} value={file.index}>
                    {file.name}
                  </option>
                ))}
              </select>
            </label>
          )}
          <RulerPhoto
            key={photo.index}
            file={photo}
            rulers={scale.rulers.filter((ruler) => ruler.file === photo.index)}
            onRuler={([x1_px, y1_px], [x2_px, y2_px]) =>
              onChange({
                ...scale,
                rulers: [
                  ...scale.rulers,
                  {
                    file: photo.index,
                    x1_px,
                    y1_px,
                    x2_px,
                    y2_px,
                    length_mm: scale.rulers[0]?.length_mm ?? null,
                  },
                ],
              })
            }
          />
          <div className="rulers">
            {scale.rulers.length === 0 && (
              <p className="faint">Click both ends of a length you know.</p>
            )}
            {scale.rulers.map((ruler, k) => (
              <Ruler
                key={k}
                ruler={ruler}
                onTake={(length_mm) =>
                  onChange({
                    ...scale,
                    rulers: scale.rulers.map((one, j) => (j === k ? { ...one, length_mm } : one)),
                  })
                }
                onRemove={() =>
                  onChange({ ...scale, rulers: scale.rulers.filter((_, j) => j !== k) })
                }
              />
            ))}
          </div>
        </>
      )}
    </fieldset>
  );
}

function Ruler({
  ruler,
  onTake,
  onRemove,
}: {
  ruler: DrawnRuler;
  onTake: (mm: number | null) => void;
  onRemove: () => void;
}) {
  const px = Math.hypot(ruler.x2_px - ruler.x1_px, ruler.y2_px - ruler.y1_px);
  return (
    <div className="row">
      <NumberField
        label="This length is"
        value={ruler.length_mm}
        unit="mm"
        range={RULER_MM}
        focused
        onTake={onTake}
        onType={onTake}
      />
      <span className="faint">
        {ruler.length_mm === null
          ? "How long is it?"
          : `${trim(ruler.length_mm / Math.max(px, 1), 4)} mm per pixel`}
      </span>
      <IconButton icon="close" label="Remove this length" onClick={onRemove} />
    </div>
  );
}
