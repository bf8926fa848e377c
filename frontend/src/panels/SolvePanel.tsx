/** Lets a solver propose: all pieces or only the unplaced, and what it came back with. */
import { useEffect, useMemo, useRef, type RefObject } from "react";
import { api } from "../api/client";
import type { Id, Job, Proposal, SolveResult } from "../api/types";
import type { Board } from "../board/Board";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { Confidence } from "../parts/Confidence";
import { MiniAssembly } from "../parts/MiniAssembly";
import { Progress } from "../parts/Progress";
import { asSentence, capital } from "../parts/words";
import { nameOf } from "../state/actions";
import { attemptOf, isAttemptShown } from "../state/attempt";
import { bench, livePieces, placedIds, say, type Bench } from "../state/bench";
import { signature } from "../state/identity";
import { contradicted, placementOf } from "../state/operations";
import { createStore, useStore } from "../state/store";
import { goTo, isOver, tell } from "../state/sync";
import { freeName } from "../state/versions";

/** What is asked of a solver; kept from one solve to the next. */
const wish = createStore<{
  scope: "all" | "unplaced";
  solver: string | null;
  seed: number;
  /** Pieces that the solver is less sure of stay in the tray; 0 places every piece. */
  trust: number;
}>({ scope: "all", solver: null, seed: 0, trust: 0.5 });

const TRUST: readonly (readonly [number, string])[] = [
  [0.5, "to the tray, if under 50 %"],
  [0.8, "to the tray, if under 80 %"],
  [0, "placed too, however doubtful"],
];

export function SolvePanel({ board }: { board: RefObject<Board | null> }) {
  const jobs = useStore(bench, (now) => now.jobs);
  const hypothesis = useStore(bench, (now) => now.hypothesis);
  const tried = useStore(bench, (now) => attemptOf(now) !== null);
  const shown = useStore(bench, isAttemptShown);
  const laid = useStore(bench, sayLaid);
  const solves = useMemo(
    () =>
      Object.values(jobs)
        .filter((job) => job.kind === "solve" && job.hypothesis === hypothesis)
        .sort((a, b) => b.created_at.localeCompare(a.created_at)),
    [jobs, hypothesis],
  );
  const running = solves.find((job) => !isOver(job));
  const last = solves.find(isOver);
  /** Proposals stay until there are others. */
  const proposed = solves.find((job) => job.state === "done");
  const panel = useRef<HTMLDivElement>(null);
  const byKeys = useRef(false);
  const busy = running !== undefined;
  // A button that was pressed by a key hands the focus to the one that takes its place.
  useEffect(() => {
    if (!byKeys.current || document.activeElement !== document.body) return;
    const next = busy ? ".progress-card .button" : ".button.main";
    panel.current?.querySelector<HTMLElement>(next)?.focus();
  }, [busy]);
  return (
    <div
      className="stack"
      ref={panel}
      onClickCapture={(event) => {
        byKeys.current = event.detail === 0;
      }}
    >
      {running ? <Progress job={running} words="Solving" /> : <Wish />}
      {running && (
        <p className="faint">
          You can go on working; what you lock meanwhile stays, other pieces may be laid elsewhere.{" "}
          {shown
            ? `The board shows what the solver is trying, ${laid} so far; your pieces lie as they lay.`
            : tried
              ? "The board shows your pieces, not what the solver is trying."
              : "As soon as two pieces seem to join, the board shows what the solver is trying."}
        </p>
      )}
      {!running && last && last !== proposed && <Outcome job={last} board={board} />}
      {!running && proposed && <Outcome job={proposed} board={board} />}
    </div>
  );
}

/** How many pieces a running solver has laid out, of those that it may move. */
function sayLaid(now: Bench): string {
  const tried = Object.values(now.previews[attemptOf(now) ?? ""] ?? {});
  const laid = tried.filter(({ placed }) => placed).length;
  if (tried.length === livePieces(now).length) return `${laid} of ${tried.length} pieces`;
  return `${laid} of the ${tried.length} pieces that it may move`;
}

function Wish() {
  const about = useStore(bench, (now) => now.about);
  const pieces = useStore(bench, (now) => livePieces(now).length);
  const placed = useStore(bench, (now) => placedIds(now).length);
  const locked = useStore(
    bench,
    (now) => placedIds(now).filter((id) => placementOf(now.state, id).locked).length,
  );
  const apart = useStore(bench, isHeldApart);
  const judged = useStore(
    bench,
    (now) => now.judgements.filter((one) => one.verdict !== "unsure").length,
  );
  const { scope, solver, seed, trust } = useStore(wish, (now) => now);
  const chosen = solver ?? about?.default_solver ?? "";
  const solve = () =>
    tell(async () => {
      const { project, hypothesis } = bench.get();
      if (!project || !hypothesis) return;
      const { job } = await api.solve(project.id, hypothesis, {
        solver: chosen || null,
        seed,
        scope,
        trust: chosen === HONOURS ? trust : 0,
        apply: true,
        ...signature(),
      });
      bench.set((now) => ({ jobs: { ...now.jobs, [job.id]: { ...job, ...now.jobs[job.id] } } }));
    });
  const unplaced = pieces - placed;
  const summary = about?.solvers.find((one) => one.name === chosen);
  return (
    <>
      <fieldset className="choices">
        <legend>What to solve</legend>
        <label>
          <input
            type="radio"
            name="scope"
            checked={scope === "all"}
            onChange={() => wish.set({ scope: "all" })}
          />
          <span>
            {locked ? `All, around the ${locked} locked` : "All pieces"}
            <small>
              {locked
                ? "Locked pieces stay exactly where they are."
                : "Lock pieces that are right (L) and the rest is solved around them."}
            </small>
          </span>
        </label>
        <label>
          <input
            type="radio"
            name="scope"
            checked={scope === "unplaced"}
            disabled={!placed || !unplaced}
            onChange={() => wish.set({ scope: "unplaced" })}
          />
          <span>
            {unplaced ? `Only the ${unplaced} unplaced` : "Only the unplaced"}
            <small>
              {unplaced
                ? "Everything on the board stays."
                : pieces
                  ? "Every piece is placed."
                  : "There are no pieces yet."}
            </small>
          </span>
        </label>
      </fieldset>
      {apart && (
        <p className="caution">
          <Icon name="warning" />
          Locked pieces lie in several islands. Only those of one can be solved around, that with
          most of them: the others stay and take no part, nor do joins with them.
        </p>
      )}
      {chosen === HONOURS && (
        <label className="text-field">
          <span>Pieces that the solver doubts</span>
          <select
            value={trust}
            onChange={(event) => wish.set({ trust: Number(event.target.value) })}
          >
            {TRUST.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
      )}
      {judged > 0 && (
        <p className={chosen === HONOURS ? "faint" : "caution"}>{sayJudged(judged, chosen)}</p>
      )}
      {chosen === HONOURS && <Contradictions />}
      <details>
        <summary>Solver</summary>
        <div className="stack">
          <label className="text-field">
            <span>Method</span>
            <select value={chosen} onChange={(event) => wish.set({ solver: event.target.value })}>
              {about?.solvers.map((one) => (
                <option key={one.name} value={one.name} disabled={!one.available}>
                  {one.name}
                  {one.name === about.default_solver ? " (recommended)" : ""}
                  {one.available ? "" : ` (needs ${one.needs ?? "more"})`}
                </option>
              ))}
            </select>
          </label>
          {summary && <p className="faint">{summary.summary}</p>}
          <label className="text-field">
            <span>Seed: another number gives another attempt</span>
            <input
              type="number"
              min={0}
              value={seed}
              onChange={(event) =>
                wish.set({ seed: Math.max(0, Math.floor(Number(event.target.value) || 0)) })
              }
            />
          </label>
        </div>
      </details>
      <Button kind="main" onClick={solve} disabled={pieces < 2}>
        Solve
      </Button>
      {pieces < 2 && <p className="faint">Bring in two pieces or more first.</p>}
    </>
  );
}

/** Whether locked pieces lie in more than one island. */
function isHeldApart(now: Bench): boolean {
  const held = placedIds(now).map((id) => placementOf(now.state, id));
  return new Set(held.filter((lies) => lies.locked).map((lies) => lies.island ?? 1)).size > 1;
}

/** The one method that listens to judgements of joins. */
const HONOURS = "joins";

function sayJudged(judged: number, solver: string): string {
  const yours = judged === 1 ? "Your judgement of a join" : `Your ${judged} judgements of joins`;
  if (solver === HONOURS)
    return `${yours} will be honoured: accepted ones hold, rejected ones do not come back.`;
  return `${yours} will not be heard: the method “${solver}” looks at locked pieces only. Choose “${HONOURS}” under Solver.`;
}

/** Says which accepted joins cannot hold, before anybody waits for a solver. */
function Contradictions() {
  const judgements = useStore(bench, (now) => now.judgements);
  const state = useStore(bench, (now) => now.state);
  const pieces = useStore(bench, (now) => now.pieces);
  const same_place = useStore(bench, (now) => now.same_place);
  return contradicted(judgements, state, { pieces, same_place }).map(({ first, second }) => (
    <p key={`${first} ${second}`} className="caution">
      <Icon name="warning" />
      {nameOf(first)} and {nameOf(second)} are locked otherwise than the join you accepted. Unlock
      one of them, or take the verdict back: as it is, the join will not be kept.
    </p>
  ));
}

function Outcome({ job, board }: { job: Job; board: RefObject<Board | null> }) {
  if (job.state === "cancelled")
    return <p className="faint">The last solve was cancelled; nothing was changed.</p>;
  if (job.state === "failed") {
    return (
      <p className="caution" role="alert">
        <Icon name="warning" />
        {capital(asSentence(job.error?.what ?? "The last solve failed"))} {job.error?.remedy}
      </p>
    );
  }
  const result = job.result as unknown as SolveResult | null;
  if (!result) return null;
  return (
    <section className="stack" aria-label="Proposals">
      <h3>
        {result.proposals.length > 1
          ? `${result.proposals.length} proposals, most evidence first`
          : "Proposal"}
      </h3>
      {result.confidence_note && (
        <p className="caution">
          <Icon name="warning" />
          {result.confidence_note}
        </p>
      )}
      {result.proposals.every((proposal) => proposal.placed < 2) && (
        <p className="caution">
          <Icon name="warning" />
          No join was sure enough. That is an answer too: neighbours may be missing. To see the best
          guesses, let doubtful pieces be placed too, and solve again.
        </p>
      )}
      {result.warnings.map((warning) => (
        <p key={warning} className="caution">
          <Icon name="warning" />
          {asSentence(warning)}
        </p>
      ))}
      {result.proposals[0] && (
        <Remarks proposal={result.proposals[0]} alone={result.proposals.length === 1} />
      )}
      {!isFalling(result.proposals) && (
        <p className="faint">
          The order goes by the evidence of all joins together, the percentage is the mean over the
          placed pieces: who places fewer can be surer of them, and still come later.
        </p>
      )}
      <div className="proposals">
        {result.proposals.map((proposal) => (
          <ProposalCard
            key={proposal.rank}
            job={job}
            proposal={proposal}
            board={board}
            alone={result.proposals.length === 1}
          />
        ))}
      </div>
    </section>
  );
}

/** What a proposal did not do: the first, which went onto the board. */
function Remarks({ proposal, alone }: { proposal: Proposal; alone: boolean }) {
  const { placed, laid = placed, unplaced = [], left = [] } = proposal;
  const one = left.length === 1;
  return (
    <>
      {placed > 1 && unplaced.length > 0 && (
        <p className="faint">
          No place was sure enough for {listed(unplaced)}
          {!alone && ` in proposal ${proposal.rank}`}.
        </p>
      )}
      {left.length > 0 && (
        <p className="caution">
          <Icon name="warning" />
          {listed(left)} {one ? "stays" : "stay"} where you put {one ? "it" : "them"} while the
          solver worked
          {laid > 0 &&
            "; the others are laid as if you had not. Solve again to have them laid anew"}
          .
        </p>
      )}
    </>
  );
}

const NAMED = 5;

function listed(pieces: readonly Id[]): string {
  const names = pieces.slice(0, NAMED).map(nameOf);
  const more = pieces.length - names.length;
  if (more > 0) return `${names.join(", ")} and ${more} more`;
  const last = names.pop() ?? "";
  return names.length ? `${names.join(", ")} and ${last}` : last;
}

/** Whether no proposal is shown with more confidence than one before it. */
function isFalling(proposals: readonly Proposal[]): boolean {
  const shown = proposals.map(({ confidence }) => Math.round((confidence ?? 0) * 100));
  return shown.every((value, k) => k === 0 || value <= (shown[k - 1] ?? 0));
}

function ProposalCard({
  job,
  proposal,
  board,
  alone,
}: {
  job: Job;
  proposal: Proposal;
  board: RefObject<Board | null>;
  alone: boolean;
}) {
  const islands = new Set(
    Object.values(proposal.placements)
      .filter((p) => p.placed)
      .map((p) => p.island ?? 1),
  ).size;
  // Of those that were to be placed, if that is told.
  const { asked, laid = proposal.placed } = proposal;
  const use = async (name: string | null) => {
    const { project } = bench.get();
    board.current?.revealNext();
    const well = await tell(async () => {
      const made = await api.applyProposal(job.id, proposal.rank, name, signature());
      if (name && project) {
        bench.set({ hypotheses: await api.hypotheses(project.id) });
        goTo(project.id, made.id);
      } else say(`Proposal ${proposal.rank} is on the board.`, "Undo takes it back.");
    });
    if (!well) board.current?.revealNext(false);
  };
  return (
    <article className="proposal">
      <MiniAssembly
        placements={proposal.placements}
        label={`Proposal ${proposal.rank}`}
        height={alone ? 200 : 120}
      />
      <p>
        <strong>{proposal.rank}</strong> · {laid}
        {asked !== undefined && asked > laid && ` of ${asked}`} placed
        {islands > 1 && ` in ${islands} islands`}
      </p>
      {!laid ? null : proposal.confidence !== null ? (
        <Confidence value={proposal.confidence} />
      ) : (
        <p className="faint">confidence unknown</p>
      )}
      {laid > 0 && (
        <div className="row">
          <Button onClick={() => use(null)}>Use</Button>
          <Button
            kind="quiet"
            onClick={() => use(freeName(`Proposal ${proposal.rank}`))}
            hint="Keeps what is on the board in its own hypothesis"
          >
            Keep as new
          </Button>
        </div>
      )}
    </article>
  );
}
