/** A number with its unit; taken when Enter is pressed or the field is left. */
import { useEffect, useState } from "react";
import { trim } from "../geometry/scale";

export function NumberField({
  label,
  value,
  unit,
  digits = 2,
  disabled,
  onTake,
}: {
  label: string;
  value: number | null;
  unit: string;
  digits?: number;
  disabled?: boolean;
  onTake: (value: number) => void;
}) {
  const shown = value === null ? "" : trim(value, digits);
  const [text, setText] = useState(shown);
  useEffect(() => setText(shown), [shown]);
  const take = () => {
    const number = Number(text.replace(",", "."));
    if (text.trim() === "" || !Number.isFinite(number)) setText(shown);
    else if (text !== shown) onTake(number);
  };
  return (
    <label className="number-field">
      <span>{label}</span>
      <input
        inputMode="decimal"
        value={text}
        disabled={disabled}
        onChange={(event) => setText(event.target.value)}
        onFocus={(event) => event.target.select()}
        onBlur={take}
        onKeyDown={(event) => {
          if (event.key === "Enter") take();
          if (event.key === "Escape") setText(shown);
        }}
      />
      <span className="unit">{unit}</span>
    </label>
  );
}
