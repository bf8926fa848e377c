/** The help sheet: every key, and where to begin. */
import { SHORTCUTS } from "../board/keys";
import { Button } from "../parts/Button";
import { LicenceLink } from "../parts/LicenceLink";
import { Modal } from "../parts/Modal";
import { bench, open } from "../state/bench";
import { useStore } from "../state/store";

export function HelpDialog({ onClose }: { onClose: () => void }) {
  const version = useStore(bench, (now) => now.about?.version ?? "");
  const parts = [...new Set(SHORTCUTS.map((shortcut) => shortcut.part))];
  return (
    <Modal
      wide
      title="Help and keys"
      onClose={onClose}
      footer={
        <>
          <span className="faint spacer">
            reassembly {version}, under Apache-2.0 · <LicenceLink />
          </span>
          <Button onClick={() => open({ kind: "tour" })}>Show the tour</Button>
        </>
      }
    >
      <div className="help-columns">
        {parts.map((part) => (
          <section key={part}>
            <h3>{part}</h3>
            <dl>
              {SHORTCUTS.filter((shortcut) => shortcut.part === part).map(({ keys, does }) => (
                <div key={keys}>
                  <dt>
                    {keys.split("  ").map((one) => (
                      <kbd key={one}>{one}</kbd>
                    ))}
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <section>
          <h3>With the pointer</h3>
          <dl>
            <div>
              <dt>Drag</dt>
              <dd>Moves pieces; on empty ground draws a frame that chooses</dd>
            </div>
            <div>
              <dt>Handle</dt>
              <dd>Turns; with Shift in steps of 15°</dd>
            </div>
            <div>
              <dt>Wheel</dt>
              <dd>Zooms at the pointer</dd>
            </div>
            <div>
              <dt>Rulers</dt>
              <dd>Drag a guide out of them</dd>
            </div>
            <div>
              <dt>Tray</dt>
              <dd>Drag a piece onto the board, or press Enter on it</dd>
            </div>
            <div>
              <dt>Fingers</dt>
              <dd>
                One moves a piece, or the view on empty ground; resting on a piece adds it to the
                choice; two zoom. Out of the tray, pull a piece sideways
              </dd>
            </div>
          </dl>
        </section>
      </div>
    </Modal>
  );
}
