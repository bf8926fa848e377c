/** A picture that can be looked at closely: fitted at first, then larger and scrolled. */
import { useState, type ReactNode } from "react";
import { IconButton } from "./Button";

const STEPS = [1, 1.5, 2, 3, 4, 6, 8];

export function Zoomable({ aspect, children }: { aspect: number; children: ReactNode }) {
  const [at, setAt] = useState(0);
  const zoom = STEPS[at] ?? 1;
  return (
    <div className="zoomable">
      <div className="zoomable-view">
        <div
          className="zoomable-content"
          style={{
            aspectRatio: aspect,
            width: zoom === 1 ? undefined : `${zoom * 100}%`,
            maxHeight: zoom === 1 ? "100%" : "none",
          }}
        >
          {children}
        </div>
      </div>
      <div className="zoomable-buttons floating" role="toolbar" aria-label="Zoom of the picture">
        <IconButton
          icon="minus"
          label="Smaller"
          disabled={at === 0}
          onClick={() => setAt(at - 1)}
        />
        <span className="figures">{zoom} ×</span>
        <IconButton
          icon="plus"
          label="Larger"
          disabled={at === STEPS.length - 1}
          onClick={() => setAt(at + 1)}
        />
      </div>
    </div>
  );
}
