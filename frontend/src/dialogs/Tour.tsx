/** A short walk through the workbench for the first minute. */
import { useLayoutEffect, useRef, useState } from "react";
import { Button } from "../parts/Button";
import { view } from "../state/view";

const STEPS = [
  {
    at: ".tray",
    title: "The tray",
    text: "Pieces that lie nowhere yet. Drag one onto the board, or press Enter on it.",
  },
  {
    at: ".board-area",
    title: "The board",
    text: "Drag pieces, turn them by the handle, or use the arrow keys and Q, E. The wheel zooms. All lengths are millimetres.",
  },
  {
    at: ".side",
    title: "Solve, then judge",
    text: "Let a solver propose. Lock what is right with L, look at the joins of a piece, accept or reject them, and solve again.",
  },
  {
    at: ".top-bar",
    title: "Nothing gets lost",
    text: "Every change is saved as it happens. Undo as far back as you like, branch a hypothesis to try another way, and export when you are done.",
  },
] as const;

export function Tour({ onClose }: { onClose: () => void }) {
  const [step, setStep] = useState(0);
  const [box, setBox] = useState<DOMRect | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  const now = STEPS[step] ?? STEPS[0];
  useLayoutEffect(() => {
    view.set({ tray: true, side: true, ...(step === 2 ? { tab: "solve" as const } : {}) });
    const measure = () => setBox(document.querySelector(now.at)?.getBoundingClientRect() ?? null);
    requestAnimationFrame(measure);
    window.addEventListener("resize", measure);
    return () => window.removeEventListener("resize", measure);
  }, [now, step]);
  const finish = () => {
    view.set({ toured: true });
    onClose();
    // Nothing had the focus before it, or what led to it is gone: the work begins on the board.
    setTimeout(() => document.querySelector<HTMLElement>(".board")?.focus());
  };
  const last = step === STEPS.length - 1;
  return (
    <dialog
      ref={dialog}
      className="tour"
      aria-label="Tour"
      onCancel={(event) => {
        event.preventDefault();
        finish();
      }}
    >
      {box && (
        <div
          className="tour-light"
          style={{ left: box.left, top: box.top, width: box.width, height: box.height }}
        />
      )}
      <div className="tour-card" style={place(box)}>
        <h2>{now.title}</h2>
        <p>{now.text}</p>
        <div className="row">
          <span className="faint">
            {step + 1} of {STEPS.length}
          </span>
          <span className="spacer" />
          {!last && (
            <Button kind="quiet" onClick={finish}>
              Skip
            </Button>
          )}
          <button
            key={step}
            type="button"
            className="button main"
            ref={(button) => button?.focus()}
            onClick={() => (last ? finish() : setStep(step + 1))}
          >
            {last ? "Begin" : "Next"}
          </button>
        </div>
      </div>
    </dialog>
  );
}

const CARD_PX = 320;

function place(box: DOMRect | null): { left: number; top: number } {
  if (!box) return { left: innerWidth / 2 - CARD_PX / 2, top: innerHeight / 3 };
  const wide = box.width > innerWidth / 2;
  if (wide && box.height < 100) return { left: innerWidth / 2 - CARD_PX / 2, top: box.bottom + 16 };
  if (wide || box.height < 100)
    return { left: box.left + box.width / 2 - CARD_PX / 2, top: box.top + box.height / 3 };
  const right = box.right + 16;
  return {
    left: right + CARD_PX < innerWidth ? right : box.left - CARD_PX - 16,
    top: box.top + 80,
  };
}
