/** Choosing files or a folder by a button, for those who do not drag. */
import { useRef, type ReactNode } from "react";
import { bringIn } from "../dialogs/bringIn";
import { Button } from "./Button";
import { filesOfInput } from "./files";

export function FileButton({
  children,
  folder = false,
  kind = "plain",
}: {
  children: ReactNode;
  folder?: boolean;
  kind?: "plain" | "main";
}) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button
        icon={folder ? undefined : "import"}
        kind={kind}
        onClick={() => input.current?.click()}
      >
        {children}
      </Button>
      <input
        ref={(element) => {
          input.current = element;
          if (folder) element?.setAttribute("webkitdirectory", "");
        }}
        type="file"
        multiple
        hidden
        aria-label={folder ? "Choose a folder" : "Choose files"}
        onChange={(event) => {
          void bringIn(filesOfInput(event.target.files));
          event.target.value = "";
        }}
      />
    </>
  );
}
