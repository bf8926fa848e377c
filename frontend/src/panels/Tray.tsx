/** Pieces that lie nowhere yet: found by name, sorted, dragged onto the board. */
import { useMemo, useState, type RefObject } from "react";
import type { Piece } from "../api/types";
import type { Board } from "../board/Board";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { discard } from "../state/actions";
import { bench } from "../state/bench";
import { placementOf } from "../state/operations";
import { useStore } from "../state/store";
import { matches, sorted, type Order } from "./trayOrder";
import { TrayThumbs } from "./TrayThumbs";

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
  const shown = useMemo(
    () =>
      sorted(
        unplaced.filter((piece) => matches(piece, wanted)),
        order,
      ),
    [unplaced, wanted, order],
  );
  const discarded = pieces.filter((piece) => piece.discarded);
  return (
    <aside className="tray" aria-label="Tray of unplaced pieces">
      <div className="tray-head">
        <h2>
          Tray <span className="faint">{unplaced.length}</span>
        </h2>
        <div className="order">
          <select
            aria-label="Sort by"
            value={order}
            onChange={(event) => setOrder(event.target.value as Order)}
          >
            <option value="size">Size</option>
            <option value="colour">Colour</option>
            <option value="name">Name</option>
          </select>
        </div>
      </div>
      <label className="search">
        <Icon name="search" />
        <span className="hidden">Search pieces</span>
        <input
          type="search"
          placeholder="Search"
          value={wanted}
          onChange={(event) => setWanted(event.target.value)}
        />
      </label>
      {shown.length > 0 ? (
        <TrayThumbs pieces={shown} selection={selection} board={board} />
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

function Discarded({ pieces }: { pieces: readonly Piece[] }) {
  return (
    <details className="discarded">
      <summary>
        Discarded <span className="faint">{pieces.length}</span>
      </summary>
      <ul>
        {pieces.map((piece) => (
          <li key={piece.id} className="row">
            <span>{piece.name}</span>
            <Button kind="quiet" onClick={() => discard([piece.id], false)}>
              Take back
            </Button>
          </li>
        ))}
      </ul>
    </details>
  );
}
