/** Sends changes to hypotheses that are not open: they were left while they could not be saved. */
import { api, Refusal } from "../api/client";
import type { Id } from "../api/types";
import { bench, hindered, say } from "./bench";
import { signature } from "./identity";
import { hypothesesWithUnsent, inherit, keepUnsent, unsent, type Unsent } from "./kept";
import { isForProject } from "./operations";
import { edit, takeUp } from "./queue";

const EVERY_MS = 5000;

let sweeping = false;
let timer = 0;

/** Looks now, and every so often as long as the project is open. */
export async function sweep(p: Id): Promise<void> {
  clearTimeout(timer);
  if (bench.get().project?.id !== p) return;
  timer = window.setTimeout(() => void sweep(p), EVERY_MS);
  if (sweeping) return;
  sweeping = true;
  try {
    await inherit(p, () => bench.get().hypothesis, takeUp);
    for (const h of elsewhere(p)) await deliver(p, h);
  } finally {
    sweeping = false;
    count(p);
  }
}

function elsewhere(p: Id): Id[] {
  const { hypothesis } = bench.get();
  return hypothesesWithUnsent(p).filter((h) => h !== hypothesis);
}

function count(p: Id): void {
  const now = bench.get();
  const { length } = elsewhere(p).flatMap((h) => unsent(p, h));
  const unsaved_elsewhere = now.project?.id === p ? length : 0;
  if (unsaved_elsewhere !== now.unsaved_elsewhere) bench.set({ unsaved_elsewhere });
}

async function deliver(p: Id, h: Id): Promise<void> {
  const { length } = unsent(p, h);
  const name = bench.get().hypotheses.find((one) => one.id === h)?.name;
  if (name) say(`${length} unsaved change${length > 1 ? "s" : ""} of “${name}” found again.`);
  count(p);
  let lost = 0;
  for (let [step] = unsent(p, h); step; [step] = unsent(p, h)) {
    try {
      await send(p, h, step);
    } catch (trouble) {
      if (!(trouble instanceof Refusal)) throw trouble;
      if (trouble.passing) return hindered(trouble);
      if (trouble.status === 404 && step.kind === "edit") {
        if (!step.operations.every(isForProject)) lost += 1;
        edit(step.operations.filter(isForProject));
      } else if (trouble.status !== 409) {
        say(trouble.trouble.what, trouble.trouble.remedy, "bad");
      }
    }
    // Where it was opened meanwhile, they are the queue's, and the server knows them again.
    if (bench.get().hypothesis === h) return;
    keepUnsent(p, h, unsent(p, h).slice(1));
    count(p);
  }
  if (lost) {
    const changes = `${lost} unsaved change${lost > 1 ? "s" : ""}`;
    say(`${changes} went with a deleted hypothesis.`, "", "warning");
  }
}

async function send(p: Id, h: Id, step: Unsent): Promise<void> {
  if (step.kind === "edit") {
    await api.edit(p, h, step.operations, step.token, signature());
    return;
  }
  const { state, ...found } = await api.hypothesis(p, h);
  const done = step.sent_at !== undefined && state.revision > step.sent_at;
  if (done || !found[`can_${step.kind}`]) return;
  keepUnsent(p, h, [{ ...step, sent_at: state.revision }, ...unsent(p, h).slice(1)]);
  await api[step.kind](p, h, signature());
}
