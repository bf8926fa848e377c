/** Moving a spot over a picture with the arrow keys. */
const ARROWS: Record<string, readonly [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};
const COARSE = 5;

interface Keys {
  key: string;
  shiftKey: boolean;
  ctrlKey: boolean;
  metaKey: boolean;
}

/**
 * Where an arrow key carries a spot on a picture of `size`, px: by a step that shows on the screen,
 * with Shift by one pixel, with Ctrl by five steps. `null` for other keys.
 */
export function carried(
  event: Keys,
  spot: readonly [number, number],
  size: readonly [number, number],
): [number, number] | null {
  const arrow = ARROWS[event.key];
  if (!arrow) return null;
  const usual = Math.max(1, Math.round(Math.max(...size) / 100));
  const step = event.shiftKey ? 1 : usual * (event.ctrlKey || event.metaKey ? COARSE : 1);
  const moved = (k: 0 | 1) => Math.min(size[k], Math.max(0, spot[k] + arrow[k] * step));
  return [moved(0), moved(1)];
}

/** Scrolls what holds a picture so that a spot of it, as shares of its size, can be seen. */
export function reveal(picture: Element, x: number, y: number): void {
  const holder = picture.closest(".zoomable-view");
  if (!holder) return;
  const [box, seen] = [picture.getBoundingClientRect(), holder.getBoundingClientRect()];
  const [left, top] = [box.left + x * box.width, box.top + y * box.height];
  const margin = 40;
  const past = (at: number, low: number, high: number) =>
    Math.min(0, at - low - margin) + Math.max(0, at - high + margin);
  holder.scrollBy(past(left, seen.left, seen.right), past(top, seen.top, seen.bottom));
}
