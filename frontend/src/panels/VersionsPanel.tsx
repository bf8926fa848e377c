/** Hypotheses: side by side in a list, opened, branched, compared, renamed, deleted. */
import { useEffect, useState } from "react";
import { api } from "../api/client";
import type { HypothesisSummary, Id, Placement } from "../api/types";
import { Button } from "../parts/Button";
import { Confidence } from "../parts/Confidence";
import { MiniAssembly } from "../parts/MiniAssembly";
import { bench, open } from "../state/bench";
import { useStore } from "../state/store";
import { goTo } from "../state/sync";
import { branchFrom, deleteHypothesis, renameHypothesis } from "../state/versions";
import { sayWhen } from "./Projects";

export function VersionsPanel() {
  const hypotheses = useStore(bench, (now) => now.hypotheses);
  const current = useStore(bench, (now) => now.hypothesis);
  return (
    <div className="stack">
      <p className="faint">
        A hypothesis is one way the pieces may lie. Branch it to try another without losing this
        one.
      </p>
      <Button icon="branch" onClick={() => branchFrom(current, null)}>
        Branch this hypothesis
      </Button>
      <ul className="versions">
        {hypotheses.map((one) => (
          <Version key={one.id} one={one} current={current} last={hypotheses.length === 1} />
        ))}
      </ul>
    </div>
  );
}

function Version({
  one,
  current,
  last,
}: {
  one: HypothesisSummary;
  current: Id | null;
  last: boolean;
}) {
  const project = useStore(bench, (now) => now.project?.id ?? null);
  const revision = useStore(bench, (now) =>
    one.id === current ? now.state.revision : one.revision,
  );
  const parent = useStore(
    bench,
    (now) => now.hypotheses.find((other) => other.id === one.parent)?.name ?? null,
  );
  const [placements, setPlacements] = useState<Record<Id, Placement> | null>(null);
  useEffect(() => {
    if (!project) return;
    let wanted = true;
    void api.hypothesis(project, one.id).then(
      ({ state }) => wanted && setPlacements(state.placements),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [project, one.id, revision]);
  const open_ = one.id === current;
  const placed = placements
    ? Object.values(placements).filter((row) => row.placed).length
    : one.placed;
  return (
    <li className={open_ ? "version current" : "version"}>
      {placements && (
        <MiniAssembly placements={placements} label={`Picture of ${one.name}`} height={76} />
      )}
      <div className="version-words">
        <strong>{one.name}</strong>
        {open_ && <span className="tag">open</span>}
        <p className="faint">
          {placed} placed · step {revision} · {sayWhen(one.changed_at)}
          {parent && ` · from “${parent}”`}
        </p>
        {one.confidence !== null && <Confidence value={one.confidence} />}
      </div>
      <div className="row wrap">
        {!open_ && project && <Button onClick={() => goTo(project, one.id)}>Open</Button>}
        {!open_ && current && (
          <Button onClick={() => open({ kind: "compare", first: current, second: one.id })}>
            Compare
          </Button>
        )}
        <Button kind="quiet" onClick={() => renameHypothesis(one.id)}>
          Rename
        </Button>
        <Button kind="quiet" onClick={() => branchFrom(one.id, null)}>
          Branch
        </Button>
        {!last && (
          <Button kind="quiet" onClick={() => deleteHypothesis(one.id)}>
            Delete
          </Button>
        )}
      </div>
    </li>
  );
}
