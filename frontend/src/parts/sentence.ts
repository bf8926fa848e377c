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
