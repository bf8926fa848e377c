/** The theme's colours, for what is drawn on a canvas. */
export interface Ink {
  line: string;
  accent: string;
  ground: string;
  text: string;
  faint: string;
}

export function readInk(element: Element): Ink {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    line: colour("--board-line"),
    accent: colour("--accent"),
    ground: colour("--panel"),
    text: colour("--text"),
    faint: colour("--board-faint"),
  };
}
