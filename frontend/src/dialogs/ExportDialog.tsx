/** Takes the open hypothesis away: poses, project, drawings, picture, report. */
import { useState } from "react";
import { api } from "../api/client";
import type { Job } from "../api/types";
import { Button } from "../parts/Button";
import { Modal } from "../parts/Modal";
import { Progress } from "../parts/Progress";
import { bench } from "../state/bench";
import { useStore } from "../state/store";
import { isOver, succeeded, tell } from "../state/sync";

const FORMATS: Record<string, readonly [name: string, text: string]> = {
  html: ["Report", "To print or publish: the assembly, its scale, poses, joins, unplaced pieces"],
  png: ["Picture", "PNG at full resolution"],
  svg: ["Drawing", "SVG, one layer a piece, true scale, for Inkscape and Illustrator"],
  csv: ["Poses", "CSV in RePAIR’s form"],
  geojson: ["Outlines", "GeoJSON, for QuPath and GIS"],
  assembly: ["Assembly", "JSON of the poses, for this package’s commands"],
  json: ["Project", "JSON with everything; drop it here to open it again"],
  zip: ["Archive", "What is chosen above, in one zip too"],
};

interface Exported {
  name: string;
  /** With the names of project and hypothesis. */
  save_as?: string;
  bytes: number;
  url: string;
}

export function ExportDialog({ onClose }: { onClose: () => void }) {
  const known = useStore(bench, (now) => now.about?.export_formats) ?? Object.keys(FORMATS);
  const name = useStore(
    bench,
    (now) => now.hypotheses.find((one) => one.id === now.hypothesis)?.name ?? "",
  );
  const [wanted, setWanted] = useState<ReadonlySet<string>>(
    new Set(["html", "png", "csv", "json"]),
  );
  const [started, setStarted] = useState<Job | null>(null);
  const job = useStore(bench, (now) => (started ? (now.jobs[started.id] ?? started) : null));
  const formats = Object.keys(FORMATS).filter(
    (format) => known.includes(format) || format === "zip",
  );
  const toggle = (format: string) => {
    const next = new Set(wanted);
    if (!next.delete(format)) next.add(format);
    setWanted(next);
  };
  const start = () =>
    tell(async () => {
      const { project, hypothesis } = bench.get();
      if (!project || !hypothesis) return;
      const { job: made } = await api.export(
        project.id,
        hypothesis,
        formats.filter((format) => wanted.has(format)),
      );
      setStarted(made);
      await succeeded(made);
    });
  const files =
    job?.state === "done" ? (job.result?.["files"] as Exported[] | undefined) : undefined;
  return (
    <Modal
      title={`Export “${name}”`}
      onClose={onClose}
      footer={
        <Button
          kind="main"
          onClick={start}
          disabled={!wanted.size}
          busy={job !== null && !isOver(job)}
        >
          Export
        </Button>
      }
    >
      <fieldset className="choices">
        <legend className="hidden">Formats</legend>
        {formats.map((format) => {
          const [title, text] = FORMATS[format] ?? [format, ""];
          return (
            <label key={format}>
              <input type="checkbox" checked={wanted.has(format)} onChange={() => toggle(format)} />
              <span>
                {title}
                <small>{text}</small>
              </span>
            </label>
          );
        })}
      </fieldset>
      {job && !isOver(job) && <Progress job={job} words="Exporting" />}
      {files && (
        <section aria-label="Exported files">
          <h3>Ready</h3>
          <ul className="downloads">
            {files.map((file) => (
              <li key={file.url}>
                <a href={file.url} download={file.save_as ?? file.name}>
                  {file.save_as ?? file.name}
                </a>{" "}
                <span className="faint">{sayBytes(file.bytes)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </Modal>
  );
}

export function sayBytes(bytes: number): string {
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3))} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
