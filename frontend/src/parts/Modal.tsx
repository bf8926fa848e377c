/** A dialog over the page, focused on what is marked `data-first`, or its title; Esc closes it. */
import { useId, useLayoutEffect, useRef, type ReactNode } from "react";
import { IconButton } from "./Button";
import { Notices } from "./Notices";

export function Modal({
  title,
  wide = false,
  onClose,
  children,
  footer,
}: {
  title: string;
  wide?: boolean;
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const id = useId();
  // Closed while it is still in the page, so that the browser gives the focus back.
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    (shown?.querySelector<HTMLElement>("[data-first]") ?? heading.current)?.focus();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={wide ? "modal wide" : "modal"}
      aria-labelledby={id}
      onKeyDown={(event) => {
        // Where nothing else was done between two, a browser closes by the second Esc unasked.
        if (event.key !== "Escape" || event.target instanceof HTMLSelectElement) return;
        event.preventDefault();
        onClose();
      }}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={id} ref={heading} tabIndex={-1}>
          {title}
        </h2>
        <IconButton icon="close" label="Close" onClick={onClose} />
      </header>
      <div className="modal-body">{children}</div>
      {footer && <footer>{footer}</footer>}
      {/* Outside of the dialog they would lie behind it. */}
      <Notices />
    </dialog>
  );
}
