/** A small, still picture of placed pieces. */
import { useEffect, useRef } from "react";
import { fitting } from "../board/camera";
import { paintPiece } from "../board/painter";
import { boxOfItem, itemsOf } from "../board/scene";
import { Sprites } from "../board/sprites";
import type { Id, Placement } from "../api/types";
import { joinBoxes } from "../geometry/polygon";
import { bench, NOTHING } from "../state/bench";
import { useStore } from "../state/store";

const listeners = new Set<() => void>();
const sprites = new Sprites(() => listeners.forEach((listener) => listener()));

export function MiniAssembly({
  placements,
  label,
  height = 120,
}: {
  placements: Readonly<Record<Id, Placement>>;
  label: string;
  height?: number;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const pieces = useStore(bench, (now) => now.pieces);
  useEffect(() => {
    const paint = () => {
      const element = canvas.current;
      const context = element?.getContext("2d");
      if (!element || !context) return;
      const ratio = devicePixelRatio;
      const width = element.clientWidth;
      element.width = width * ratio;
      element.height = height * ratio;
      const items = itemsOf({
        ...bench.get(),
        pieces,
        state: { ...NOTHING, placements: { ...placements } },
      });
      const box = joinBoxes(items.map((item) => boxOfItem(item)));
      const camera = fitting(box, width, height, { left: 8, top: 8, right: 8, bottom: 8 });
      for (const { drawable, placement } of items) {
        const { opacity, gain } = placement;
        paintPiece(context, camera, drawable, placement, opacity, gain, ratio, sprites, true);
      }
    };
    let frame = 0;
    const soon = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(paint);
    };
    listeners.add(soon);
    const sizes = new ResizeObserver(soon);
    if (canvas.current) sizes.observe(canvas.current);
    soon();
    return () => {
      listeners.delete(soon);
      sizes.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [placements, pieces, height]);
  return <canvas ref={canvas} className="mini" style={{ height }} role="img" aria-label={label} />;
}
