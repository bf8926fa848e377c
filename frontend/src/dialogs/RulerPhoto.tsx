/** A photograph in which two clicks on a ruler set the scale. */
import { useState, type MouseEvent } from "react";
import type { RulerLine, UploadFile } from "../api/types";
import { Zoomable } from "../parts/Zoomable";

type Spot = readonly [x: number, y: number];

export function RulerPhoto({
  file,
  rulers,
  onRuler,
}: {
  file: UploadFile;
  rulers: readonly RulerLine[];
  onRuler: (from: Spot, to: Spot) => void;
}) {
  const [first, setFirst] = useState<Spot | null>(null);
  const [pointer, setPointer] = useState<Spot | null>(null);
  const width = file.width_px ?? 1;
  const height = file.height_px ?? 1;
  const spot = (event: MouseEvent<SVGSVGElement>): Spot => {
    const box = event.currentTarget.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * width,
      ((event.clientY - box.top) / box.height) * height,
    ];
  };
  const click = (event: MouseEvent<SVGSVGElement>) => {
    if (!first) return setFirst(spot(event));
    onRuler(first, spot(event));
    setFirst(null);
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
        onClick={click}
        onMouseMove={(event) => setPointer(spot(event))}
        role="img"
        aria-label="Photograph: click the two ends of a known length"
      >
        {lines.map(([[x1, y1], [x2, y2]], k) => (
          <g key={k} className="ruler-line">
            <line x1={x1} y1={y1} x2={x2} y2={y2} className="under" />
            <line x1={x1} y1={y1} x2={x2} y2={y2} />
            {[
              [x1, y1],
              [x2, y2],
            ].map(([x, y]) => (
              <circle key={`${x} ${y}`} cx={x} cy={y} r={Math.max(width, height) / 160} />
            ))}
          </g>
        ))}
      </svg>
    </Zoomable>
  );
}
