/** Who did what and when; every step can be gone back to. */
import { useEffect, useState } from "react";
import { api } from "../api/client";
import type { HistoryEvent } from "../api/types";
import { Button } from "../parts/Button";
import { TextField } from "../parts/TextField";
import { bench } from "../state/bench";
import { useStore } from "../state/store";
import { tell } from "../state/sync";
import { branchFrom, restore } from "../state/versions";
import { view } from "../state/view";

const PAGE = 60;

export function HistoryPanel() {
  const project = useStore(bench, (now) => now.project?.id ?? null);
  const hypothesis = useStore(bench, (now) => now.hypothesis);
  const revision = useStore(bench, (now) => now.state.revision);
  const author = useStore(view, (now) => now.author);
  const [events, setEvents] = useState<HistoryEvent[]>([]);
  const [more, setMore] = useState(false);
  useEffect(() => {
    if (!project || !hypothesis) return;
    let wanted = true;
    void tell(async () => {
      const found = await api.history(project, hypothesis, null, PAGE);
      if (!wanted) return;
      setEvents(found);
      setMore(found.length === PAGE);
    });
    return () => {
      wanted = false;
    };
  }, [project, hypothesis, revision]);
  const older = () =>
    void tell(async () => {
      const oldest = events[events.length - 1];
      if (!project || !hypothesis || !oldest) return;
      const found = await api.history(project, hypothesis, oldest.revision, PAGE);
      setEvents([...events, ...found]);
      setMore(found.length === PAGE);
    });
  return (
    <div className="stack">
      <TextField
        label="Your name in the history"
        value={author}
        placeholder="anonymous"
        onTake={(name) => view.set({ author: name.slice(0, 80) })}
      />
      {events.length === 0 && (
        <p className="faint">Nothing has happened yet. Every change you make appears here.</p>
      )}
      <ol className="history">
        {events.map((event) => (
          <li key={event.revision} className={event.undone ? "undone" : undefined}>
            <p>
              <span className="figures">{event.revision}</span> {event.summary}
              {event.undone && <span className="tag">undone</span>}
            </p>
            <p className="faint">
              {event.author || "anonymous"} ·{" "}
              <time dateTime={event.at}>
                {new Date(event.at).toLocaleString(undefined, {
                  dateStyle: "short",
                  timeStyle: "medium",
                })}
              </time>
            </p>
            {event.revision !== revision && (
              <div className="row">
                <Button kind="quiet" onClick={() => restore(event.revision)}>
                  Restore
                </Button>
                <Button kind="quiet" onClick={() => branchFrom(hypothesis, event.revision)}>
                  Branch from here
                </Button>
              </div>
            )}
          </li>
        ))}
      </ol>
      {more && <Button onClick={older}>Older</Button>}
    </div>
  );
}
