/** Repairs of cut-outs that run as jobs. */
import { api } from "../api/client";
import type { Id } from "../api/types";
import { bench, say, select } from "./bench";
import { signature } from "./identity";
import { succeeded, tell } from "./sync";

/** Waits for a repair and chooses the pieces that came of it. */
export async function repaired(
  start: () => ReturnType<typeof api.merge>,
  words: string,
): Promise<boolean> {
  let well = false;
  await tell(async () => {
    const { job } = await start();
    const done = await succeeded(job);
    if (!done) return;
    well = true;
    const { project } = bench.get();
    if (project) bench.set({ pieces: await api.pieces(project.id) });
    select((done.result?.["pieces"] as Id[] | undefined) ?? []);
    say(words, "Undo takes it back.");
  });
  return well;
}

export async function mergeChosen(): Promise<void> {
  const { project, hypothesis, selection } = bench.get();
  if (!project || !hypothesis) return;
  await repaired(
    () => api.merge(project.id, hypothesis, [...selection], signature()),
    "Merged into one piece.",
  );
}
