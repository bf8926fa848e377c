/** Round lengths for scale bars, rulers and labels. */
import type { Point } from "./pose";

/** The largest of 1, 2, 5 times a power of ten that is at most `most`. */
export function roundLength(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  for (const step of [5, 2]) if (step * power <= most) return step * power;
  return power;
}

/** 0.45 mm, 165.8 mm: millimetres, as everywhere, no finer than anybody can measure. */
export function sayLength(mm: number): string {
  return `${trim(mm, mm < 10 ? 2 : 1)} mm`;
}

export function sayMeasured([from, to]: readonly [Point, Point]): string {
  return `${sayLength(Math.hypot(to[0] - from[0], to[1] - from[1]))} measured`;
}

export function trim(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}
