import type { Board } from "./board/Board";

declare global {
  interface Window {
    /** For measuring and for curious people; the page itself does not use it. */
    reassembly?: { board: Board };
  }
}
