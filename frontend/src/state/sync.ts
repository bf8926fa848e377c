/** Keeps the bench in step with the server: opens projects and hypotheses, follows the stream. */
import { api, Refusal } from "../api/client";
import type {
  EditEvent,
  Hypothesis,
  HypothesisSummary,
  Id,
  Job,
  Op,
  Preview,
  Project,
} from "../api/types";
import { takeTyped } from "../parts/typed";
import { atWork, bench, hindered, NOTHING, say, select, type Bench } from "./bench";
import { sweep } from "./elsewhere";
import { inherit, lastOpened, rememberOpened } from "./kept";
import {
  abandon,
  AGAIN_MS,
  begin,
  edit,
  hear,
  holdUnsent,
  leave,
  resume,
  sent,
  takeUp,
} from "./queue";

let stream: EventSource | null = null;
const waiters = new Map<Id, ((job: Job) => void)[]>();

export async function start(): Promise<void> {
  window.addEventListener("hashchange", () => void follow());
  await follow();
  // Last, since the server has to look at every solver first.
  await tell(async () => bench.set({ about: await api.about() }));
}

/** Runs `work`; a refusal becomes a notice, if `wanted` still. Answers whether it went well. */
export async function tell(work: () => Promise<unknown>, wanted = () => true): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (trouble) {
    if (!(trouble instanceof Refusal)) throw trouble;
    if (wanted()) say(trouble.trouble.what, trouble.trouble.remedy, "bad", trouble.passing);
    return false;
  }
}

/** As `tell`, until the server answers, or another project is open. */
async function insist(work: () => Promise<unknown>): Promise<void> {
  const { project } = bench.get();
  while (bench.get().project?.id === project?.id) {
    try {
      await work();
      if (!bench.get().connected) atWork();
      return;
    } catch (trouble) {
      if (!(trouble instanceof Refusal)) throw trouble;
      if (trouble.status === 404 && (await isGone(project?.id))) return projectGone();
      if (!trouble.passing) return say(trouble.trouble.what, trouble.trouble.remedy, "bad");
      hindered(trouble);
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

async function isGone(project: Id | undefined): Promise<boolean> {
  if (!project) return false;
  return api.project(project).then(
    () => false,
    (why: unknown) => why instanceof Refusal && why.status === 404,
  );
}

export function goTo(project: Id | null, hypothesis: Id | null = null): void {
  location.hash = project ? `/p/${project}${hypothesis ? `/h/${hypothesis}` : ""}` : "/";
}

/** What the address names. */
function named(): { project: Id | null; hypothesis: Id | null } {
  const [, project = null, hypothesis = null] =
    /^#\/p\/([0-9a-f]+)(?:\/h\/([0-9a-f]+))?/.exec(location.hash) ?? [];
  return { project, hypothesis };
}

async function follow(): Promise<void> {
  takeTyped();
  const { project, hypothesis } = named();
  if (!project) {
    close();
    await tell(async () => bench.set({ projects: await api.projects() }));
    return;
  }
  const now = bench.get();
  if (now.project?.id !== project) await openProject(project, hypothesis);
  else if (hypothesis && hypothesis !== now.hypothesis) await openHypothesis(hypothesis);
}

function close(): void {
  stream?.close();
  stream = null;
  leave();
  document.title = "reassembly";
  bench.set({
    project: null,
    hypothesis: null,
    pieces: [],
    hypotheses: [],
    judgements: [],
    jobs: {},
    previews: {},
    state: NOTHING,
    unsaved: 0,
    unsaved_elsewhere: 0,
    taken_back: 0,
    typing: false,
    can_undo: false,
    can_redo: false,
    // It was about what is left behind.
    dialog: null,
  });
  select([]);
}

async function openProject(id: Id, hypothesis: Id | null): Promise<void> {
  close();
  const known = await tell(async () => {
    const project = await api.project(id);
    const called = (id: Id | null) => project.hypotheses.find((h) => h.id === id);
    const wanted = called(hypothesis) ?? called(lastOpened(id)) ?? project.hypotheses[0];
    await sent();
    await inherit(id, () => null, takeUp);
    // Shown together: pieces without their places would all lie in the tray.
    const found = wanted && (await api.hypothesis(id, wanted.id));
    if (named().project !== id) return;
    show(project);
    if (found) enter(id, found);
    listen(id, project.sequence);
    void sweep(id);
  });
  if (!known) goTo(null);
}

async function fetchProject(id: Id): Promise<void> {
  const project = await api.project(id);
  // It may have been left meanwhile.
  if (named().project === id) show(project);
}

function show(project: Project): void {
  showHypotheses(project.id, project.hypotheses);
  bench.set({
    project: { id: project.id, name: project.name },
    pieces: project.pieces,
    judgements: project.judgements,
    same_place: project.same_place,
    jobs: Object.fromEntries(project.jobs.map((job) => [job.id, job])),
  });
  holdUnsent();
  document.title = `${project.name} · reassembly`;
}

/** Hypotheses that were deleted here: nobody has to be told. */
const deletedHere = new Set<Id>();

export async function deleteHypothesis(project: Id, id: Id): Promise<void> {
  deletedHere.add(id);
  await api.deleteHypothesis(project, id);
  showHypotheses(project, await api.hypotheses(project));
}

/** Shows which hypotheses there are, and goes to another where the open one is gone. */
function showHypotheses(project: Id, hypotheses: readonly HypothesisSummary[]): void {
  const now = bench.get();
  bench.set({ hypotheses });
  const [first] = hypotheses;
  const { hypothesis: open } = now;
  if (now.project?.id !== project || !open || !first) return;
  if (hypotheses.some(({ id }) => id === open)) return;
  takeTyped();
  const { kept, lost } = abandon();
  carried.push(...kept);
  const gone = now.hypotheses.find(({ id }) => id === open)?.name;
  if (gone && !deletedHere.has(open)) sayDeleted(`“${gone}”`, lost);
  goTo(project, first.id);
}

function sayDeleted(what: string, lost: number): void {
  const unsaved = lost ? `${lost} unsaved change${lost > 1 ? "s" : ""} went with it.` : "";
  say(`${what} was deleted in another window.`, unsaved, lost ? "warning" : "plain");
}

/** Leaves the open project, which is no more. */
function projectGone(): void {
  if (!bench.get().project) return;
  takeTyped();
  const { unsaved } = bench.get();
  abandon();
  sayDeleted("This project", unsaved);
  goTo(null);
}

/** What was said about pieces and joins in a hypothesis that is gone: made again in the next. */
const carried: Op[] = [];

async function openHypothesis(id: Id): Promise<void> {
  const { project } = bench.get();
  if (!project) return;
  await sent();
  await tell(async () => {
    const found = await api.hypothesis(project.id, id);
    if (named().project !== project.id) return;
    enter(project.id, found);
    void sweep(project.id);
    // What was done to the one that was left is told of it in the list.
    showHypotheses(project.id, await api.hypotheses(project.id));
  });
}

function enter(project: Id, found: Hypothesis): void {
  leave();
  begin(found, refetch);
  resume(project, found.id);
  edit(carried.splice(0));
  rememberOpened(project, found.id);
  const address = `#/p/${project}/h/${found.id}`;
  if (location.hash !== address) history.replaceState(null, "", address);
}

async function refetch(): Promise<void> {
  const { project, hypothesis } = bench.get();
  if (!project || !hypothesis) return;
  await insist(async () => {
    await fetchProject(project.id);
    if (!bench.get().hypotheses.some(({ id }) => id === hypothesis)) return;
    const found = await api.hypothesis(project.id, hypothesis);
    if (bench.get().hypothesis === hypothesis) begin(found, refetch);
  });
}

function listen(project: Id, sequence: number): void {
  stream?.close();
  const source = new EventSource(`/api/projects/${project}/stream?after=${sequence}`);
  stream = source;
  const on = (name: string, act: (data: unknown) => void) =>
    source.addEventListener(name, (event) => {
      if (!bench.get().connected) atWork();
      act(JSON.parse((event as MessageEvent<string>).data));
    });
  let lost = false;
  source.onopen = () => {
    atWork();
    if (lost) void refetch();
    lost = false;
  };
  source.onerror = () => {
    lost = true;
    bench.set({ connected: false });
    if (source.readyState === EventSource.CLOSED) {
      // A stream is refused without a reason; a call tells it.
      void api.project(project).catch((why: unknown) => {
        if (!(why instanceof Refusal) || stream !== source) return;
        if (why.status === 404) projectGone();
        else hindered(why);
      });
      setTimeout(() => stream === source && listen(project, sequence), 1000);
    }
  };
  on("hello", (data) => (data as { jobs: Job[] }).jobs.forEach(hearJob));
  on("edit", (data) => hear(data as EditEvent));
  on("change", (data) => void hearChange((data as { what: string }).what));
  on("reset", () => void refetch());
  on("job", (data) => hearJob(data as Job & { preview?: Preview | null }));
  on("gone", projectGone);
}

async function hearChange(what: string): Promise<void> {
  const { project } = bench.get();
  if (!project) return;
  await insist(async () => {
    if (what === "pieces") {
      bench.set({ pieces: await api.pieces(project.id) });
      holdUnsent();
    } else if (what === "hypotheses") showHypotheses(project.id, await api.hypotheses(project.id));
    else if (what === "joins") bench.set((now) => ({ joins_version: now.joins_version + 1 }));
    else await fetchProject(project.id);
  });
}

const OVER = new Set(["done", "failed", "cancelled"]);

export function isOver(job: Job): boolean {
  return OVER.has(job.state);
}

/** Whether a solver is at work on the open hypothesis. */
export function isSolving({ jobs, hypothesis }: Bench): boolean {
  return Object.values(jobs).some(
    (job) => job.kind === "solve" && job.hypothesis === hypothesis && !isOver(job),
  );
}

function hearJob({ preview, ...job }: Job & { preview?: Preview | null }): void {
  bench.set((now) => {
    const previews = { ...now.previews };
    if (isOver(job)) delete previews[job.id];
    else if (preview) previews[job.id] = preview;
    return { jobs: { ...now.jobs, [job.id]: { ...now.jobs[job.id], ...job } }, previews };
  });
  if (!isOver(job)) return;
  for (const done of waiters.get(job.id) ?? []) done(job);
  waiters.delete(job.id);
}

/** Waits for the end of a job, whether or not the stream tells of it. */
export async function finished(job: Job): Promise<Job> {
  hearJob(job);
  if (isOver(job)) return job;
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      void api.job(job.id).then(hearJob, () => undefined);
    }, 1500);
    const done = (ended: Job) => {
      clearInterval(timer);
      resolve(ended);
    };
    waiters.set(job.id, [...(waiters.get(job.id) ?? []), done]);
  });
}

/** As `finished`, with a notice where the job failed. */
export async function succeeded(job: Job): Promise<Job | null> {
  const ended = await finished(job);
  if (ended.state === "done") return ended;
  if (ended.error) say(ended.error.what, ended.error.remedy, "bad");
  return null;
}
