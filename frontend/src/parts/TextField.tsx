/** A line or a paragraph of text; taken when the field is left. */
import { useEffect, useId, useState } from "react";

export function TextField({
  label,
  value,
  lines = 1,
  placeholder,
  troubleWith,
  onTake,
}: {
  label: string;
  value: string;
  lines?: number;
  placeholder?: string;
  /** Why this text is not taken, in words; what was there before is shown again then. */
  troubleWith?: (value: string) => string | null;
  onTake: (value: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const [wrong, setWrong] = useState<string | null>(null);
  const id = useId();
  const take = () => {
    if (text === value) return;
    const trouble = troubleWith?.(text) ?? null;
    setWrong(trouble);
    if (trouble) setText(value);
    else onTake(text);
  };
  const common = {
    value: text,
    placeholder,
    onBlur: take,
    id,
    "aria-invalid": wrong !== null,
    "aria-describedby": wrong === null ? undefined : `${id}-wrong`,
    onChange: (event: { target: { value: string } }) => {
      setText(event.target.value);
      setWrong(null);
    },
  };
  return (
    <div className="text-field">
      <label htmlFor={id}>{label}</label>
      {lines > 1 ? (
        <textarea rows={lines} {...common} />
      ) : (
        <input {...common} onKeyDown={(event) => event.key === "Enter" && take()} />
      )}
      {wrong && (
        <small id={`${id}-wrong`} className="wrong" role="alert">
          {wrong}
        </small>
      )}
    </div>
  );
}
