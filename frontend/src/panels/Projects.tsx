/** The first page: projects, and how to begin one. */
import { useState } from "react";
import { api } from "../api/client";
import type { ProjectSummary } from "../api/types";
import { Button, IconButton } from "../parts/Button";
import { FileButton } from "../parts/FileButtons";
import { LicenceLink } from "../parts/LicenceLink";
import { bench, open } from "../state/bench";
import { useStore } from "../state/store";
import { goTo, tell } from "../state/sync";
import { view } from "../state/view";

const WHERE_FILES_GO = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)
  ? "Nothing leaves this computer."
  : `They go to the computer that runs this workbench (${location.hostname}), and no further.`;

export function Projects() {
  const projects = useStore(bench, (now) => now.projects);
  const about = useStore(bench, (now) => now.about);
  const theme = useStore(view, (now) => now.theme);
  const create = () =>
    open({
      kind: "name",
      title: "New project",
      label: "Name",
      value: "",
      done: (name) => void tell(async () => goTo((await api.createProject(name)).id)),
    });
  const [painting, setPainting] = useState(false);
  const example = async () => {
    setPainting(true);
    await tell(async () => goTo((await api.demo()).id));
    setPainting(false);
  };
  return (
    <main className="start">
      <header>
        <h1>reassembly</h1>
        <IconButton
          icon={theme === "dark" ? "sun" : "moon"}
          label="Dark or light"
          onClick={() => view.set({ theme: theme === "dark" ? "light" : "dark" })}
        />
      </header>
      <p className="lead">
        Drop photographs of fragments anywhere on this page: cut-outs, single pieces on a plain
        ground, a tray with many, straight from a phone (HEIC too), a folder, a zip, or a project
        saved before. {WHERE_FILES_GO}
      </p>
      <div className="row wrap">
        <FileButton kind="main">Choose files</FileButton>
        <FileButton folder>Choose a folder</FileButton>
        <Button icon="add" onClick={create}>
          New project
        </Button>
        <Button onClick={() => example()} disabled={painting}>
          {painting ? "Painting the example…" : "Open the example"}
        </Button>
      </div>
      <section aria-label="Projects">
        <h2>Projects</h2>
        {projects === null && <p className="faint">Asking the server…</p>}
        {projects?.length === 0 && <p className="faint">None yet. The first one appears here.</p>}
        <ul className="project-list">
          {projects?.map((project) => (
            <ProjectRow key={project.id} project={project} />
          ))}
        </ul>
      </section>
      {about && (
        <footer className="faint">
          version {about.version} · <LicenceLink />
        </footer>
      )}
    </main>
  );
}

function ProjectRow({ project }: { project: ProjectSummary }) {
  // A project that was opened from its file is told from its original.
  const imported = project.imported_at && `imported ${sayWhen(project.imported_at)}`;
  const remove = () =>
    open({
      kind: "confirm",
      title: `Delete “${project.name}”${imported ? `, ${imported}` : ""}?`,
      text: "Its pieces, hypotheses and history are gone for good. Export the project first if you may want it again.",
      action: "Delete",
      done: () =>
        void tell(async () => {
          await api.deleteProject(project.id);
          bench.set({ projects: await api.projects() });
        }),
    });
  return (
    <li>
      <a href={`#/p/${project.id}`}>
        <strong>{project.name}</strong>
        <span className="faint">
          {count(project.pieces, "piece", "pieces")} ·{" "}
          {count(project.hypotheses, "hypothesis", "hypotheses")} · changed{" "}
          {sayWhen(project.changed_at)}
          {imported && ` · ${imported}`}
        </span>
      </a>
      <IconButton
        icon="close"
        label={`Delete ${project.name}${imported ? `, ${imported}` : ""}`}
        onClick={remove}
      />
    </li>
  );
}

function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

export function sayWhen(at: string): string {
  const date = new Date(at);
  const today = new Date().toDateString() === date.toDateString();
  return date.toLocaleString(
    undefined,
    today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" },
  );
}
