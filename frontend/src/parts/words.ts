/** Words that others may follow: with a full stop, unless they end with a mark of their own. */
export function asSentence(words: string): string {
  const trimmed = words.trimEnd();
  return !trimmed || /[.!?…:;]["”’)]?$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** With a capital at the beginning, unless a name stands there, as of a file or a field. */
export function capital(words: string): string {
  return /^[a-z]+[,;:.!?…]*(\s|$)/.test(words)
    ? words.charAt(0).toUpperCase() + words.slice(1)
    : words;
}

/** A probability in per cent; what a program holds for nearly certain never reads as certain. */
export function sayShare(value: number): string {
  const percent = Math.round(value * 100);
  if (percent >= 100) return "> 99 %";
  return percent === 0 && value > 0 ? "< 1 %" : `${percent} %`;
}

/** The order in which people expect names: piece 2 before piece 10. */
export const byName = new Intl.Collator(undefined, { numeric: true }).compare;
