/** The tray's pieces as thumbnails: chosen by a click, dragged onto the board, placed by Enter. */
import { useRef, useState, type KeyboardEvent, type PointerEvent, type RefObject } from "react";
import { flushSync } from "react-dom";
import type { Id, Piece } from "../api/types";
import type { Board } from "../board/Board";
import { toBoard } from "../board/camera";
import { Icon } from "../parts/Icon";
import { Thumb } from "../parts/Thumb";
import { takeOut } from "../state/actions";
import { select } from "../state/bench";
import { view } from "../state/view";
import { putOnBoard } from "./putOnBoard";

const STARTS_PX = 5;

export function TrayThumbs({
  pieces,
  selection,
  board,
}: {
  pieces: readonly Piece[];
  selection: ReadonlySet<Id>;
  board: RefObject<Board | null>;
}) {
  const list = useRef<HTMLUListElement>(null);
  const ghost = useRef<HTMLImageElement>(null);
  const dragging = useRef<{ id: Id; x: number; y: number; begun: boolean } | null>(null);
  const [held, setHeld] = useState<Piece | null>(null);

  const down = (event: PointerEvent, id: Id) => {
    if (event.button !== 0) return;
    dragging.current = { id, x: event.clientX, y: event.clientY, begun: false };
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent, piece: Piece) => {
    const drag = dragging.current;
    if (!drag) return;
    if (!drag.begun && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > STARTS_PX) {
      drag.begun = true;
      setHeld(piece);
    }
    if (drag.begun && ghost.current) {
      ghost.current.style.transform = `translate(${event.clientX - 40}px, ${event.clientY - 40}px)`;
    }
  };
  const up = (event: PointerEvent, id: Id) => {
    const drag = dragging.current;
    dragging.current = null;
    setHeld(null);
    if (!drag?.begun) return;
    const shown = board.current;
    const box = shown?.container.getBoundingClientRect();
    const [x, y] = [event.clientX - (box?.left ?? 0), event.clientY - (box?.top ?? 0)];
    if (!shown || !box || x < 0 || y < 0 || x > box.width || y > box.height) return;
    takeOut(withChosen(id), toBoard(shown.camera, x, y));
    shown.container.focus();
  };
  /** A piece, and all that are chosen where it is one of them. */
  const withChosen = (id: Id) =>
    selection.has(id)
      ? pieces.filter((piece) => selection.has(piece.id)).map((piece) => piece.id)
      : [id];
  const choose = (event: { shiftKey: boolean; ctrlKey: boolean; metaKey: boolean }, id: Id) => {
    const adding = event.shiftKey || event.ctrlKey || event.metaKey;
    const chosen = new Set(adding ? selection : []);
    adding && chosen.has(id) ? chosen.delete(id) : chosen.add(id);
    select(chosen);
    if (view.get().tab !== "joins") view.set({ tab: "piece" });
  };
  const key = (event: KeyboardEvent<HTMLButtonElement>, id: Id, at: number) => {
    const columns = 2;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (event.key === "Enter") {
      event.preventDefault();
      flushSync(() => putOnBoard(board.current, withChosen(id)));
      const left = list.current?.querySelectorAll("button");
      left?.[Math.min(at, left.length - 1)]?.focus();
    } else if (step) {
      event.preventDefault();
      event.stopPropagation();
      list.current?.querySelectorAll("button")[at + step]?.focus();
    }
  };
  return (
    <>
      <ul className="thumbs" ref={list}>
        {pieces.map((piece, at) => (
          <li key={piece.id}>
            <button
              type="button"
              className="thumb-button"
              aria-pressed={selection.has(piece.id)}
              aria-label={`${piece.name}. ${caution(piece)}Enter puts it on the board.`}
              title={[piece.name, piece.inventory, ...piece.warnings].filter(Boolean).join(" · ")}
              onClick={(event) => choose(event, piece.id)}
              onDoubleClick={() => putOnBoard(board.current, [piece.id])}
              onKeyDown={(event) => key(event, piece.id, at)}
              onPointerDown={(event) => down(event, piece.id)}
              onPointerMove={(event) => move(event, piece)}
              onPointerUp={(event) => up(event, piece.id)}
              onPointerCancel={() => {
                dragging.current = null;
                setHeld(null);
              }}
            >
              <Thumb piece={piece} />
              {piece.warnings.length > 0 && (
                <span className="thumb-warning">
                  <Icon name="warning" />
                </span>
              )}
              <span className="thumb-name">{piece.inventory || piece.name}</span>
            </button>
          </li>
        ))}
      </ul>
      {held && (
        <img ref={ghost} className="ghost" alt="" src={`/api/pictures/${held.picture}/256.webp`} />
      )}
    </>
  );
}

function caution(piece: Piece): string {
  return piece.warnings.length ? `Caution: ${piece.warnings.join("; ")}. ` : "";
}
