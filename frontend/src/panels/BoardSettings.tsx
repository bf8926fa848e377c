/** What belongs to the board and to no piece: the reference picture and the guides. */
import { useRef, type RefObject } from "react";
import { api } from "../api/client";
import type { Reference } from "../api/types";
import type { Board } from "../board/Board";
import { wrapDeg } from "../geometry/pose";
import { Button, IconButton } from "../parts/Button";
import { MM_PER_PX, NumberField } from "../parts/NumberField";
import { Slider } from "../parts/Slider";
import { bench } from "../state/bench";
import { randomName } from "../state/identity";
import { edit } from "../state/queue";
import { useStore } from "../state/store";
import { succeeded, tell } from "../state/sync";

export function BoardSettings({ board }: { board: RefObject<Board | null> }) {
  return (
    <div className="stack">
      <ReferenceSettings board={board} />
      <Guides board={board} />
    </div>
  );
}

function middle(board: Board | null): [number, number] {
  const [x, y] = board?.middle ?? [0, 0];
  return [Math.round(x * 10) / 10, Math.round(y * 10) / 10];
}

function ReferenceSettings({ board }: { board: RefObject<Board | null> }) {
  const reference = useStore(bench, (now) => now.state.reference);
  const input = useRef<HTMLInputElement>(null);
  const change = (part: Partial<Reference>) =>
    reference && edit([{ op: "reference", reference: { ...reference, ...part } }]);
  const bringIn = async (file: File) => {
    const { project } = bench.get();
    if (!project) return;
    await tell(async () => {
      const done = await succeeded((await api.reference(project.id, file)).job);
      const found = done?.result as
        { picture: string; width_px: number; mm_per_px: number | null } | null | undefined;
      if (!found) return;
      const shown = board.current;
      const [x_mm, y_mm] = middle(shown);
      const fitted = shown ? shown.width / shown.camera.px_per_mm / 2 / found.width_px : 0.1;
      edit([
        {
          op: "reference",
          reference: {
            picture: found.picture,
            x_mm,
            y_mm,
            rotation_deg: 0,
            mm_per_px: found.mm_per_px ?? fitted,
            opacity: 0.4,
          },
        },
      ]);
    });
  };
  return (
    <fieldset className="place">
      <legend>Reference picture</legend>
      {!reference && (
        <p className="faint">An old photograph or a drawing, laid underneath to compare with.</p>
      )}
      {reference && (
        <>
          <div className="three">
            <NumberField
              label="x"
              value={reference.x_mm}
              unit="mm"
              onTake={(x_mm) => change({ x_mm })}
            />
            <NumberField
              label="y"
              value={reference.y_mm}
              unit="mm"
              onTake={(y_mm) => change({ y_mm })}
            />
            <NumberField
              label="Angle"
              value={reference.rotation_deg}
              unit="°"
              onTake={(angle) => change({ rotation_deg: wrapDeg(angle) })}
            />
          </div>
          <NumberField
            label="Scale"
            value={reference.mm_per_px}
            unit="mm/px"
            digits={4}
            range={MM_PER_PX}
            onTake={(mm_per_px) => change({ mm_per_px })}
          />
          <Slider
            label="Opacity"
            value={reference.opacity}
            least={0.05}
            onTake={(opacity) => change({ opacity })}
          />
        </>
      )}
      <div className="row wrap">
        <Button onClick={() => input.current?.click()}>
          {reference ? "Another picture" : "Choose a picture"}
        </Button>
        {reference && (
          <Button kind="quiet" onClick={() => edit([{ op: "reference", reference: null }])}>
            Remove
          </Button>
        )}
        <input
          ref={input}
          type="file"
          hidden
          accept="image/*,.heic,.heif,.tif,.tiff"
          aria-label="Choose a reference picture"
          onChange={(event) => {
            const file = event.target.files?.[0];
            if (file) void bringIn(file);
            event.target.value = "";
          }}
        />
      </div>
    </fieldset>
  );
}

function Guides({ board }: { board: RefObject<Board | null> }) {
  const guides = useStore(bench, (now) => now.state.guides);
  const add = (axis: "x" | "y") => {
    const [x, y] = middle(board.current);
    edit([{ op: "guide", id: randomName(), axis, position_mm: axis === "x" ? x : y }]);
  };
  return (
    <fieldset className="place">
      <legend>Guides</legend>
      <p className="faint">Drag them out of the rulers; let go there and they are gone.</p>
      {guides.map((guide) => (
        <div className="row" key={guide.id}>
          <NumberField
            label={guide.axis === "x" ? "Upright at" : "Level at"}
            value={guide.position_mm}
            unit="mm"
            onTake={(position_mm) =>
              edit([{ op: "guide", id: guide.id, axis: guide.axis, position_mm }])
            }
          />
          <IconButton
            icon="close"
            label="Remove this guide"
            onClick={() => edit([{ op: "guide", id: guide.id, axis: null, position_mm: null }])}
          />
        </div>
      ))}
      <div className="row wrap">
        <Button onClick={() => add("x")}>Add upright</Button>
        <Button onClick={() => add("y")}>Add level</Button>
      </div>
    </fieldset>
  );
}
