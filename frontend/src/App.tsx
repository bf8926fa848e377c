/** The page: a list of projects, or the workbench with one of them. */
import { lazy, Suspense, useEffect } from "react";
import { DropZone } from "./parts/DropZone";
import { Notices } from "./parts/Notices";
import { Projects } from "./panels/Projects";
import { bench } from "./state/bench";
import { useStore } from "./state/store";
import { view } from "./state/view";

const workbench = () => import("./panels/Workbench");
const dialogs = () => import("./dialogs/Dialogs");
const Workbench = lazy(workbench);
const Dialogs = lazy(dialogs);

export function App() {
  const project = useStore(bench, (now) => now.project?.id ?? null);
  const dialog = useStore(bench, (now) => now.dialog?.kind ?? null);
  const theme = useStore(view, (now) => now.theme);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  useEffect(() => {
    // Fetched once the first page stands, so that nobody waits for them later.
    void workbench();
    void dialogs();
  }, []);
  return (
    <>
      <Suspense>{project ? <Workbench key={project} /> : <Projects />}</Suspense>
      <DropZone />
      <Suspense>{dialog && <Dialogs />}</Suspense>
      {(!dialog || dialog === "tour") && <Notices />}
    </>
  );
}
