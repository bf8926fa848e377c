/** A line or a paragraph of text; taken when the field is left, or goes away. Esc takes it back. */
import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import { useTyped } from "./typed";

export function TextField({
  label,
  value,
  lines = 1,
  placeholder,
  troubleWith,
  onTake,
  onDraft,
}: {
  label: string;
  value: string;
  lines?: number;
  placeholder?: string;
  /** Why this text is not taken, in words; what was there before is shown again then. */
  troubleWith?: (value: string) => string | null;
  onTake: (value: string) => void;
  /** Called with every key: what would be taken now; `null` where that is nothing. */
  onDraft?: (value: string | null) => void;
}) {
  /** What is typed and not taken; beside the state, since a blur may come before a render. */
  const typed = useRef<string | null>(null);
  const [text, setText] = useState(value);
  const [wrong, setWrong] = useState<string | null>(null);
  const id = useId();
  useEffect(() => {
    if (typed.current === null) setText(value);
  }, [value]);
  /** @param leaving whether text that cannot be taken gives way to what was there. */
  const take = (leaving: boolean) => {
    const now = typed.current;
    if (now === null) return;
    const trouble = now === value ? null : (troubleWith?.(now) ?? null);
    if (trouble && !leaving) return;
    typed.current = null;
    onDraft?.(null);
    setWrong(trouble);
    if (trouble) setText(value);
    else if (now !== value) onTake(now);
  };
  useTyped(take);
  const key = (event: KeyboardEvent<HTMLElement>) => {
    if (event.key === "Enter" && lines === 1) take(true);
    if (event.key !== "Escape") return;
    typed.current = null;
    onDraft?.(null);
    setWrong(null);
    setText(value);
    event.currentTarget.blur();
  };
  const common = {
    value: text,
    "data-kept": text === value,
    placeholder,
    onBlur: () => take(true),
    onKeyDown: key,
    id,
    "aria-invalid": wrong !== null,
    "aria-describedby": wrong === null ? undefined : `${id}-wrong`,
    onChange: (event: { target: { value: string } }) => {
      const now = event.target.value;
      typed.current = now === value ? null : now;
      setText(now);
      setWrong(null);
      onDraft?.(now === value || troubleWith?.(now) ? null : now);
    },
  };
  return (
    <div className="text-field">
      <label htmlFor={id}>{label}</label>
      {lines > 1 ? <textarea rows={lines} {...common} /> : <input {...common} />}
      {wrong && (
        <small id={`${id}-wrong`} className="wrong" role="alert">
          {wrong}
        </small>
      )}
    </div>
  );
}
