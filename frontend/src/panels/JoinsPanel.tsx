/** Which pieces may join the chosen one, how well, and why; and what the person thinks of it. */
import { useEffect, useMemo, useState, type RefObject } from "react";
import { api } from "../api/client";
import type { Id, Join, Judgement, Piece } from "../api/types";
import type { Board } from "../board/Board";
import { Button } from "../parts/Button";
import { Progress } from "../parts/Progress";
import { bench, pieceOf, say } from "../state/bench";
import { signature } from "../state/identity";
import { sameJoin } from "../state/operations";
import { useStore } from "../state/store";
import { isOver, succeeded, tell } from "../state/sync";
import { JoinCard } from "./JoinCard";

interface Found {
  piece: Id;
  joins: Join[];
  found_at: string | null;
  stale: boolean;
  settled: boolean;
  /** The verdicts that the page knew of then. */
  heard: string;
}

/** What a search for joins would hear of verdicts. */
function heardIn(judgements: readonly Judgement[]): string {
  return JSON.stringify(
    judgements
      .filter(({ verdict }) => verdict !== "unsure")
      .map(({ first, second, pose, verdict }) => [first, second, pose, verdict]),
  );
}

export function JoinsPanel({ board }: { board: RefObject<Board | null> }) {
  const project = useStore(bench, (now) => now.project?.id ?? null);
  const chosen = useStore(bench, (now) =>
    now.selection.size === 1 ? ([...now.selection][0] ?? null) : null,
  );
  const piece = useStore(bench, (now) => (chosen ? pieceOf(now, chosen) : undefined));
  const version = useStore(bench, (now) => now.joins_version);
  const running = useStore(bench, (now) =>
    Object.values(now.jobs).find((job) => job.kind === "joins" && !isOver(job)),
  );
  const [found, setFound] = useState<Found | null>(null);
  useEffect(() => {
    if (!project || !chosen) return;
    let current = true;
    void tell(async () => {
      const answer = await api.joins(project, chosen);
      if (current) setFound({ ...answer, piece: chosen, heard: heardIn(bench.get().judgements) });
    });
    return () => {
      current = false;
    };
  }, [project, chosen, version]);

  const look = () =>
    tell(async () => {
      if (!project) return;
      const { job } = await api.findJoins(project, signature());
      const done = await succeeded(job);
      if (!done) return;
      bench.set((now) => ({ joins_version: now.joins_version + 1 }));
      say("Joins are found.", "Choose a piece to see its partners.");
    });
  if (running) return <Progress job={running} words="Looking for joins" />;
  if (!piece || !chosen) {
    return (
      <div className="stack">
        <p className="faint">
          Choose one piece, on the board or in the tray, to see which others may join it, and judge
          them.
        </p>
        <Button onClick={look}>Look for joins</Button>
      </div>
    );
  }
  if (found?.piece !== chosen) return <p className="faint">Asking for joins…</p>;
  return <Partners piece={piece} found={found} look={look} board={board} />;
}

function Partners({
  piece,
  found,
  look,
  board,
}: {
  piece: Piece;
  found: Found;
  look: () => void;
  board: RefObject<Board | null>;
}) {
  const pieces = useStore(bench, (now) => now.pieces);
  const same_place = useStore(bench, (now) => now.same_place);
  const heard = useStore(bench, (now) => heardIn(now.judgements));
  // Of joins nearly alike only the best is shown, since a verdict on one is a verdict on all.
  const joins = useMemo(() => {
    const kept: Join[] = [];
    for (const join of found.joins)
      if (!kept.some((better) => sameJoin(better, join, { pieces, same_place }))) kept.push(join);
    return kept;
  }, [found, pieces, same_place]);
  if (!found.found_at) {
    return (
      <div className="stack">
        <p>No joins have been looked for yet.</p>
        <p className="faint">
          Every pair of pieces is compared along its edges, by shape and by paint. This takes a
          while and runs in the background.
        </p>
        <Button kind="main" onClick={look}>
          Look for joins
        </Button>
      </div>
    );
  }
  return (
    <div className="stack">
      <div className="row">
        <h2>Joins of {piece.inventory || piece.name}</h2>
        {!(found.settled && found.heard === heard) && (
          <Button kind="quiet" onClick={look}>
            Look again
          </Button>
        )}
      </div>
      {found.stale && (
        <p className="caution">
          The pieces have changed since these were found. Look again for a list that knows of it.
        </p>
      )}
      {joins.length === 0 && (
        <p className="faint">
          No partner was found that is better than chance. That is an answer too: the neighbour may
          be missing.
        </p>
      )}
      {joins.length > 0 && (
        <p className="faint">
          The most probable first, by shape and paint together; your verdicts do not move them.
          Probabilities were calibrated on made puzzles and on 23 real ones; for other material they
          are unproven. Let your eyes and hands decide.
        </p>
      )}
      <ol className="joins">
        {joins.map((join) => (
          <JoinCard key={join.id} join={join} listed={joins} piece={piece} board={board} />
        ))}
      </ol>
    </div>
  );
}
