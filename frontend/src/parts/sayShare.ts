/** A probability in per cent; what a program holds for nearly certain never reads as certain. */
export function sayShare(value: number): string {
  const percent = Math.round(value * 100);
  if (percent >= 100) return "> 99 %";
  return percent === 0 && value > 0 ? "< 1 %" : `${percent} %`;
}
