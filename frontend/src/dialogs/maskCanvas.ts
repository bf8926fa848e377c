/** The mask of a cut-out as it is painted on: opaque where the piece is. */

const KEPT = 10;

export class MaskCanvas {
  readonly canvas = document.createElement("canvas");
  private readonly context: CanvasRenderingContext2D;
  private readonly before: HTMLCanvasElement[] = [];

  /** @param grey the mask as the server gives it: white inside, black outside. */
  constructor(grey: ImageBitmap) {
    this.canvas.width = grey.width;
    this.canvas.height = grey.height;
    const context = this.canvas.getContext("2d", { willReadFrequently: true });
    if (!context) throw new Error("no canvas");
    this.context = context;
    context.drawImage(grey, 0, 0);
    const pixels = context.getImageData(0, 0, grey.width, grey.height);
    const data = pixels.data;
    for (let k = 0; k < data.length; k += 4) {
      const inside = (data[k] ?? 0) > 127;
      data[k] = data[k + 1] = data[k + 2] = 255;
      data[k + 3] = inside ? 255 : 0;
    }
    context.putImageData(pixels, 0, 0);
  }

  get changed(): boolean {
    return this.before.length > 0;
  }

  /** Remembers how it is now, to come back to. */
  remember(): void {
    this.before.push(copy(this.canvas));
    if (this.before.length > KEPT) this.before.splice(1, 1);
  }

  undo(): void {
    const last = this.before.pop();
    if (last) this.become(last);
  }

  stroke(
    from: readonly [number, number],
    to: readonly [number, number],
    diameter: number,
    erase: boolean,
  ): void {
    const { context } = this;
    context.save();
    context.globalCompositeOperation = erase ? "destination-out" : "source-over";
    context.strokeStyle = "#fff";
    context.lineCap = "round";
    context.lineWidth = diameter;
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(to[0] + 0.01, to[1]);
    context.stroke();
    context.restore();
  }

  /** One pixel more all around, or one less. */
  spread(grow: boolean): void {
    this.remember();
    const was = copy(this.canvas);
    this.context.save();
    this.context.globalCompositeOperation = grow ? "source-over" : "destination-in";
    for (const [dx, dy] of [
      [1, 0],
      [-1, 0],
      [0, 1],
      [0, -1],
    ] as const)
      this.context.drawImage(was, dx, dy);
    this.context.restore();
  }

  /** A PNG, white inside on black. */
  async png(): Promise<Blob> {
    const flat = document.createElement("canvas");
    flat.width = this.canvas.width;
    flat.height = this.canvas.height;
    const context = flat.getContext("2d");
    context?.fillRect(0, 0, flat.width, flat.height);
    context?.drawImage(this.canvas, 0, 0);
    return new Promise((done, fail) =>
      flat.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture"))), "image/png"),
    );
  }

  private become(other: HTMLCanvasElement): void {
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.context.drawImage(other, 0, 0);
  }
}

function copy(canvas: HTMLCanvasElement): HTMLCanvasElement {
  const other = document.createElement("canvas");
  other.width = canvas.width;
  other.height = canvas.height;
  other.getContext("2d")?.drawImage(canvas, 0, 0);
  return other;
}
