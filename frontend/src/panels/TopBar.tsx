/** The bar at the top: project, hypothesis, undo, and what one does with all of it. */
import { api } from "../api/client";
import { Button, IconButton } from "../parts/Button";
import { FileButton } from "../parts/FileButtons";
import { bench, open } from "../state/bench";
import { branchFrom } from "../state/versions";
import { redo, undo } from "../state/queue";
import { useStore } from "../state/store";
import { goTo, tell } from "../state/sync";
import { view } from "../state/view";

export function TopBar() {
  const project = useStore(bench, (now) => now.project);
  const hypotheses = useStore(bench, (now) => now.hypotheses);
  const hypothesis = useStore(bench, (now) => now.hypothesis);
  const canUndo = useStore(bench, (now) => now.can_undo || now.unsaved > 0);
  const canRedo = useStore(bench, (now) => now.can_redo || now.taken_back > 0);
  const theme = useStore(view, (now) => now.theme);
  if (!project) return null;
  const rename = () =>
    open({
      kind: "name",
      title: "Rename the project",
      label: "Name",
      value: project.name,
      done: (name) =>
        void tell(async () => {
          await api.renameProject(project.id, name);
          bench.set({ project: { id: project.id, name } });
        }),
    });
  return (
    <header className="top-bar">
      <IconButton icon="back" label="All projects" onClick={() => goTo(null)} />
      <button
        type="button"
        className="project-name"
        title={`${project.name} · Rename the project`}
        onClick={rename}
      >
        {project.name}
      </button>
      <div className="hypothesis-switch">
        <select
          aria-label="Hypothesis"
          title={hypotheses.find((one) => one.id === hypothesis)?.name}
          value={hypothesis ?? ""}
          onChange={(event) => goTo(project.id, event.target.value)}
        >
          {hypotheses.map((one) => (
            <option key={one.id} value={one.id}>
              {one.name}
            </option>
          ))}
        </select>
      </div>
      <IconButton
        icon="branch"
        label="Branch this hypothesis"
        onClick={() => branchFrom(hypothesis, null)}
      />
      <span className="divider" />
      <IconButton icon="undo" label="Undo" keys="Ctrl Z" onClick={undo} disabled={!canUndo} />
      <IconButton icon="redo" label="Redo" keys="Ctrl Shift Z" onClick={redo} disabled={!canRedo} />
      <span className="spacer" />
      <FileButton>Bring in</FileButton>
      <Button icon="export" onClick={() => open({ kind: "export" })}>
        Export
      </Button>
      <Button kind="main" onClick={() => view.set({ tab: "solve", side: true })}>
        Solve…
      </Button>
      <span className="divider" />
      <IconButton
        icon={theme === "dark" ? "sun" : "moon"}
        label="Dark or light"
        keys="D"
        onClick={() => view.set({ theme: theme === "dark" ? "light" : "dark" })}
      />
      <IconButton
        icon="help"
        label="Help and keys"
        keys="?"
        onClick={() => open({ kind: "help" })}
      />
    </header>
  );
}
