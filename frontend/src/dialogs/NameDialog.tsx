/** Asks for one name. */
import { useState } from "react";
import { Button } from "../parts/Button";
import { Modal } from "../parts/Modal";

export function NameDialog({
  title,
  label,
  value,
  done,
  onClose,
}: {
  title: string;
  label: string;
  value: string;
  done: (name: string) => void;
  onClose: () => void;
}) {
  const [name, setName] = useState(value);
  const take = () => {
    if (!name.trim()) return;
    onClose();
    done(name.trim());
  };
  return (
    <Modal
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="main" onClick={take} disabled={!name.trim()}>
            OK
          </Button>
        </>
      }
    >
      <label className="text-field">
        <span>{label}</span>
        <input
          data-first
          value={name}
          maxLength={120}
          onChange={(event) => setName(event.target.value)}
          onFocus={(event) => event.target.select()}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            // Or the button that has the focus again would take this key for itself.
            event.preventDefault();
            take();
          }}
        />
      </label>
    </Modal>
  );
}
