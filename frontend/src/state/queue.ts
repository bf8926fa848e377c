/**
 * Changes on their way to the server: shown at once, sent one after another, kept in the browser
 * until they are confirmed, and sent again after the server was away.
 */
import { api, Refusal } from "../api/client";
import type { EditEvent, EditResult, Hypothesis, Id, Op, State } from "../api/types";
import { isAttemptShown, showAttempt, showChanged } from "./attempt";
import { bench, say, type Bench } from "./bench";
import { isMine, signature } from "./identity";
import { applied, judgementsAfter, needsPieces, piecesAfter } from "./operations";

type Step = { kind: "edit"; operations: Op[] } | { kind: "undo" } | { kind: "redo" };

const AGAIN_MS = 1000;

let confirmed: State | null = null;
let steps: Step[] = [];
let sending = false;
/** The step in flight, until its answer or the stream has told what became of it. */
let inFlight: Step | null = null;
let reload: () => Promise<void> = async () => undefined;

const keptUnder = (p: Id, h: Id) => `reassembly.unsent.${p}.${h}`;

/** Begins anew with a hypothesis as the server knows it. */
export function begin(found: Hypothesis, refetch: () => Promise<void>): void {
  confirmed = found.state;
  reload = refetch;
  const { id: hypothesis, can_undo, can_redo } = found;
  // In one step, so that nobody sees one hypothesis under the name of another.
  show({ hypothesis, can_undo, can_redo });
}

/** Forgets what belongs to the hypothesis left behind; its unsent changes stay in the browser. */
export function leave(): void {
  steps = [];
  inFlight = null;
  confirmed = null;
}

/** Waits until every change has been sent, but not for a server that is away. */
export async function sent(): Promise<void> {
  while (steps.length && bench.get().connected) await new Promise((done) => setTimeout(done, 15));
}

/** Takes up changes that an earlier window could not send. */
export function resume(p: Id, h: Id): void {
  const kept = localStorage.getItem(keptUnder(p, h));
  if (!kept) return;
  const unsent = JSON.parse(kept) as Op[][];
  steps = unsent.map((operations) => ({ kind: "edit", operations }));
  if (steps.length)
    say(`${steps.length} unsaved change${steps.length > 1 ? "s" : ""} found again and saved.`);
  show();
  void send();
}

/** Makes a change. It is on the screen when this returns. */
export function edit(operations: Op[]): void {
  if (!operations.length || !bench.get().hypothesis) return;
  steps.push({ kind: "edit", operations });
  holdForProject(operations, signature().author);
  show();
  showChanged(operations);
  void send();
}

export function undo(): void {
  stepBack("undo");
}

export function redo(): void {
  stepBack("redo");
}

function stepBack(kind: "undo" | "redo"): void {
  if (!bench.get().hypothesis) return;
  steps.push({ kind });
  show();
  if (isAttemptShown(bench.get())) showAttempt(false);
  void send();
}

/** An edit told by the stream: another window's, or this one's. */
export function hear(event: EditEvent): void {
  const now = bench.get();
  if (event.hypothesis !== now.hypothesis || !confirmed) {
    holdForProject(event.operations, event.author);
    refreshPieces(event.operations);
    return;
  }
  take(event, event.author, isMine(event.client) && event.kind === inFlight?.kind);
}

/** Confirms one more revision. `mine`: it is the step in flight. */
function take(result: EditResult, author: string, mine: boolean): void {
  if (!confirmed || result.revision <= confirmed.revision) return;
  if (result.revision !== confirmed.revision + 1) {
    void reload();
    return;
  }
  confirmed = { ...applied(confirmed, result.operations), revision: result.revision };
  if (mine) drop();
  // What this window has done itself it shows already, and later changes of its own on top.
  if (!mine || result.kind !== "edit") holdForProject(result.operations, author);
  refreshPieces(result.operations);
  bench.set({ can_undo: result.can_undo, can_redo: result.can_redo });
  show();
}

function drop(): void {
  if (inFlight && steps[0] === inFlight) steps.shift();
  inFlight = null;
  keep();
}

function holdForProject(operations: readonly Op[], author: string): void {
  const now = bench.get();
  const pieces = piecesAfter(now.pieces, operations);
  const judgements = judgementsAfter(now.judgements, operations, author, { ...now, pieces });
  if (pieces !== now.pieces || judgements !== now.judgements) {
    bench.set({ pieces, judgements, joins_version: now.joins_version + 1 });
  }
}

/** Asks for the pieces again where only the server knows what became of them. */
function refreshPieces(operations: readonly Op[]): void {
  const { project } = bench.get();
  if (!project || !needsPieces(operations)) return;
  void api.pieces(project.id).then(
    (pieces) => bench.set({ pieces }),
    () => undefined,
  );
}

function show(more: Partial<Bench> = {}): void {
  if (!confirmed) return;
  let state = confirmed;
  for (const step of steps) if (step.kind === "edit") state = applied(state, step.operations);
  bench.set({ ...more, state, unsaved: steps.length });
}

function keep(): void {
  const { project, hypothesis } = bench.get();
  if (!project || !hypothesis) return;
  const unsent = steps.flatMap((step) => (step.kind === "edit" ? [step.operations] : []));
  const key = keptUnder(project.id, hypothesis);
  if (unsent.length) localStorage.setItem(key, JSON.stringify(unsent));
  else localStorage.removeItem(key);
}

async function send(): Promise<void> {
  keep();
  if (sending) return;
  sending = true;
  try {
    while (steps[0]) await sendFirst(steps[0]);
  } finally {
    sending = false;
  }
}

async function sendFirst(step: Step): Promise<void> {
  const { project, hypothesis } = bench.get();
  if (!project || !hypothesis) {
    steps = [];
    return;
  }
  // Every step before it is confirmed by now, and so it is known whether there is anything to do.
  if (step.kind !== "edit" && !bench.get()[`can_${step.kind}`]) {
    steps.shift();
    show();
    return;
  }
  inFlight = step;
  try {
    const by = signature();
    const result =
      step.kind === "edit"
        ? await api.edit(project.id, hypothesis, step.operations, by)
        : await api[step.kind](project.id, hypothesis, by);
    bench.set({ connected: true });
    if (inFlight === step) take(result, by.author, true);
    if (inFlight === step) drop();
  } catch (trouble) {
    if (!(trouble instanceof Refusal)) throw trouble;
    if (trouble.unreachable) {
      bench.set({ connected: false });
      await new Promise((done) => setTimeout(done, AGAIN_MS));
      return;
    }
    drop();
    if (trouble.status !== 409) say(trouble.trouble.what, trouble.trouble.remedy, "bad");
    await reload();
  }
  show();
}
