/** Words that others may follow: with a full stop, unless they end with a mark of their own. */
export function asSentence(words: string): string {
  const trimmed = words.trimEnd();
  return !trimmed || /[.!?…:;]["”’)]?$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

export function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
