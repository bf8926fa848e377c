/** The whole window takes files that are dropped on it. */
import { useLayoutEffect, useState } from "react";
import { bringIn } from "../dialogs/bringIn";
import { filesOfDrop } from "./files";

export function DropZone() {
  const [over, setOver] = useState(false);
  // Before anything is seen: a browser leaves the page for a file that nobody takes.
  useLayoutEffect(() => {
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const dragOver = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const drop = (event: DragEvent) => {
      if (!hasFiles(event) || !event.dataTransfer) return;
      event.preventDefault();
      setOver(false);
      void filesOfDrop(event.dataTransfer).then(bringIn);
    };
    window.addEventListener("dragover", dragOver);
    window.addEventListener("dragleave", leave);
    window.addEventListener("drop", drop);
    return () => {
      window.removeEventListener("dragover", dragOver);
      window.removeEventListener("dragleave", leave);
      window.removeEventListener("drop", drop);
    };
  }, []);
  if (!over) return null;
  return (
    <div className="drop-zone">
      <p>Drop photographs, cut-outs, a folder, a zip or a saved project</p>
    </div>
  );
}
