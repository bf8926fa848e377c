/** Where dropped or chosen files go: a saved project opens, anything else is brought in. */
import { api } from "../api/client";
import { bench, forgetTrouble, open, say } from "../state/bench";
import type { Dropped } from "../parts/files";
import { finished, goTo, tell } from "../state/sync";

export async function bringIn(files: Dropped[]): Promise<void> {
  forgetTrouble("import");
  const [only] = files;
  if (!only) return say("There was no file in that.");
  if (files.every(({ file }) => file.name.toLowerCase().endsWith(".json"))) {
    if (files.length === 1) return openSaved(only.file);
    return refuse(`These are ${files.length} saved projects.`, "Open one at a time.");
  }
  const { project, about } = bench.get();
  if (about && files.length > about.limits.files) {
    return refuse(
      `These are ${files.length} files; ${about.limits.files} at a time can be brought in.`,
      "Bring them in by parts.",
    );
  }
  if (project) return open({ kind: "import", files, draft: false });
  await tell(async () => {
    const made = await api.createProject(nameFor(files), true);
    goTo(made.id);
    await until(() => bench.get().project?.id === made.id && bench.get().hypothesis !== null);
    open({ kind: "import", files, draft: true });
  });
}

/** Leaves nothing behind of a project that was made for files which did not come in. */
export async function forgetDraft(): Promise<void> {
  const { project, pieces } = bench.get();
  if (!project || pieces.length) return;
  goTo(null);
  await until(() => bench.get().project === null);
  await tell(() => api.deleteProject(project.id));
}

async function openSaved(file: File): Promise<void> {
  await tell(async () => {
    const { job } = await api.openProject(file);
    const { error, result } = await finished(job);
    if (error) refuse(`“${file.name}”: ${error.what}`, error.remedy);
    const id = result?.["project"];
    if (typeof id === "string") goTo(id);
  });
}

/** Says why files cannot be brought in, until others are. */
function refuse(what: string, remedy: string): void {
  say(what, remedy, "bad", false, "import");
}

function nameFor(files: readonly Dropped[]): string {
  const [first] = files;
  const folder = first?.path.includes("/") ? first.path.split("/")[0] : undefined;
  return folder ?? first?.file.name.replace(/\.[^.]+$/, "") ?? "Untitled";
}

async function until(holds: () => boolean): Promise<void> {
  if (holds()) return;
  await new Promise<void>((done) => {
    const stop = bench.watch(() => {
      if (!holds()) return;
      stop();
      done();
    });
  });
}
