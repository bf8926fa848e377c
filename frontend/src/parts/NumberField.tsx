/** A number with its unit; taken when Enter is pressed or the field is left. */
import { useEffect, useId, useRef, useState } from "react";
import { trim } from "../geometry/scale";
import { useTyped } from "./typed";

type Range = readonly [least: number, most: number];

/** What the server takes: lengths and places on the board, and sizes of a pixel. */
const MM: Range = [-1e6, 1e6];
export const MM_PER_PX: Range = [1e-4, 100];

export function NumberField({
  label,
  value,
  unit,
  digits = 2,
  range = MM,
  disabled,
  focused,
  onTake,
  onType,
}: {
  label: string;
  value: number | null;
  unit: string;
  digits?: number;
  range?: Range;
  disabled?: boolean;
  /** Whether it is to be typed into at once. */
  focused?: boolean;
  onTake: (value: number) => void;
  /** Called with every key; `null` while what is typed is no number. */
  onType?: (value: number | null) => void;
}) {
  const shown = value === null ? "" : trim(value, digits);
  const [typed, setTyped] = useState<string | null>(null);
  const [wrong, setWrong] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => {
    if (document.activeElement !== field.current) setWrong(null);
  }, [value]);
  useEffect(() => {
    if (focused) field.current?.focus();
  }, [focused]);
  const type = (text: string) => {
    setTyped(text === shown ? null : text);
    setWrong(null);
    onType?.(troubleWith(text, range) ? null : numberIn(text));
  };
  const take = () => {
    if (typed === null) return;
    const trouble = troubleWith(typed, range);
    const kept = shown && !onType ? ` ${shown} ${unit} stays.` : "";
    setWrong(trouble && trouble + kept);
    setTyped(null);
    if (!trouble && typed !== shown) onTake(numberIn(typed));
  };
  // Half a number may be on its way to a whole one, where the page comes back.
  useTyped((gone) => !gone && typed !== null && !troubleWith(typed, range) && take());
  return (
    <div className="number-field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        ref={field}
        inputMode="decimal"
        value={typed ?? shown}
        data-kept={typed === null}
        disabled={disabled}
        aria-invalid={wrong !== null}
        aria-describedby={wrong === null ? undefined : `${id}-wrong`}
        onChange={(event) => type(event.target.value)}
        onFocus={(event) => event.target.select()}
        onBlur={take}
        onKeyDown={(event) => {
          if (event.key === "Enter") take();
          if (event.key === "Escape") {
            setTyped(null);
            setWrong(null);
          }
        }}
      />
      <span className="unit">{unit}</span>
      {wrong && (
        <small id={`${id}-wrong`} className="wrong" role="alert">
          {wrong}
        </small>
      )}
    </div>
  );
}

function numberIn(text: string): number {
  return text.trim() === "" ? NaN : Number(text.replace(",", "."));
}

/** What is wrong with it as a number, in words. */
function troubleWith(text: string, [least, most]: Range): string | null {
  const number = numberIn(text);
  if (text.trim() === "") return "A number is missing.";
  if (Number.isNaN(number)) return `“${text.trim()}” is no number.`;
  if (number < least || number > most) return `Give a number from ${least} to ${most}.`;
  return null;
}
