/** Pieces that lie nowhere yet: found by name, sorted, dragged onto the board. */
import { useMemo, useRef, useState, type KeyboardEvent, type PointerEvent, type RefObject } from "react";
import type { Id, Piece } from "../api/types";
import type { Board } from "../board/Board";
import { toBoard } from "../board/camera";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { Thumb } from "../parts/Thumb";
import { discard, takeOut } from "../state/actions";
import { bench, select } from "../state/bench";
import { placementOf } from "../state/operations";
import { useStore } from "../state/store";
import { view } from "../state/view";

type Order = "name" | "size" | "colour";

export function Tray({ board }: { board: RefObject<Board | null> }) {
  const pieces = useStore(bench, (now) => now.pieces);
  const state = useStore(bench, (now) => now.state);
  const selection = useStore(bench, (now) => now.selection);
  const [wanted, setWanted] = useState("");
  const [order, setOrder] = useState<Order>("size");
  const unplaced = useMemo(
    () => pieces.filter((piece) => !piece.discarded && !placementOf(state, piece.id).placed),
    [pieces, state],
  );
  const shown = useMemo(() => sorted(unplaced.filter((piece) => matches(piece, wanted)), order), [unplaced, wanted, order]);
  const discarded = pieces.filter((piece) => piece.discarded);
  return (
    <aside className="tray" aria-label="Tray of unplaced pieces">
      <div className="tray-head">
        <h2>Tray <span className="faint">{unplaced.length}</span></h2>
        <div className="order">
          <select aria-label="Sort by" value={order} onChange={(event) => setOrder(event.target.value as Order)}>
            <option value="size">Size</option>
            <option value="colour">Colour</option>
            <option value="name">Name</option>
          </select>
        </div>
      </div>
      <label className="search">
        <Icon name="search" />
        <span className="hidden">Search pieces</span>
        <input type="search" placeholder="Search" value={wanted} onChange={(event) => setWanted(event.target.value)} />
      </label>
      {shown.length > 0 ? (
        <Thumbs pieces={shown} selection={selection} board={board} />
      ) : (
        <p className="faint tray-empty">{sayEmpty(pieces.length, unplaced.length)}</p>
      )}
      {discarded.length > 0 && <Discarded pieces={discarded} />}
    </aside>
  );
}

function sayEmpty(all: number, unplaced: number): string {
  if (!all) return "Pieces you bring in wait here until they are placed.";
  if (!unplaced) return "Every piece is on the board. Choose one and press T to put it back.";
  return "No piece in the tray has this in its name, number or note.";
}

function matches(piece: Piece, wanted: string): boolean {
  const words = [piece.name, piece.inventory, piece.note, piece.provenance].join(" ").toLowerCase();
  return wanted.toLowerCase().split(/\s+/).every((part) => words.includes(part));
}

function sorted(pieces: Piece[], order: Order): Piece[] {
  const byName = new Intl.Collator(undefined, { numeric: true });
  return pieces.sort((a, b) => {
    if (order === "size") return b.area_mm2 - a.area_mm2;
    if (order === "colour") return hue(a) - hue(b);
    return byName.compare(a.name, b.name);
  });
}

/** Greys first by lightness, then colours around the circle. */
function hue({ colour: [r, g, b] }: Piece): number {
  const [most, least] = [Math.max(r, g, b), Math.min(r, g, b)];
  const spread = most - least;
  if (spread < 14) return most / 256 - 1;
  if (most === r) return ((g - b) / spread + 6) % 6;
  return most === g ? (b - r) / spread + 2 : (r - g) / spread + 4;
}

const STARTS_PX = 5;

function Thumbs({
  pieces, selection, board,
}: { pieces: readonly Piece[]; selection: ReadonlySet<Id>; board: RefObject<Board | null> }) {
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
    const ids = selection.has(id) ? pieces.filter((piece) => selection.has(piece.id)).map((piece) => piece.id) : [id];
    takeOut(ids, toBoard(shown.camera, x, y));
    shown.container.focus();
  };
  const place = (id: Id) => {
    const shown = board.current;
    if (shown) takeOut([id], toBoard(shown.camera, shown.width / 2, shown.height / 2));
  };
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
      place(id);
      list.current?.querySelectorAll("button")[Math.min(at, pieces.length - 2)]?.focus();
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
              aria-label={`${piece.name}. Enter puts it on the board.`}
              title={`${piece.name}${piece.inventory ? ` · ${piece.inventory}` : ""}`}
              onClick={(event) => choose(event, piece.id)}
              onDoubleClick={() => place(piece.id)}
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
              {piece.warnings.length > 0 && <span className="thumb-warning"><Icon name="warning" /></span>}
              <span className="thumb-name">{piece.inventory || piece.name}</span>
            </button>
          </li>
        ))}
      </ul>
      {held && <img ref={ghost} className="ghost" alt="" src={`/api/pictures/${held.picture}/256.webp`} />}
    </>
  );
}

function Discarded({ pieces }: { pieces: readonly Piece[] }) {
  return (
    <details className="discarded">
      <summary>Discarded <span className="faint">{pieces.length}</span></summary>
      <ul>
        {pieces.map((piece) => (
          <li key={piece.id} className="row">
            <span>{piece.name}</span>
            <Button kind="quiet" onClick={() => discard([piece.id], false)}>Take back</Button>
          </li>
        ))}
      </ul>
    </details>
  );
}
