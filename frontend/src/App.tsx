/** The page: a list of projects, or the workbench with one of them. */
import { useEffect } from "react";
import { Dialogs } from "./dialogs/Dialogs";
import { DropZone } from "./parts/DropZone";
import { Notices } from "./parts/Notices";
import { Projects } from "./panels/Projects";
import { Workbench } from "./panels/Workbench";
import { bench } from "./state/bench";
import { useStore } from "./state/store";
import { view } from "./state/view";

export function App() {
  const project = useStore(bench, (now) => now.project?.id ?? null);
  const dialog = useStore(bench, (now) => now.dialog?.kind ?? null);
  const theme = useStore(view, (now) => now.theme);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return (
    <>
      {project ? <Workbench key={project} /> : <Projects />}
      <DropZone />
      <Dialogs />
      {(!dialog || dialog === "tour") && <Notices />}
    </>
  );
}
