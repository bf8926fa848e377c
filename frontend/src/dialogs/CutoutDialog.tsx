/** Repairs a cut-out by hand: brush, eraser, a cut through touching pieces. */
import { useEffect, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { api, pictureUrl } from "../api/client";
import type { Id } from "../api/types";
import { carried, reveal } from "../parts/arrows";
import { Button } from "../parts/Button";
import { Modal } from "../parts/Modal";
import { Zoomable } from "../parts/Zoomable";
import { bench, forgetTrouble, pieceOf, say } from "../state/bench";
import { signature } from "../state/identity";
import { repaired } from "../state/repairs";
import { ConfirmDialog } from "./ConfirmDialog";
import { MaskCanvas } from "./maskCanvas";

const LEAST_PX = 2;
const MOST_PX = 160;

type Tool = "brush" | "eraser" | "cut";
type Spot = [number, number];

const TOOLS: readonly (readonly [Tool, string, string])[] = [
  ["brush", "Brush", "adds to the piece"],
  ["eraser", "Eraser", "takes away from it"],
  ["cut", "Cut", "draw a line that parts touching pieces"],
];

export function CutoutDialog({ piece: id, onClose }: { piece: Id; onClose: () => void }) {
  const piece = pieceOf(bench.get(), id);
  const view = useRef<HTMLCanvasElement>(null);
  const [photo, setPhoto] = useState<ImageBitmap | null>(null);
  const [mask, setMask] = useState<MaskCanvas | null>(null);
  const [tool, setTool] = useState<Tool>("brush");
  const [size, setSize] = useState(24);
  const [changed, setChanged] = useState(false);
  /** Whether there is a line to split along. */
  const [lined, setLined] = useState(false);
  const [leaving, setLeaving] = useState(false);
  const [busy, setBusy] = useState(false);
  const [penDown, setPenDown] = useState(false);
  const line = useRef<Spot[]>([]);
  const last = useRef<Spot | null>(null);
  const pointer = useRef<Spot | null>(null);
  const frame = useRef(0);

  useEffect(() => {
    if (!piece) return onClose();
    void Promise.all([
      picture(pictureUrl.photo(piece.picture)),
      picture(pictureUrl.mask(piece.picture)),
    ]).then(
      ([shown, grey]) => {
        setPhoto(shown);
        setMask(new MaskCanvas(grey));
      },
      () => {
        say(
          "The picture of this piece could not be read.",
          "Reload the page and try again.",
          "bad",
        );
        onClose();
      },
    );
  }, []);

  const draw = () => {
    const canvas = view.current;
    const context = canvas?.getContext("2d");
    if (!canvas || !context || !photo || !mask) return;
    context.globalCompositeOperation = "source-over";
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = "rgb(20 20 20 / 0.62)";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.globalCompositeOperation = "destination-out";
    context.drawImage(mask.canvas, 0, 0);
    context.globalCompositeOperation = "destination-over";
    context.drawImage(photo, 0, 0);
    context.globalCompositeOperation = "source-over";
    const unit = canvas.width / Math.max(canvas.clientWidth, 1);
    for (const [colour, width] of [
      ["#fff", 4],
      ["#d62828", 2],
    ] as const) {
      context.strokeStyle = colour;
      context.lineWidth = width * unit;
      context.beginPath();
      line.current.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.stroke();
    }
    if (pointer.current && tool === "cut") {
      const [x, y] = pointer.current;
      const reach = 9 * unit;
      context.strokeStyle = "#fff";
      context.lineWidth = 1.5 * unit;
      context.beginPath();
      context.moveTo(x - reach, y);
      context.lineTo(x + reach, y);
      context.moveTo(x, y - reach);
      context.lineTo(x, y + reach);
      context.stroke();
    }
    if (pointer.current && tool !== "cut") {
      context.strokeStyle = "#fff";
      context.lineWidth = 1.5 * unit;
      context.beginPath();
      context.arc(pointer.current[0], pointer.current[1], size / 2, 0, 2 * Math.PI);
      context.stroke();
    }
  };
  const soon = () => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(draw);
  };
  useEffect(soon, [photo, mask, tool, size]);

  const spot = (event: PointerEvent, canvas: HTMLCanvasElement): Spot => {
    const box = canvas.getBoundingClientRect();
    const { width, height } = canvas;
    return [
      ((event.clientX - box.left) / box.width) * width,
      ((event.clientY - box.top) / box.height) * height,
    ];
  };
  const lay = (spots: Spot[]) => {
    line.current = spots;
    const [first] = spots;
    setLined(spots.some((spot) => spot[0] !== first?.[0] || spot[1] !== first[1]));
  };
  const put = (at: Spot) => {
    last.current = at;
    if (tool === "cut") lay([at]);
    else {
      mask?.remember();
      mask?.stroke(at, at, size, tool === "eraser");
      setChanged(true);
    }
    soon();
  };
  const carry = (now: Spot) => {
    pointer.current = now;
    if (last.current) {
      if (tool === "cut") lay([...line.current, now]);
      else mask?.stroke(last.current, now, size, tool === "eraser");
      last.current = now;
    }
    soon();
  };
  const up = () => {
    last.current = null;
    setPenDown(false);
  };
  const down = (event: PointerEvent) => {
    const canvas = view.current;
    if (!canvas) return;
    canvas.setPointerCapture(event.pointerId);
    setPenDown(false);
    put(spot(event, canvas));
  };
  const move = (event: PointerEvent<HTMLCanvasElement>) => {
    if (!penDown) carry(spot(event, event.currentTarget));
  };
  const canvasKey = (event: KeyboardEvent<HTMLCanvasElement>) => {
    const canvas = event.currentTarget;
    const { width, height } = canvas;
    const at: Spot = pointer.current ?? [width / 2, height / 2];
    const moved = carried(event, at, [width, height]);
    const sized = { "[": -2, "]": 2 }[event.key];
    if (moved) {
      carry(moved);
      reveal(canvas, moved[0] / width, moved[1] / height);
    } else if (event.key === "Enter" || event.key === " ") {
      pointer.current = at;
      if (penDown) up();
      else {
        setPenDown(true);
        put(at);
      }
    } else if (sized) setSize((now) => Math.min(MOST_PX, Math.max(LEAST_PX, now + sized)));
    else return;
    event.preventDefault();
  };
  /** Two fingers look closer; what the first one has begun is taken back. */
  const pinched = () => {
    if (last.current) undo();
    last.current = null;
  };

  const act = async (parts: "keep" | "cut" | "separate") => {
    const { project, hypothesis } = bench.get();
    if (!project || !hypothesis || !mask) return;
    setBusy(true);
    forgetTrouble("cutout");
    const by = signature();
    let well = true;
    if (mask.changed) {
      const png = await mask.png();
      const split = parts === "separate";
      const words = split ? "Split into its parts." : "The cut-out is repaired.";
      well = await repaired(() => api.putMask(project.id, hypothesis, id, png, split, by), words);
    }
    if (well && (parts === "cut" || (parts === "separate" && !mask.changed))) {
      const cut = parts === "cut" ? line.current : null;
      well = await repaired(
        () => api.split(project.id, hypothesis, id, cut, by),
        "Split into its parts.",
      );
    }
    setBusy(false);
    if (well) onClose();
  };
  /** Takes back what the tool in hand has done, or else what the others have. */
  const undo = () => {
    if (line.current.length && (tool === "cut" || !changed)) lay([]);
    else mask?.undo();
    setChanged(mask?.changed ?? false);
    soon();
  };
  const leave = () => ((changed || lined) && !busy ? setLeaving(true) : onClose());
  const key = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z") {
      event.preventDefault();
      undo();
    }
  };
  if (!piece) return null;
  return (
    <>
      <Modal
        wide
        title={`Repair the cut-out of ${piece.name}`}
        onClose={leave}
        footer={
          <>
            <Button onClick={undo} disabled={!changed && !lined} icon="undo">
              Undo
            </Button>
            <span className="faint spacer">{tool === "cut" && !lined && "Draw a line first."}</span>
            <Button onClick={leave}>Cancel</Button>
            <Button
              onClick={() => act("separate")}
              disabled={busy}
              hint="Each part that hangs together becomes a piece"
            >
              Split into separate parts
            </Button>
            {tool === "cut" ? (
              <Button kind="main" onClick={() => act("cut")} disabled={busy || !lined}>
                Split along the line
              </Button>
            ) : (
              <Button kind="main" onClick={() => act("keep")} disabled={busy || !changed}>
                Save
              </Button>
            )}
          </>
        }
      >
        <div className="cutout" onKeyDown={key}>
          <div className="row wrap" role="toolbar" aria-label="Repair tools">
            {TOOLS.map(([name, label, text]) => (
              <Button key={name} pressed={tool === name} hint={text} onClick={() => setTool(name)}>
                {label}
              </Button>
            ))}
            <label className="slider">
              <span>Size</span>
              <input
                type="range"
                min={LEAST_PX}
                max={MOST_PX}
                value={size}
                disabled={tool === "cut"}
                onChange={(event) => setSize(Number(event.target.value))}
              />
            </label>
            <Button
              onClick={() => {
                mask?.spread(true);
                setChanged(true);
                soon();
              }}
            >
              Grow 1 px
            </Button>
            <Button
              onClick={() => {
                mask?.spread(false);
                setChanged(true);
                soon();
              }}
            >
              Shrink 1 px
            </Button>
          </div>
          <Zoomable
            aspect={piece.width_px / piece.height_px}
            onPinch={pinched}
            // A cut goes right across a piece, and so begins outside it.
            onPressBeside={tool === "cut" ? down : undefined}
          >
            <canvas
              ref={view}
              width={piece.width_px}
              height={piece.height_px}
              tabIndex={0}
              role="application"
              aria-label="The photograph; what is not the piece is dimmed. Arrow keys move the tool, Enter puts it down and lifts it, the square brackets change its size."
              onKeyDown={canvasKey}
              onPointerDown={down}
              onPointerMove={move}
              onPointerUp={up}
              onPointerCancel={up}
              onPointerLeave={() => {
                pointer.current = null;
                soon();
              }}
            />
          </Zoomable>
          <p className="faint" role="status">
            {penDown
              ? "The tool is down: arrow keys draw, Enter lifts it."
              : "Draw with the pointer. Or, with the photograph in focus: arrow keys move the tool (Shift: by a pixel), Enter puts it down and lifts it, [ and ] change its size."}
          </p>
          {!mask && <p className="faint">Fetching the photograph…</p>}
        </div>
      </Modal>
      {leaving && (
        <ConfirmDialog
          title="Leave the repair?"
          text="What you have drawn is not saved."
          action="Drop it"
          done={onClose}
          onClose={() => setLeaving(false)}
        />
      )}
    </>
  );
}

async function picture(url: string): Promise<ImageBitmap> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(url);
  return createImageBitmap(await answer.blob());
}
