/** How far a job is, how long it may take, and a way to stop it. */
import { api } from "../api/client";
import type { Job } from "../api/types";
import { tell } from "../state/sync";
import { Button } from "./Button";

export function sayTimeLeft(seconds: number | null): string {
  if (seconds === null) return "";
  if (seconds < 5) return "a few seconds left";
  if (seconds < 90) return `about ${Math.ceil(seconds / 5) * 5} s left`;
  return `about ${Math.round(seconds / 60)} min left`;
}

export function Progress({
  job,
  words,
  onCancel,
}: {
  job: Job;
  words: string;
  /** Called besides: the job may be over before it hears. */
  onCancel?: () => void;
}) {
  const stage = job.state === "queued" ? "waiting for its turn" : job.stage;
  return (
    <div className="progress-card" role="status">
      <div className="row">
        <strong>{words}</strong>
        <Button
          kind="quiet"
          onClick={() => {
            void tell(() => api.cancel(job.id));
            onCancel?.();
          }}
        >
          Cancel
        </Button>
      </div>
      <progress max={1} value={job.fraction} aria-label={words} />
      <p className="faint">
        {Math.round(job.fraction * 100)} % · {stage}
        {job.seconds_left !== null && ` · ${sayTimeLeft(job.seconds_left)}`}
      </p>
    </div>
  );
}
