/** Lasso and measuring tape without a pointer: arrow keys move a cross, Enter sets a point. */
import type { Point } from "../geometry/pose";
import { sayMeasured } from "../geometry/scale";
import { announce, bench, select, withGroups } from "../state/bench";
import { view } from "../state/view";
import type { Board } from "./Board";
import { toBoard, toScreen } from "./camera";
import { piecesWithin } from "./pick";

const STEP_PX = 10;
const FINE = 0.1;
const COARSE = 6;
/** A corner this near to the first closes the loop. */
const CLOSES_PX = 6;

export class Pen {
  /** Where the cross is, in mm of the board; none until a key has moved it. */
  private spot: Point | null = null;
  private corners: Point[] = [];

  constructor(private readonly board: Board) {}

  /** Where on the screen the cross is to be drawn. */
  get at(): Point | null {
    return this.spot && this.drawing ? toScreen(this.board.camera, ...this.spot) : null;
  }

  /** Whether the tool in hand is one that sets points. */
  get drawing(): boolean {
    return view.get().tool === "lasso" || view.get().tool === "ruler";
  }

  move([dx, dy]: Point, event: KeyboardEvent): void {
    const { board } = this;
    const [x, y] = this.at ?? [board.width / 2, board.height / 2];
    const step = STEP_PX * (event.shiftKey ? FINE : event.ctrlKey || event.metaKey ? COARSE : 1);
    const clamp = (value: number, most: number) => Math.min(most, Math.max(0, value));
    this.spot = toBoard(
      board.camera,
      clamp(x + dx * step, board.width),
      clamp(y + dy * step, board.height),
    );
    this.show();
  }

  /** Sets a point where the cross is. */
  mark(adding: boolean): void {
    this.spot ??= toBoard(this.board.camera, this.board.width / 2, this.board.height / 2);
    if (view.get().tool === "ruler") this.markEnd(this.spot);
    else this.markCorner(this.spot, adding);
    this.show();
  }

  /** Forgets what was begun. */
  lift(): void {
    if (this.corners.length && view.get().tool === "lasso") this.board.showLoop(null);
    this.corners = [];
    this.spot = null;
  }

  private markEnd(spot: Point): void {
    const [first] = this.corners;
    if (!first) {
      this.corners = [spot];
      this.board.measured = [spot, spot];
      return announce("First end set. Move the cross, and Enter sets the other end.");
    }
    this.corners = [];
    this.board.measured = [first, spot];
    announce(sayMeasured(this.board.measured));
  }

  private markCorner(spot: Point, adding: boolean): void {
    const { camera } = this.board;
    const [first] = this.corners;
    const [x, y] = toScreen(camera, ...spot);
    const [fx, fy] = first ? toScreen(camera, ...first) : [Infinity, Infinity];
    if (this.corners.length < 3 || Math.hypot(x - fx, y - fy) > CLOSES_PX) {
      this.corners.push(spot);
      return announce(`Corner ${this.corners.length} set. Enter on the first corner closes.`);
    }
    const taken = piecesWithin(this.board, this.corners);
    this.corners = [];
    this.board.showLoop(null);
    select([...(adding ? bench.get().selection : []), ...withGroups(bench.get(), taken)]);
    if (!taken.length) announce("No piece lies in this loop.");
  }

  private show(): void {
    const { board, spot } = this;
    const [first] = this.corners;
    if (view.get().tool === "ruler" && first && spot) board.measured = [first, spot];
    if (view.get().tool === "lasso" && first && spot)
      board.showLoop([...this.corners, spot].map((point) => toScreen(board.camera, ...point)));
    board.remark();
  }
}
