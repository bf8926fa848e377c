/** Buttons: with words, or with an icon and a name for those who cannot see it. */
import type { ReactNode } from "react";
import { Icon, type IconName } from "./Icon";

interface Common {
  onClick: () => void;
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
  return (
    <button
      type="button"
      className={`button ${kind}`}
      onClick={() => busy || onClick()}
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
  return (
    <button
      type="button"
      className="button icon-only"
      aria-label={label}
      title={keys ? `${label} (${keys})` : label}
      aria-pressed={pressed}
      onClick={onClick}
      disabled={disabled}
    >
      <Icon name={icon} />
    </button>
  );
}
