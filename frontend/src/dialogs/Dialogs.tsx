/** The dialog that is open, if any. */
import { bench, open } from "../state/bench";
import { useStore } from "../state/store";
import { CompareDialog } from "./CompareDialog";
import { ConfirmDialog } from "./ConfirmDialog";
import { CutoutDialog } from "./CutoutDialog";
import { ExportDialog } from "./ExportDialog";
import { HelpDialog } from "./HelpDialog";
import { ImportDialog } from "./ImportDialog";
import { NameDialog } from "./NameDialog";
import { Tour } from "./Tour";

export function Dialogs() {
  const dialog = useStore(bench, (now) => now.dialog);
  const close = () => open(null);
  switch (dialog?.kind) {
    case "import":
      return <ImportDialog files={dialog.files} draft={dialog.draft} onClose={close} />;
    case "cutout":
      return <CutoutDialog piece={dialog.piece} onClose={close} />;
    case "export":
      return <ExportDialog onClose={close} />;
    case "compare":
      return <CompareDialog first={dialog.first} second={dialog.second} onClose={close} />;
    case "name":
      return <NameDialog {...dialog} onClose={close} />;
    case "confirm":
      return <ConfirmDialog {...dialog} onClose={close} />;
    case "help":
      return <HelpDialog onClose={close} />;
    case "tour":
      return <Tour onClose={close} />;
    default:
      return null;
  }
}
