/** A slider that follows the hand and is taken when the hand rests. */
import { useEffect, useState } from "react";

export function Slider({
  label,
  value,
  least,
  onTake,
}: {
  label: string;
  value: number;
  least: number;
  onTake: (value: number) => void;
}) {
  const [now, setNow] = useState(value);
  useEffect(() => setNow(value), [value]);
  const take = () => {
    if (now !== value) onTake(now);
  };
  return (
    <label className="slider">
      <span>{label}</span>
      <input
        type="range"
        min={least}
        max={1}
        step={0.05}
        value={now}
        onChange={(event) => setNow(Number(event.target.value))}
        onPointerUp={take}
        onKeyUp={take}
        onBlur={take}
      />
    </label>
  );
}
