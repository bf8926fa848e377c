/** A picture that can be looked at closely: fitted at first, then larger and scrolled. */
import { useLayoutEffect, useRef, useState, type PointerEvent, type ReactNode } from "react";
import { IconButton } from "./Button";

const STEPS = [1, 1.5, 2, 3, 4, 6, 8];

export function Zoomable({
  aspect,
  onPinch,
  onPressBeside,
  children,
}: {
  aspect: number;
  /** Called when a second finger comes down: what the first one draws is not meant. */
  onPinch?: () => void;
  /** Called when the pointer goes down beside the picture. */
  onPressBeside?: (event: PointerEvent) => void;
  children: ReactNode;
}) {
  const [at, setAt] = useState(0);
  const zoom = STEPS[at] ?? 1;
  const view = useRef<HTMLDivElement>(null);
  /** Width at which the whole picture is seen. */
  const [fitted, setFitted] = useState(0);
  useLayoutEffect(() => {
    const frame = view.current;
    if (!frame) return;
    const fit = () =>
      setFitted(Math.floor(Math.min(frame.offsetWidth, frame.offsetHeight * aspect)));
    const observer = new ResizeObserver(fit);
    observer.observe(frame);
    fit();
    return () => observer.disconnect();
  }, [aspect]);
  /** The part of the picture in the middle of the view, which zooming keeps there. */
  const middle = useRef<readonly [number, number]>([0.5, 0.5]);
  const zoomBy = (step: 1 | -1) => {
    const frame = view.current;
    if (frame)
      middle.current = [
        (frame.scrollLeft + frame.clientWidth / 2) / frame.scrollWidth,
        (frame.scrollTop + frame.clientHeight / 2) / frame.scrollHeight,
      ];
    setAt((was) => Math.min(STEPS.length - 1, Math.max(0, was + step)));
  };
  useLayoutEffect(() => {
    const frame = view.current;
    const [x, y] = middle.current;
    frame?.scrollTo(
      x * frame.scrollWidth - frame.clientWidth / 2,
      y * frame.scrollHeight - frame.clientHeight / 2,
    );
  }, [zoom]);
  const fingers = useRef(new Map<number, readonly [number, number]>());
  const apart = useRef(0);
  const spread = () => {
    const [a = [0, 0], b = [0, 0]] = [...fingers.current.values()];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  };
  const down = (event: PointerEvent) => {
    if (event.pointerType !== "touch") return;
    fingers.current.set(event.pointerId, [event.clientX, event.clientY]);
    if (fingers.current.size < 2) return;
    event.stopPropagation();
    apart.current = spread();
    onPinch?.();
  };
  const move = (event: PointerEvent) => {
    const before = fingers.current.get(event.pointerId);
    if (!before) return;
    fingers.current.set(event.pointerId, [event.clientX, event.clientY]);
    if (fingers.current.size < 2) return;
    event.stopPropagation();
    view.current?.scrollBy((before[0] - event.clientX) / 2, (before[1] - event.clientY) / 2);
    const [now, wanted] = [spread(), apart.current];
    const step = now > wanted * 1.3 ? 1 : now < wanted / 1.3 ? -1 : 0;
    if (!step) return;
    apart.current = now;
    zoomBy(step);
  };
  const up = (event: PointerEvent) => fingers.current.delete(event.pointerId);
  return (
    <div
      className="zoomable"
      onPointerDownCapture={down}
      onPointerMoveCapture={move}
      onPointerUpCapture={up}
      onPointerCancelCapture={up}
    >
      <div
        className="zoomable-view"
        ref={view}
        onPointerDown={(event) => event.target === event.currentTarget && onPressBeside?.(event)}
      >
        <div
          className="zoomable-content"
          style={{
            aspectRatio: aspect,
            width: zoom * fitted,
          }}
        >
          {children}
        </div>
      </div>
      <div className="zoomable-buttons floating" role="toolbar" aria-label="Zoom of the picture">
        <IconButton icon="minus" label="Smaller" disabled={at === 0} onClick={() => zoomBy(-1)} />
        <span className="figures">{zoom} ×</span>
        <IconButton
          icon="plus"
          label="Larger"
          disabled={at === STEPS.length - 1}
          onClick={() => zoomBy(1)}
        />
      </div>
    </div>
  );
}
