/** Asks before something that cannot be undone. */
import { Button } from "../parts/Button";
import { Modal } from "../parts/Modal";

export function ConfirmDialog({
  title,
  text,
  action,
  done,
  onClose,
}: {
  title: string;
  text: string;
  action: string;
  done: () => void;
  onClose: () => void;
}) {
  const act = () => {
    onClose();
    done();
  };
  return (
    <Modal
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep</Button>
          <Button kind="main" onClick={act}>
            {action}
          </Button>
        </>
      }
    >
      <p>{text}</p>
    </Modal>
  );
}
