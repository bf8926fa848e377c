/** A curve of the gap (mm) along a joint (mm), with the line where it would be closed. */
import { roundLength, trim } from "../geometry/scale";

const WIDTH = 280;
const HEIGHT = 84;
const LEFT = 30;
const BOTTOM = 16;

export function GapProfile({ points }: { points: readonly (readonly [number, number])[] }) {
  const gaps = points.map(([, gap]) => gap);
  const least = Math.min(0, ...gaps);
  const most = Math.max(0.5, ...gaps);
  const length = points[points.length - 1]?.[0] ?? 1;
  const start = points[0]?.[0] ?? 0;
  const x = (s: number) =>
    LEFT + ((s - start) / Math.max(length - start, 1e-6)) * (WIDTH - LEFT - 4);
  const y = (gap: number) => 6 + ((most - gap) / (most - least)) * (HEIGHT - BOTTOM - 6);
  const step = roundLength((most - least) * 0.7);
  return (
    <svg
      className="profile"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`Gap from ${trim(least, 1)} to ${trim(most, 1)} mm over ${trim(length - start, 0)} mm`}
    >
      <line x1={LEFT} x2={WIDTH - 4} y1={y(0)} y2={y(0)} className="zero" />
      <text x={LEFT - 5} y={y(0) + 3}>
        0
      </text>
      <text x={LEFT - 5} y={y(Math.min(step, most)) + 3}>
        {trim(Math.min(step, most), 1)}
      </text>
      <polyline points={points.map(([s, gap]) => `${x(s)},${y(gap)}`).join(" ")} />
      <text x={WIDTH - 4} y={HEIGHT - 3}>
        {trim(length - start, 0)} mm
      </text>
    </svg>
  );
}
