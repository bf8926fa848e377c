/** Bringing pieces in: what the files are, how large a pixel is, and off they go. */
import { useEffect, useRef, useState } from "react";
import { api } from "../api/client";
import type { Id, Job, Thing, Upload, UploadFile } from "../api/types";
import { Button } from "../parts/Button";
import type { Dropped } from "../parts/files";
import { Modal } from "../parts/Modal";
import { Progress } from "../parts/Progress";
import { asSentence, capital } from "../parts/words";
import { bench, pieceOf, say, select } from "../state/bench";
import { signature } from "../state/identity";
import { useStore } from "../state/store";
import { isOver, succeeded, tell } from "../state/sync";
import { forgetDraft } from "./bringIn";
import { sayBytes } from "./ExportDialog";
import { FoundThings } from "./FoundThings";
import { ScaleChoice, scaleOf, type Scale } from "./ScaleChoice";

/** Warnings that are told at once. */
const TOLD = 3;

export function ImportDialog({
  files,
  draft,
  onClose,
}: {
  files: readonly Dropped[];
  /** Whether the project was made for these files. */
  draft: boolean;
  onClose: () => void;
}) {
  const [upload, setUpload] = useState<Upload | null>(null);
  const [running, setRunning] = useState<Job | null>(null);
  const [mode, setMode] = useState<"auto" | "pieces" | "tray">("auto");
  const [scale, setScale] = useState<Scale>({ by: "files", mm_per_px: null, rulers: [] });
  const [refused, setRefused] = useState<ReadonlySet<Thing>>(new Set());
  const [provenance, setProvenance] = useState("");
  const closed = useRef(false);
  const job = useStore(bench, (now) => (running ? (now.jobs[running.id] ?? running) : null));
  const close = () => {
    closed.current = true;
    onClose();
    // What is being brought in goes on without the dialog.
    if (draft && !(upload && job && !isOver(job))) void forgetDraft();
  };
  useEffect(() => {
    const { project } = bench.get();
    if (!project) return onClose();
    const wanted = () => !closed.current;
    void tell(async () => {
      const made = await api.upload(project.id, [...files]);
      if (!wanted()) return;
      setRunning(made.job);
      if (!(await succeeded(made.job))) return wanted() && close();
      if (!wanted()) return;
      const inspected = await api.uploaded(project.id, made.id);
      setRunning(null);
      setUpload(inspected);
      const things = inspected.files.flatMap((file) => file.things);
      setRefused(new Set(things.filter((thing) => thing.doubt)));
      const known = inspected.files.some(
        (file) => file.mm_per_px || file.kind === "puzzle" || file.kind === "zip",
      );
      const photo = inspected.files.find((file) => file.kind === "photograph" && file.preview);
      if (!known) setScale((now) => ({ ...now, by: photo ? "ruler" : "number" }));
    }, wanted).then((well) => well || !wanted() || close());
    return () => {
      closed.current = true;
    };
  }, []);

  const readable = upload?.files.filter((file) => !file.error && file.kind !== "other") ?? [];
  const cut = readable.filter(
    (file) => file.kind === "photograph" && (mode === "tray" || (mode === "auto" && file.tray)),
  );
  const trays = cut.filter((file) => file.things.length);
  const usable = readable.filter(
    (file) => !trays.includes(file) || file.things.some((thing) => !refused.has(thing)),
  );
  const toggle = (thing: Thing) => {
    const now = new Set(refused);
    if (!now.delete(thing)) now.add(thing);
    setRefused(now);
  };
  const start = () =>
    tell(async () => {
      const { project, hypothesis } = bench.get();
      const size = scaleOf(scale);
      if (!project || !upload || !size) return;
      const { job: made } = await api.bringIn(project.id, {
        upload: upload.id,
        mode,
        ...size,
        refused: trays.flatMap((file) =>
          file.things
            .filter((thing) => refused.has(thing))
            .map(({ x_px, y_px }) => ({ file: file.index, x_px, y_px })),
        ),
        provenance,
        files: usable.map((file) => file.index),
        hypothesis,
        ...signature(),
      });
      setRunning(made);
      const done = await succeeded(made);
      setRunning(null);
      if (!done) return;
      bench.set({ pieces: await api.pieces(project.id) });
      const { pieces = [], warnings = [] } = (done.result ?? {}) as {
        pieces?: Id[];
        warnings?: string[];
      };
      if (!closed.current) onClose();
      const marked = pieces.filter((id) => pieceOf(bench.get(), id)?.warnings.length).length;
      say(
        pieces.length === 1
          ? "1 piece brought in; it is in the tray."
          : `${pieces.length} pieces brought in; they are in the tray.`,
        marked ? `${sayMarked(marked, pieces.length)}: see the triangle in the tray.` : "",
        marked ? "warning" : "plain",
      );
      const more = warnings.length - TOLD;
      if (warnings.length)
        say(
          warnings.slice(0, TOLD).map(asSentence).join(" "),
          more > 0 ? `And ${more} more.` : "",
          "warning",
        );
      if (pieces.length === 1) select(pieces);
    });

  // Of many files, only the first are looked at closely before they come in.
  const unscaled = cut.find((file) => file.preview && !file.mm_per_px);
  const missing = !usable.length
    ? "Nothing is left to bring in."
    : scale.by === "files" && unscaled
      ? `${unscaled.name} tells no scale: click a ruler in it, or give a number.`
      : scaleOf(scale)
        ? null
        : scale.by === "number"
          ? "Say how large a pixel is."
          : scale.rulers.length
            ? "Say how long the line is."
            : "Click both ends of a length.";
  return (
    <Modal
      wide
      title="Bring in pieces"
      onClose={close}
      footer={
        upload && (
          <>
            <span className="faint spacer">
              {usable.length} of {upload.files.length} files{missing && ` · ${missing}`}
            </span>
            <Button onClick={close}>Cancel</Button>
            <Button
              kind="main"
              onClick={start}
              disabled={missing !== null}
              busy={job !== null && !isOver(job)}
            >
              Bring in
            </Button>
          </>
        )
      }
    >
      {job && !isOver(job) && (
        <Progress
          job={job}
          words={upload ? "Bringing in" : "Looking at the files"}
          onCancel={upload ? undefined : close}
        />
      )}
      {!upload && !job && (
        <p className="faint">
          Sending {files.length} file{files.length === 1 ? "" : "s"} to the workbench…
        </p>
      )}
      {upload && (
        <div className="import">
          <div className="stack">
            <FileList files={upload.files} />
            {upload.files.some((file) => file.kind === "photograph") && (
              <label className="text-field">
                <span>A photograph shows</span>
                <select
                  value={mode}
                  onChange={(event) => setMode(event.target.value as typeof mode)}
                >
                  <option value="auto">one piece or many: look at it</option>
                  <option value="pieces">one piece</option>
                  <option value="tray">a tray with many pieces</option>
                </select>
              </label>
            )}
            {trays.map((file) => (
              <FoundThings key={file.index} file={file} refused={refused} onToggle={toggle} />
            ))}
            <label className="text-field">
              <span>Provenance of all of them (optional)</span>
              <input
                value={provenance}
                maxLength={400}
                onChange={(event) => setProvenance(event.target.value)}
              />
            </label>
          </div>
          {readable.length > 0 && (
            <ScaleChoice files={usable} guessed={!unscaled} scale={scale} onChange={setScale} />
          )}
        </div>
      )}
    </Modal>
  );
}

function sayMarked(marked: number, all: number): string {
  if (all === 1) return "It is marked";
  return marked === 1 ? "1 of them is marked" : `${marked} of them are marked`;
}

const KINDS: Record<UploadFile["kind"], string> = {
  cutout: "cut-out",
  photograph: "photograph",
  zip: "archive",
  project: "project",
  puzzle: "puzzle",
  other: "not used",
};

function FileList({ files }: { files: readonly UploadFile[] }) {
  return (
    <ul className="file-list">
      {files.map((file) => (
        <li key={file.index} className={file.error ? "bad" : undefined}>
          <strong>{file.name}</strong>
          <span className="faint">
            {(file.error && capital(file.error)) ??
              [
                file.several && file.several > 1
                  ? `${KINDS[file.kind]}, ${file.several} pieces seen`
                  : KINDS[file.kind],
                file.width_px ? `${file.width_px} × ${file.height_px}` : null,
                file.dpi ? `${Math.round(file.dpi)} dpi` : null,
                sayBytes(file.bytes),
              ]
                .filter(Boolean)
                .join(" · ")}
          </span>
        </li>
      ))}
    </ul>
  );
}
