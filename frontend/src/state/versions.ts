/** Branching, naming, restoring and deleting hypotheses. */
import { api } from "../api/client";
import type { Id } from "../api/types";
import { bench, open, say } from "./bench";
import { signature } from "./identity";
import { deleteHypothesis as deleteAt, goTo, tell } from "./sync";

export function branchFrom(from: Id | null, revision: number | null): void {
  const { project, hypotheses } = bench.get();
  if (!project) return;
  const parent = hypotheses.find((one) => one.id === from);
  open({
    kind: "name",
    title: "Branch this hypothesis",
    label: "Name of the new hypothesis",
    value: freeName(parent ? `${parent.name.replace(ANOTHER, "")}, another way` : "Empty"),
    done: (name) =>
      void tell(async () => {
        const made = await api.branch(
          project.id,
          freeName(name),
          from,
          revision,
          signature().author,
        );
        bench.set({ hypotheses: await api.hypotheses(project.id) });
        goTo(project.id, made.id);
      }),
  });
}

const ANOTHER = /(, another way( \d+)?)+$/;

/** A name that no hypothesis has yet. */
export function freeName(wanted: string): string {
  const taken = new Set(bench.get().hypotheses.map((one) => one.name));
  let name = wanted;
  for (let k = 2; taken.has(name); k++) name = `${wanted} ${k}`;
  return name;
}

export function renameHypothesis(id: Id): void {
  const { project, hypotheses } = bench.get();
  const known = hypotheses.find((one) => one.id === id);
  if (!project || !known) return;
  open({
    kind: "name",
    title: "Rename the hypothesis",
    label: "Name",
    value: known.name,
    done: (name) =>
      void tell(async () => {
        await api.renameHypothesis(project.id, id, name);
        bench.set({ hypotheses: await api.hypotheses(project.id) });
      }),
  });
}

export function deleteHypothesis(id: Id): void {
  const { project, hypotheses } = bench.get();
  const known = hypotheses.find((one) => one.id === id);
  if (!project || !known) return;
  open({
    kind: "confirm",
    title: `Delete “${known.name}”?`,
    text: "Its poses and its history are gone for good. The pieces and your judgements stay.",
    action: "Delete",
    done: () =>
      void tell(async () => {
        await deleteAt(project.id, id);
      }),
  });
}

export async function restore(revision: number): Promise<void> {
  const { project, hypothesis } = bench.get();
  if (!project || !hypothesis) return;
  const well = await tell(() => api.restore(project.id, hypothesis, revision, signature()));
  if (well) say(`Restored as it was at step ${revision}.`, "Undo takes this back.");
}
