/** Buttons: with words, or with an icon and a name for those who cannot see it. */
import { useRef, type ReactNode } from "react";
import { Icon, type IconName } from "./Icon";

interface Common {
  /** Not called again before its promise, if it answers one, is kept: a double click asks once. */
  onClick: () => unknown;
  disabled?: boolean;
  pressed?: boolean;
}

export function Button({
  children,
  icon,
  kind = "plain",
  hint,
  onClick,
  disabled,
  busy,
  pressed,
}: Common & {
  children: ReactNode;
  icon?: IconName;
  kind?: "plain" | "main" | "quiet";
  hint?: string;
  /** At work on what it was pressed for: does nothing meanwhile, but keeps the focus. */
  busy?: boolean;
}) {
  const press = useOnce(onClick);
  return (
    <button
      type="button"
      className={`button ${kind}`}
      onClick={() => busy || press()}
      disabled={disabled}
      aria-disabled={busy || undefined}
      aria-pressed={pressed}
      title={hint}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function IconButton({
  icon,
  label,
  keys,
  onClick,
  disabled,
  pressed,
}: Common & { icon: IconName; label: string; keys?: string }) {
  const press = useOnce(onClick);
  return (
    <button
      type="button"
      className="button icon-only"
      aria-label={label}
      title={keys ? `${label} (${keys})` : label}
      aria-pressed={pressed}
      onClick={press}
      disabled={disabled}
    >
      <Icon name={icon} />
    </button>
  );
}

/** Does nothing while the promise of the call before is open. */
function useOnce(act: () => unknown): () => void {
  const acting = useRef(false);
  return () => {
    if (acting.current) return;
    const done = act();
    if (!(done instanceof Promise)) return;
    acting.current = true;
    void done.finally(() => {
      acting.current = false;
    });
  };
}
