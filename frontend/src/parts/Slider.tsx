/** A slider that follows the hand and is taken when the hand rests. */
import { useRef, useState } from "react";
import { useTyped } from "./typed";

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
  /** Where it is held, until it is taken; beside the state, since a key may come before a render. */
  const held = useRef<number | null>(null);
  const [shown, setShown] = useState<number | null>(null);
  const hold = (at: number | null) => {
    held.current = at;
    setShown(at);
  };
  const take = () => {
    const at = held.current;
    hold(null);
    if (at !== null && at !== value) onTake(at);
  };
  useTyped((gone) => !gone && take());
  return (
    <label className="slider">
      <span>{label}</span>
      <input
        type="range"
        min={least}
        max={1}
        step={0.05}
        value={shown ?? value}
        onChange={(event) => hold(Number(event.target.value))}
        onPointerUp={take}
        onKeyUp={take}
        onBlur={take}
      />
    </label>
  );
}
