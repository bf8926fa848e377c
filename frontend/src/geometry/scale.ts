/** Round lengths for scale bars, rulers and labels. */

/** The largest of 1, 2, 5 times a power of ten that is at most `most`. */
export function roundLength(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  for (const step of [5, 2]) if (step * power <= most) return step * power;
  return power;
}

/** 0.4 mm, 12 mm, 3.5 cm, 1.2 m: what a person would say. */
export function sayLength(mm: number): string {
  if (mm >= 1000) return `${trim(mm / 1000, 2)} m`;
  if (mm >= 100) return `${trim(mm / 10, 1)} cm`;
  return `${trim(mm, mm < 10 ? 2 : 1)} mm`;
}

export function trim(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}
