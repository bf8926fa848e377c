/** A photograph in which two clicks on a ruler set the scale; or arrow keys and Enter. */
import { useState, type KeyboardEvent, type MouseEvent } from "react";
import type { UploadFile } from "../api/types";
import { carried, reveal } from "../parts/arrows";
import { Zoomable } from "../parts/Zoomable";
import type { DrawnRuler } from "./ScaleChoice";

type Spot = readonly [x: number, y: number];

export function RulerPhoto({
  file,
  rulers,
  onRuler,
}: {
  file: UploadFile;
  rulers: readonly DrawnRuler[];
  onRuler: (from: Spot, to: Spot) => void;
}) {
  const [first, setFirst] = useState<Spot | null>(null);
  const [pointer, setPointer] = useState<Spot | null>(null);
  /** Whether keys move the spot, so that a cross has to show where it is. */
  const [byKeys, setByKeys] = useState(false);
  const width = file.width_px ?? 1;
  const height = file.height_px ?? 1;
  const radius = Math.max(width, height) / 160;
  const spot = (event: MouseEvent<SVGSVGElement>): Spot => {
    const box = event.currentTarget.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * width,
      ((event.clientY - box.top) / box.height) * height,
    ];
  };
  const mark = (at: Spot) => {
    // Two ends that lie on each other, as of a double click, are one.
    if (!first || Math.hypot(at[0] - first[0], at[1] - first[1]) < radius / 2) return setFirst(at);
    onRuler(first, at);
    setFirst(null);
  };
  const key = (event: KeyboardEvent<SVGSVGElement>) => {
    if (event.key === "Escape" && first) {
      event.preventDefault();
      event.stopPropagation();
      return setFirst(null);
    }
    const at = pointer ?? [width / 2, height / 2];
    const moved = carried(event, at, [width, height]);
    if (!moved && event.key !== "Enter") return;
    event.preventDefault();
    setByKeys(true);
    setPointer(moved ?? at);
    if (moved) reveal(event.currentTarget, moved[0] / width, moved[1] / height);
    else mark(at);
  };
  const lines: [Spot, Spot][] = rulers.map((r) => [
    [r.x1_px, r.y1_px],
    [r.x2_px, r.y2_px],
  ]);
  if (first) lines.push([first, pointer ?? first]);
  return (
    <Zoomable aspect={width / height}>
      {file.preview && <img src={file.preview} alt={file.name} draggable={false} />}
      <svg
        viewBox={`0 0 ${width} ${height}`}
        onClick={(event) => mark(spot(event))}
        onMouseMove={(event) => {
          setByKeys(false);
          setPointer(spot(event));
        }}
        onKeyDown={key}
        tabIndex={0}
        role="application"
        aria-label="Photograph: click the two ends of a known length, or move the cross with the arrow keys and press Enter at each end; Escape takes the first end back"
      >
        {lines.map(([[x1, y1], [x2, y2]], k) => (
          <g key={k} className="ruler-line">
            <line x1={x1} y1={y1} x2={x2} y2={y2} className="under" />
            <line x1={x1} y1={y1} x2={x2} y2={y2} />
            {[
              [x1, y1],
              [x2, y2],
            ].map(([x, y], end) => (
              <circle key={end} cx={x} cy={y} r={radius} />
            ))}
          </g>
        ))}
        {byKeys && pointer && <Cross at={pointer} reach={2.5 * radius} />}
      </svg>
    </Zoomable>
  );
}

function Cross({ at: [x, y], reach }: { at: Spot; reach: number }) {
  const path = `M${x - reach} ${y}h${2 * reach}M${x} ${y - reach}v${2 * reach}`;
  return (
    <g className="ruler-line">
      <path d={path} className="under" />
      <path d={path} />
    </g>
  );
}
