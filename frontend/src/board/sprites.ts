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

export class Sprites {
  private readonly entries = new Map<string, Entry>();
  private readonly waiting = new Map<string, () => Promise<void>>();
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
    const level = LEVELS.find((l) => l >= wanted * 0.8) ?? 2048;
    const tinted = gain ? `${key}*${gain.join()}` : key;
    const exact = this.entries.get(`${tinted}@${level}`);
    if (exact?.picture) {
      exact.shown = ++this.clock;
      return exact.picture;
    }
    if (fetchMissing && !exact) this.request(`${tinted}@${level}`, url(source(level)), level, gain);
    return this.substitute(tinted, LEVELS.indexOf(level));
  }

  /** Forgets requests that have not begun: the view has moved on. */
  dropWaiting(): void {
    for (const key of this.waiting.keys()) this.entries.delete(key);
    this.waiting.clear();
  }

  get idle(): boolean {
    return this.loading === 0 && this.waiting.size === 0;
  }

  private substitute(key: string, from: number): CanvasImageSource | null {
    for (let step = 1; step < LEVELS.length; step++) {
      for (const at of [from + step, from - step]) {
        const entry = this.entries.get(`${key}@${LEVELS[at] ?? 0}`);
        if (entry?.picture) {
          entry.shown = ++this.clock;
          return entry.picture;
        }
      }
    }
    return null;
  }

  private request(key: string, url: string, level: Level, gain: Gain | null): void {
    this.entries.set(key, { picture: null, bytes: 0, shown: ++this.clock });
    this.waiting.set(key, () => this.load(key, url, level, gain));
    this.next();
  }

  private next(): void {
    while (this.loading < AT_ONCE) {
      const first = this.waiting.entries().next();
      if (first.done) return;
      const [key, start] = first.value;
      this.waiting.delete(key);
      this.loading++;
      void start().finally(() => {
        this.loading--;
        this.next();
      });
    }
  }

  private async load(key: string, url: string, level: Level, gain: Gain | null): Promise<void> {
    try {
      const answer = await fetch(url);
      if (!answer.ok) return;
      const plain = await decode(await answer.blob(), level);
      const picture = gain ? tint(plain, gain) : plain;
      const entry = this.entries.get(key) ?? { picture: null, bytes: 0, shown: ++this.clock };
      entry.picture = picture;
      entry.bytes = picture.width * picture.height * 4;
      this.entries.set(key, entry);
      this.bytes += entry.bytes;
      this.forget();
      this.changed();
    } catch {
      this.entries.delete(key);
    }
  }

  private forget(): void {
    if (this.bytes <= BUDGET_BYTES) return;
    const oldest = [...this.entries]
      .filter(([, e]) => e.picture)
      .sort((a, b) => a[1].shown - b[1].shown);
    for (const [key, entry] of oldest) {
      if (this.bytes <= BUDGET_BYTES * 0.8) return;
      if (entry.picture instanceof ImageBitmap) entry.picture.close();
      this.bytes -= entry.bytes;
      this.entries.delete(key);
    }
  }
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
