/** A line or a paragraph of text; taken when the field is left. */
import { useEffect, useState } from "react";

export function TextField({
  label,
  value,
  lines = 1,
  placeholder,
  onTake,
}: {
  label: string;
  value: string;
  lines?: number;
  placeholder?: string;
  onTake: (value: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const take = () => {
    if (text !== value) onTake(text);
  };
  const common = {
    value: text,
    placeholder,
    onBlur: take,
    onChange: (event: { target: { value: string } }) => setText(event.target.value),
  };
  return (
    <label className="text-field">
      <span>{label}</span>
      {lines > 1 ? (
        <textarea rows={lines} {...common} />
      ) : (
        <input {...common} onKeyDown={(event) => event.key === "Enter" && take()} />
      )}
    </label>
  );
}
