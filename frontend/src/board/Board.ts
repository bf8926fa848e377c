/**
 * The board: a Konva layer for what lies there, parted in three while a piece is dragged, and one
 * for marks, each drawn by a single shape, so that moving about costs one pass over the pieces at
 * most and React never renders.
 */
import Konva from "konva/lib/Core";
import { Line } from "konva/lib/shapes/Line";
import type { Guide, Id } from "../api/types";
import { joinBoxes, type Box } from "../geometry/polygon";
import type { Point, Pose } from "../geometry/pose";
import { showAttempt } from "../state/attempt";
import { bench, type Bench } from "../state/bench";
import { isSolving } from "../state/sync";
import { view } from "../state/view";
import { fitting, toBoard, visibleBox, zoomed, type Camera } from "./camera";
import { cameraStore } from "./camerastore";
import { overlapPath, paintContent, type Canvas, type Scene } from "./content";
import { fit, followFit, movedSinceFit } from "./fit";
import { Handle } from "./handle";
import { readInk, type Ink } from "./ink";
import { Keypoints } from "./keypoints";
import { paintMarks } from "./marks";
import {
  paintAbove,
  paintBelow,
  paintMoving,
  paintOnTop,
  partingOf,
  sameParting,
  type Parting,
} from "./parting";
import { Pen } from "./pen";
import { previewOf, withPreview } from "./preview";
import { boxOfItem, islandsOf, itemsOf, type Item } from "./scene";
import { Snapshot } from "./snapshot";
import { Sprites } from "./sprites";

const SETTLED_MS = 120;
/** Room for rulers and tools, which a fitted view leaves free. */
const AROUND = { left: 84, top: 92, right: 32, bottom: 60 };
/** Islands have frames, and names above them. */
const AROUND_ISLANDS = { left: 94, top: 128, right: 42, bottom: 70 };

export class Board {
  readonly stage: Konva.Stage;
  /** The cross that keys move. */
  readonly pen = new Pen(this);
  camera: Camera = cameraStore.get().camera;
  items: readonly Item[] = [];
  /** Poses of pieces that a gesture or a key is moving. */
  readonly live = new Map<Id, Pose>();
  hovered: Id | null = null;
  measured: readonly [Point, Point] | null = null;
  /** A guide on the move. */
  guide: Guide | null = null;

  private readonly content = new Konva.Layer({ listening: false, clearBeforeDraw: false });
  /** Pieces that are dragged, and what lies above them; only while they are. */
  private readonly moving = new Konva.Layer({ listening: false, clearBeforeDraw: false });
  private readonly above = new Konva.Layer({ listening: false, clearBeforeDraw: false });
  private readonly marks = new Konva.Layer({ listening: false });
  private readonly handle = new Handle();
  /** The line of a lasso or the frame of a marquee, in screen pixels. */
  private readonly loop = new Line({
    closed: true,
    dash: [5, 4],
    strokeWidth: 1.5,
    visible: false,
  });
  private readonly sprites = new Sprites(() => this.redraw());
  private readonly snapshot = new Snapshot();
  private parting: Parting | null = null;
  private readonly keypoints = new Keypoints(() => this.redraw());
  private readonly stops: (() => void)[] = [];
  private readonly sizes: ResizeObserver;
  private seen: Pick<Bench, "pieces" | "state" | "hypothesis"> | null = null;
  private ink: Ink;
  private frame = 0;
  /** Whether something else than the view has changed since the content was drawn. */
  private stale = true;
  /** Whether pieces on the move lie elsewhere than when the content was drawn. */
  private stirred = false;
  /** The camera of the last full drawing. */
  private painted: Camera = this.camera;
  private settled = 0;
  private still = true;
  /** The hypothesis that the view was made for. */
  private viewed: Id | null = null;
  private awaited = false;
  private wasPreviewed = false;
  private wasSolving = false;
  /** Whether the person has chosen the view since the last time it was fitted by itself. */
  private steered = false;

  constructor(readonly container: HTMLDivElement) {
    this.ink = readInk(container);
    this.stage = new Konva.Stage({ container, width: 100, height: 100 });
    this.content.add(new Konva.Shape({ sceneFunc: () => this.paintContent() }));
    this.moving.add(new Konva.Shape({ sceneFunc: () => this.paintMoving() }));
    this.above.add(new Konva.Shape({ sceneFunc: () => this.paintAbove() }));
    this.marks.add(new Konva.Shape({ sceneFunc: () => this.paintMarks() }));
    this.marks.add(...this.handle.nodes, this.loop);
    this.stage.add(this.content, this.moving, this.above, this.marks);
    this.part(null);
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(container);
    this.stops.push(
      bench.watch(() => this.follow()),
      fit.watch(() => this.redraw()),
      followFit(),
    );
    this.stops.push(view.watch(() => requestAnimationFrame(() => this.restyle())));
    this.resize();
    this.follow();
  }

  destroy(): void {
    this.sizes.disconnect();
    this.stops.forEach((stop) => stop());
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settled);
    this.stage.destroy();
  }

  get width(): number {
    return this.stage.width();
  }

  get height(): number {
    return this.stage.height();
  }

  /** Draws everything again before the next frame. */
  redraw(): void {
    this.stale = true;
    this.remark();
  }

  /** Gets ready for these pieces to move, so that the first frame of it has less to do. */
  expect(ids: readonly Id[]): void {
    const rest = { x_mm: 0, y_mm: 0, rotation_deg: 0 };
    if (view.get().overlaps)
      overlapPath({ ...this.scene, live: new Map(ids.map((i) => [i, rest])) });
  }

  /** Draws pieces on the move again before the next frame; all else lies as it lay. */
  redrawLive(): void {
    this.stirred = true;
    this.remark();
  }

  /** Draws the marks again before the next frame, and the content only where it is stale. */
  remark(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const moved = cameraStore.get().camera !== this.camera;
      if (moved) cameraStore.set({ camera: this.camera });
      this.drawContent(moved);
      this.placeHandle();
      this.marks.draw();
    });
  }

  /** Shows another part, as the person wants it. */
  look(camera: Camera): void {
    this.steered = true;
    this.aim(camera);
  }

  private aim(camera: Camera): void {
    this.camera = camera;
    this.still = false;
    clearTimeout(this.settled);
    this.settled = window.setTimeout(() => {
      this.still = true;
      this.sprites.dropWaiting();
      this.redraw();
    }, SETTLED_MS);
    this.remark();
  }

  zoomBy(factor: number, at: Point = [this.width / 2, this.height / 2]): void {
    this.look(zoomed(this.camera, factor, at));
  }

  /** Shows all that is placed, or `ids` alone. */
  fit(ids: ReadonlySet<Id> | null = null): void {
    const shown = this.items.filter((item) => !ids || ids.has(item.piece.id));
    const around = islandsOf(shown).size > 1 ? AROUND_ISLANDS : AROUND;
    this.aim(fitting(this.boxOf(shown), this.width, this.height, around));
  }

  /** Shows everything, unless these pieces are in view already. */
  reveal(ids: Iterable<Id>): void {
    const wanted = new Set(ids);
    if (!this.isSeen(this.items.filter((item) => wanted.has(item.piece.id)))) this.fit();
  }

  /** Shows everything once other poses have come, unless they are in view. */
  revealNext(wanted = true): void {
    this.awaited = wanted;
  }

  private isSeen(items: readonly Item[]): boolean {
    const box = this.boxOf(items);
    const seen = visibleBox(this.camera, this.width, this.height);
    return (
      box.left >= seen.left &&
      box.right <= seen.right &&
      box.top >= seen.top &&
      box.bottom <= seen.bottom
    );
  }

  /** The point of the board in the middle of the view, mm. */
  get middle(): Point {
    return toBoard(this.camera, this.width / 2, this.height / 2);
  }

  boxOf(items: readonly Item[]): Box {
    return joinBoxes(items.map((item) => boxOfItem(item, this.poseOf(item))));
  }

  poseOf(item: Item): Pose {
    return this.live.get(item.piece.id) ?? item.placement;
  }

  /** Where on the screen the rotation handle is, if one is shown. */
  get handleAt(): Point | null {
    this.placeHandle();
    return this.handle.at;
  }

  showLoop(points: readonly Point[] | null): void {
    this.loop.visible(points !== null);
    this.loop.points(points?.flatMap(([x, y]) => [x, y]) ?? []);
    this.remark();
  }

  /** Whether all pictures the view needs have come. */
  get ready(): boolean {
    return this.sprites.idle && this.still;
  }

  get scene(): Scene {
    const { state } = bench.get();
    return {
      items: this.items,
      live: previewOf(bench.get()) ?? this.live,
      reference: state.reference,
      fit: fit.get(),
      moved: movedSinceFit(this.items),
      keypoints: this.keypoints.known,
    };
  }

  private follow(): void {
    const now = bench.get();
    const { pieces, state, hypothesis } = now;
    const preview = previewOf(now);
    // An attempt that comes while pieces are on the move would take them out of the hand.
    if (preview && !this.wasPreviewed && this.live.size) return showAttempt(false);
    const another = this.seen?.hypothesis !== hypothesis;
    // Nor does what is on the move go along into another hypothesis.
    if (another) this.live.clear();
    const solving = isSolving(now);
    // What was measured is about to lie elsewhere.
    if (another || (solving && !this.wasSolving)) this.measured = null;
    this.wasSolving = solving;
    const empty = !this.items.length;
    const changed =
      another ||
      this.seen?.pieces !== pieces ||
      this.seen.state !== state ||
      preview ||
      this.wasPreviewed;
    let awaited = false;
    if (changed) {
      [awaited, this.awaited] = [this.awaited, false];
      this.items = preview ? withPreview(now, preview) : itemsOf(now);
      this.seen = { pieces, state, hypothesis };
    }
    this.followPreview(preview !== null);
    this.followHypothesis(hypothesis, empty || awaited);
    if (view.get().keypoints) this.keypoints.fetch();
    if (changed) this.redraw();
    else this.remark();
  }

  /** Begins with everything in view, and sees to it again where another content lies elsewhere. */
  private followHypothesis(hypothesis: Id | null, elsewhere: boolean): void {
    if (!hypothesis || this.width <= 150) return;
    const first = this.viewed === null;
    const another = this.viewed !== hypothesis;
    this.viewed = hypothesis;
    const anew = another || (elsewhere && this.items.length > 1);
    if (first || (anew && !this.isSeen(this.items))) this.fit();
  }

  /** Keeps a solver's attempt and its result in view, unless the person looks elsewhere. */
  private followPreview(previewed: boolean): void {
    if (previewed && !this.wasPreviewed) this.steered = false;
    const ended = this.wasPreviewed && !previewed;
    this.wasPreviewed = previewed;
    if (this.steered || !(previewed || ended) || !this.items.length) return;
    if (ended || !this.isSeen(this.items)) this.fit();
  }

  private restyle(): void {
    this.ink = readInk(this.container);
    if (view.get().keypoints) this.keypoints.fetch();
    this.redraw();
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.container;
    if (!clientWidth || !clientHeight) return;
    const middle = visibleBox(this.camera, this.width, this.height);
    const first = this.width === 100 && this.height === 100;
    this.stage.size({ width: clientWidth, height: clientHeight });
    if (!first) {
      this.camera = {
        ...this.camera,
        x_mm: (middle.left + middle.right) / 2 - clientWidth / 2 / this.camera.px_per_mm,
        y_mm: (middle.top + middle.bottom) / 2 - clientHeight / 2 / this.camera.px_per_mm,
      };
    }
    this.redraw();
    this.follow();
  }

  private canvas(layer: Konva.Layer): Canvas {
    const canvas = layer.getCanvas();
    return {
      context: canvas.getContext()._context as CanvasRenderingContext2D,
      camera: this.camera,
      width: this.width,
      height: this.height,
      ratio: canvas.getPixelRatio(),
      ink: this.ink,
      still: this.still,
    };
  }

  private paintContent(): void {
    const canvas = this.canvas(this.content);
    if (this.parting) return paintBelow(canvas, this.scene, this.parting, this.sprites);
    if (this.stale || this.stirred) this.snapshot.forget();
    else if (!this.snapshot.taken) this.snapshot.take(canvas.context.canvas, this.painted);
    const covered = this.snapshot.paint(canvas);
    paintContent(canvas, this.scene, view.get(), this.sprites, covered);
    if (!covered) this.snapshot.forget();
    this.stale = this.stirred = false;
    if (!covered) this.painted = this.camera;
  }

  /** Draws what lies there: in one layer, or parted by pieces that are dragged. */
  private drawContent(moved: boolean): void {
    // Not while the view moves too, since that moves the last picture along.
    const apart = this.still && !this.wasPreviewed;
    const parting = apart ? partingOf(this.camera, this.items, this.live) : null;
    if (!parting) {
      if (this.parting) this.stale = true;
      this.part(null);
      if (this.stale || this.stirred || moved) this.content.draw();
      return;
    }
    const anew = this.stale || !sameParting(this.parting, parting);
    if (anew) {
      this.part(parting);
      this.content.draw();
      this.above.draw();
    }
    if (anew || this.stirred) this.moving.draw();
    this.snapshot.forget();
    this.stale = this.stirred = false;
    this.painted = this.camera;
  }

  private part(parting: Parting | null): void {
    this.parting = parting;
    for (const layer of [this.moving, this.above])
      layer.getNativeCanvasElement().style.display = parting ? "" : "none";
  }

  private paintMoving(): void {
    if (this.parting) paintMoving(this.canvas(this.moving), this.scene, this.parting, this.sprites);
  }

  private paintAbove(): void {
    const canvas = this.canvas(this.above);
    if (this.parting) paintAbove(canvas, this.scene, this.parting, view.get(), this.sprites);
  }

  private paintMarks(): void {
    if (this.parting) paintOnTop(this.canvas(this.marks), this.scene, this.parting, view.get());
    const { selection, state } = bench.get();
    const { gaps, rulers } = view.get();
    paintMarks(this.canvas(this.marks), {
      items: this.items,
      live: previewOf(bench.get()) ?? this.live,
      selection,
      hovered: this.hovered,
      guides: this.guide
        ? [...state.guides.filter(({ id }) => id !== this.guide?.id), this.guide]
        : state.guides,
      gaps: gaps && !this.live.size ? this.currentGaps(selection) : null,
      rulers,
      measured: this.measured,
      cross: this.pen.at,
      preview: this.wasPreviewed,
    });
  }

  /** Gaps that still hold; those of the selection where there is one, lest figures hide the paint. */
  private currentGaps(selection: ReadonlySet<Id>) {
    const moved = movedSinceFit(this.items);
    return fit.get().gaps.filter(({ first, second }) => {
      if (moved.has(first) || moved.has(second)) return false;
      return !selection.size || selection.has(first) || selection.has(second);
    });
  }

  private placeHandle(): void {
    this.loop.stroke(this.ink.accent);
    const { selection } = bench.get();
    const free = this.items.filter(
      (item) => selection.has(item.piece.id) && !item.placement.locked,
    );
    if (!free.length || this.wasPreviewed) this.handle.hide();
    else this.handle.show(this.boxOf(free), this.camera, this.height, AROUND.top - 8, this.ink);
  }
}
