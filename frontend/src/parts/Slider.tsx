/** A slider that follows the hand and is taken when the hand rests. */
import { useState } from "react";

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
  /** Where it is held, until it is taken. */
  const [held, setHeld] = useState<number | null>(null);
  const take = () => {
    setHeld(null);
    if (held !== null && held !== value) onTake(held);
  };
  return (
    <label className="slider">
      <span>{label}</span>
      <input
        type="range"
        min={least}
        max={1}
        step={0.05}
        value={held ?? value}
        onChange={(event) => setHeld(Number(event.target.value))}
        onPointerUp={take}
        onKeyUp={take}
        onBlur={take}
      />
    </label>
  );
}
