/** How sure a solver is, as a bar and a figure. */
import { sayShare } from "./words";

export function Confidence({ value }: { value: number }) {
  return (
    <p className="confidence" title="How likely the solver holds this place to be right">
      <meter min={0} max={1} value={value} aria-label="Confidence" /> {sayShare(value)}
    </p>
  );
}
