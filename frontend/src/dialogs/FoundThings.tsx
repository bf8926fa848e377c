/** What lies in photographs of many pieces: each thing is taken, or left out as no piece. */
import type { Thing, UploadFile } from "../api/types";

/** Around a thing, of its size. */
const MARGIN = 0.08;

export function FoundThings({
  file,
  refused,
  onToggle,
}: {
  file: UploadFile;
  refused: ReadonlySet<Thing>;
  onToggle: (thing: Thing) => void;
}) {
  return (
    <fieldset className="things">
      <legend>Found in {file.name}</legend>
      <p className="faint">Untick what is no piece.</p>
      <ul>
        {file.things.map((thing, k) => (
          <li key={k}>
            <label>
              <input
                type="checkbox"
                checked={!refused.has(thing)}
                onChange={() => onToggle(thing)}
                aria-label={`Thing ${k + 1}${thing.doubt ? `, ${thing.doubt}` : ""}`}
              />
              <Crop file={file} thing={thing} />
              {thing.doubt && <small>{thing.doubt}</small>}
            </label>
          </li>
        ))}
      </ul>
    </fieldset>
  );
}

function Crop({ file, thing }: { file: UploadFile; thing: Thing }) {
  const { left_px, top_px, width_px, height_px } = thing;
  const margin = MARGIN * Math.max(width_px, height_px);
  const box = {
    x: left_px - margin,
    y: top_px - margin,
    width: width_px + 2 * margin,
    height: height_px + 2 * margin,
  };
  const view = Object.values(box).join(" ");
  // The inner one cuts off what lies beside.
  return (
    <svg viewBox={view} aria-hidden>
      <svg viewBox={view} {...box}>
        <image
          href={file.preview ?? ""}
          width={file.width_px ?? 0}
          height={file.height_px ?? 0}
          preserveAspectRatio="none"
        />
      </svg>
    </svg>
  );
}
