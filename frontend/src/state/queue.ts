/**
 * Changes on their way to the server: shown at once, sent one after another, kept in the browser
 * until they are confirmed, and sent again after the server was away.
 */
import { api, Refusal } from "../api/client";
import type { EditEvent, EditResult, Hypothesis, Id, Op, Piece, State } from "../api/types";
import { isAttemptShown, showAttempt, showChanged } from "./attempt";
import { atWork, bench, hindered, livePieces, say, select, type Bench } from "./bench";
import { isMine, randomName, signature } from "./identity";
import * as kept from "./kept";
import type { Back } from "./kept";
import { applied, isForProject, judgementsAfter, needsPieces, piecesAfter } from "./operations";

type Held = Pick<Bench, "pieces" | "judgements">;

type Step =
  | Back
  | (kept.Edit & {
      /** What holds for the whole project, before it and after. */
      held?: { before: Held; after: Held };
    });
type Edit = Extract<Step, kept.Edit>;

export const AGAIN_MS = 1000;

let confirmed: State | null = null;
let steps: Step[] = [];
/** Changes taken back before they were sent, the last one last; "sent" for one the server knows. */
let takenBack: (Op[] | "sent")[] = [];
let sending = false;
/** Whether the server is being asked just now; a step in flight may also wait for it. */
let asking = false;
/** The step in flight, until its answer or the stream has told what became of it. */
let inFlight: Step | null = null;
let reload: () => Promise<void> = async () => undefined;

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
  takenBack = [];
  inFlight = null;
  confirmed = null;
}

/**
 * Forgets the changes on their way, as the hypothesis is gone. Answers the operations that hold for
 * the whole project, which are to be made again, and how many changes had others.
 */
export function abandon(): { kept: Op[]; lost: number } {
  const edits = shown();
  steps = [];
  keep();
  leave();
  const kept = edits.flatMap(({ operations }) => operations.filter(isForProject));
  const lost = edits.filter(({ operations }) => !operations.every(isForProject)).length;
  return { kept, lost };
}

/** Whether a change can be saved now: the server is there, and can write. */
function canSave(): boolean {
  const { connected, writable } = bench.get();
  return connected && writable;
}

/** Waits until every change has been sent, but not for a server that is away. */
export async function sent(): Promise<void> {
  while (steps.length && canSave()) await new Promise((done) => setTimeout(done, 15));
}

/** Takes up changes to a hypothesis that this window could not send when it was open before. */
export function resume(p: Id, h: Id): void {
  kept.takeDrafts(p, h);
  takeUp(kept.unsent(p, h));
}

/** Takes up changes to the open hypothesis that could not be sent before, here or elsewhere. */
export function takeUp(found: readonly kept.Unsent[]): void {
  if (!found.length) return;
  for (const step of found)
    steps.push(step.kind === "edit" ? made(step.operations, step.token) : step);
  say(`${found.length} unsaved change${found.length > 1 ? "s" : ""} found again.`);
  show();
  void send();
}

/** Keeps in the browser what is being typed, as the change that it will be; `null`: it is one now. */
export function draft(key: string, operations: Op[] | null): void {
  const { project, hypothesis } = bench.get();
  if (!project || !hypothesis) return;
  const typing = kept.keepDraft(project.id, hypothesis, key, operations);
  if (typing !== bench.get().typing) bench.set({ typing });
}

/** Makes a change. It is on the screen when this returns. */
export function edit(operations: Op[]): void {
  if (!operations.length || !bench.get().hypothesis) return;
  takenBack = [];
  steps.push(made(operations));
  show();
  showChanged(operations);
  void send();
}

/** A change that the page shows from now on. */
function made(operations: Op[], token = randomName()): Edit {
  const before = held();
  holdForProject(operations, signature().author);
  return { kind: "edit", operations, token, held: { before, after: held() } };
}

/** Shows changes on their way on top of what the server has told of the project. */
export function holdUnsent(): void {
  for (const step of shown()) step.held = made(step.operations).held;
}

/** The edits on their way that have not been taken back. */
function shown(): Edit[] {
  const hidden = new Set(steps.map((step) => (step.kind === "edit" ? undefined : step.of)));
  return steps.filter((step) => step.kind === "edit").filter((step) => !hidden.has(step.token));
}

function held(): Held {
  const { pieces, judgements } = bench.get();
  return { pieces, judgements };
}

export function undo(): void {
  if (!bench.get().hypothesis) return;
  if (!takeBack()) {
    if (takenBack.length) takenBack.push("sent");
    stepBack("undo");
  }
  afterStep();
}

export function redo(): void {
  if (!bench.get().hypothesis) return;
  const again = takenBack.pop() ?? "sent";
  if (again === "sent") stepBack("redo");
  else steps.push(made(again));
  afterStep();
}

function stepBack(kind: Back["kind"]): void {
  steps.push({ kind });
  const { connected } = bench.get();
  const why = connected ? "The workspace cannot be written" : "The server is away";
  if (!canSave()) say(`${why}: the ${kind} is kept, and made when it can be.`);
}

function afterStep(): void {
  show();
  if (isAttemptShown(bench.get())) showAttempt(false);
  void send();
}

/** Takes the last change back, if the server is not being asked for it. Answers whether it did. */
function takeBack(): boolean {
  const last = steps.at(-1);
  if (last?.kind !== "edit" || !last.held || (asking && last === inFlight)) return false;
  const { before, after } = last.held;
  const change: Partial<Held> = {};
  // Where the server or another window has told of pieces since, it has to tell what they were.
  for (const part of ["pieces", "judgements"] as const) {
    if (before[part] === after[part]) continue;
    if (bench.get()[part] !== after[part]) return false;
    Object.assign(change, { [part]: before[part] });
  }
  if (last === inFlight) {
    // The server may have made it before it went away, and has to be told both.
    steps.push({ kind: "undo", of: last.token });
    takenBack.push("sent");
  } else {
    steps.pop();
    takenBack.push(last.operations);
  }
  bench.set((now) => ({ ...change, joins_version: now.joins_version + 1 }));
  chooseBack(after.pieces);
  return true;
}

/** Chooses the pieces that were discarded `before` and are not any more. */
function chooseBack(before: readonly Piece[]): void {
  const gone = new Set(before.filter((piece) => piece.discarded).map((piece) => piece.id));
  const back = livePieces(bench.get()).filter((piece) => gone.has(piece.id));
  if (back.length) select(back.map((piece) => piece.id));
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
  const { pieces } = bench.get();
  const back = mine && inFlight?.kind !== "edit";
  if (mine) drop();
  holdForProject(result.operations, author);
  holdUnsent();
  if (back) chooseBack(pieces);
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
    (pieces) => {
      bench.set({ pieces });
      holdUnsent();
    },
    () => undefined,
  );
}

function show(more: Partial<Bench> = {}): void {
  if (!confirmed) return;
  const edits = shown();
  let state = confirmed;
  for (const step of edits) state = applied(state, step.operations);
  // An edit and what takes it back come to nothing, though both have to be sent.
  const backs = steps.filter((step) => step.kind !== "edit" && !step.of);
  const unsaved = Math.max(edits.length + backs.length, Math.min(steps.length, 1));
  bench.set({ ...more, state, unsaved, taken_back: takenBack.length });
}

function keep(): void {
  const { project, hypothesis } = bench.get();
  if (!project || !hypothesis) return;
  kept.keepUnsent(
    project.id,
    hypothesis,
    steps.map((step) => ({ ...step, held: undefined })),
  );
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
  if (step.kind !== "edit" && confirmed) {
    // Every step before it is confirmed by now, and so it is known whether there is anything to do.
    // One that was sent before, its answer lost, was made if anything has happened since.
    const done = step.sent_at !== undefined && confirmed.revision > step.sent_at;
    if (done || !bench.get()[`can_${step.kind}`]) {
      steps.shift();
      keep();
      show();
      return;
    }
    step.sent_at = confirmed.revision;
    keep();
  }
  inFlight = step;
  try {
    const by = signature();
    const result =
      step.kind === "edit"
        ? await asked(api.edit(project.id, hypothesis, step.operations, step.token, by))
        : await asked(api[step.kind](project.id, hypothesis, by));
    atWork();
    if (inFlight === step) take(result, by.author, true);
    if (inFlight === step) drop();
  } catch (trouble) {
    if (!(trouble instanceof Refusal)) throw trouble;
    if (trouble.passing) {
      // The stream has told that it was made: only the answer was lost.
      if (inFlight !== step) return;
      hindered(trouble);
      await new Promise((done) => setTimeout(done, AGAIN_MS));
      return;
    }
    atWork();
    if (trouble.status === 404) {
      // Where the hypothesis is gone, this is where it is learnt, and the step must still be here.
      await reload();
      if (inFlight !== step) return;
    }
    drop();
    if (step.kind === "edit")
      steps = steps.filter((one) => one.kind === "edit" || one.of !== step.token);
    takenBack = [];
    if (trouble.status !== 409) say(trouble.trouble.what, trouble.trouble.remedy, "bad");
    await reload();
  }
  show();
}

async function asked<T>(answer: Promise<T>): Promise<T> {
  asking = true;
  try {
    return await answer;
  } finally {
    asking = false;
  }
}
