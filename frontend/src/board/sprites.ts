/**
 * Pictures of pieces at the size the screen needs: small copies far away, large ones close up,
 * decoded off the main thread, the least recently shown forgotten first.
 */

/** Longest side in pixels. Below 256 copies are made here from the 256 one. */
export const LEVELS = [64, 128, 256, 512, 1024, 2048] as const;
export type Level = (typeof LEVELS)[number];

export type Gain = readonly [r: number, g: number, b: number];

interface Entry {
  picture: ImageBitmap | HTMLCanvasElement | null;
  bytes: number;
  shown: number;
}

const BUDGET_BYTES = 320 * 2 ** 20;
const AT_ONCE = 6;

/** The pictures of one piece, by the index of their level. */
type Ladder = (Entry | undefined)[];

interface Waiting {
  ladder: Ladder;
  at: number;
  url: string;
  gain: Gain | null;
}

export class Sprites {
  private readonly ladders = new Map<string, Ladder>();
  private waiting: Waiting[] = [];
  private loading = 0;
  private bytes = 0;
  private clock = 0;

  /** @param changed called when another picture is there to be drawn. */
  constructor(private readonly changed: () => void) {}

  /**
   * The best picture at hand for a longest side of `wanted` device pixels, fetching a better one
   * where `fetchMissing`. `null` until the first has come.
   */
  get(
    url: (level: Level) => string,
    key: string,
    wanted: number,
    gain: Gain | null,
    fetchMissing: boolean,
  ): CanvasImageSource | null {
    const tinted = gain ? `${key}*${gain.join()}` : key;
    let ladder = this.ladders.get(tinted);
    if (!ladder) this.ladders.set(tinted, (ladder = []));
    const at = levelIndex(wanted);
    const exact = ladder[at];
    if (exact?.picture) {
      exact.shown = ++this.clock;
      return exact.picture;
    }
    if (fetchMissing && !exact) this.request({ ladder, at, url: url(source(levelAt(at))), gain });
    return this.substitute(ladder, at);
  }

  /** Forgets requests that have not begun: the view has moved on. */
  dropWaiting(): void {
    for (const { ladder, at } of this.waiting) ladder[at] = undefined;
    this.waiting = [];
  }

  get idle(): boolean {
    return this.loading === 0 && this.waiting.length === 0;
  }

  private substitute(ladder: Ladder, from: number): CanvasImageSource | null {
    for (let step = 1; step < LEVELS.length; step++) {
      const entry = ladder[from + step]?.picture ? ladder[from + step] : ladder[from - step];
      if (entry?.picture) {
        entry.shown = ++this.clock;
        return entry.picture;
      }
    }
    return null;
  }

  private request(wanted: Waiting): void {
    wanted.ladder[wanted.at] = { picture: null, bytes: 0, shown: ++this.clock };
    this.waiting.push(wanted);
    // Not within the frame that asks for it.
    if (this.waiting.length === 1) setTimeout(() => this.next());
  }

  private next(): void {
    while (this.loading < AT_ONCE) {
      const first = this.waiting.shift();
      if (!first) return;
      this.loading++;
      void this.load(first).finally(() => {
        this.loading--;
        this.next();
      });
    }
  }

  private async load({ ladder, at, url, gain }: Waiting): Promise<void> {
    try {
      const answer = await fetch(url);
      if (!answer.ok) return;
      const plain = await decode(await answer.blob(), levelAt(at));
      const picture = gain ? tint(plain, gain) : plain;
      const bytes = picture.width * picture.height * 4;
      ladder[at] = { picture, bytes, shown: ++this.clock };
      this.bytes += bytes;
      this.forget();
      this.changed();
    } catch {
      ladder[at] = undefined;
    }
  }

  private forget(): void {
    if (this.bytes <= BUDGET_BYTES) return;
    const all: { ladder: Ladder; at: number; entry: Entry }[] = [];
    for (const ladder of this.ladders.values())
      ladder.forEach((entry, at) => entry?.picture && all.push({ ladder, at, entry }));
    all.sort((a, b) => a.entry.shown - b.entry.shown);
    for (const { ladder, at, entry } of all) {
      if (this.bytes <= BUDGET_BYTES * 0.8) return;
      if (entry.picture instanceof ImageBitmap) entry.picture.close();
      this.bytes -= entry.bytes;
      ladder[at] = undefined;
    }
  }
}

const LARGEST = 2048;

function levelAt(at: number): Level {
  return LEVELS[at] ?? LARGEST;
}

/** Of the smallest level that is large enough. */
function levelIndex(wanted: number): number {
  let at = 0;
  while (at < LEVELS.length - 1 && levelAt(at) < wanted * 0.8) at++;
  return at;
}

function source(level: Level): Level {
  return level < 256 ? 256 : level;
}

async function decode(blob: Blob, level: Level): Promise<ImageBitmap> {
  const whole = await createImageBitmap(blob);
  const longest = Math.max(whole.width, whole.height);
  if (level >= 256 || longest <= level) return whole;
  const small = await createImageBitmap(whole, {
    resizeWidth: Math.max(1, Math.round((whole.width * level) / longest)),
    resizeHeight: Math.max(1, Math.round((whole.height * level) / longest)),
    resizeQuality: "high",
  });
  whole.close();
  return small;
}

function tint(picture: ImageBitmap, gain: Gain): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = picture.width;
  canvas.height = picture.height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) return canvas;
  context.drawImage(picture, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  const data = pixels.data;
  const [r, g, b] = gain;
  for (let k = 0; k < data.length; k += 4) {
    data[k] = (data[k] ?? 0) * r;
    data[k + 1] = (data[k + 1] ?? 0) * g;
    data[k + 2] = (data[k + 2] ?? 0) * b;
  }
  context.putImageData(pixels, 0, 0);
  picture.close();
  return canvas;
}
