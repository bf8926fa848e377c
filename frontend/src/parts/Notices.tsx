/** Short messages; read aloud by screen readers, gone after a while. */
import { bench, dismiss } from "../state/bench";
import { useStore } from "../state/store";
import { IconButton } from "./Button";
import { asSentence, capital } from "./words";

export function Notices() {
  const notices = useStore(bench, (now) => now.notices);
  return (
    <div className="notices" role="log" aria-live="polite">
      {notices.map((notice) => (
        <div
          key={notice.id}
          className={`notice ${notice.tone}`}
          role={notice.tone === "bad" ? "alert" : undefined}
        >
          <p>
            {capital(notice.remedy ? asSentence(notice.text) : notice.text)}{" "}
            {notice.remedy && <span className="faint">{capital(asSentence(notice.remedy))}</span>}
          </p>
          <IconButton icon="close" label="Dismiss" onClick={() => dismiss(notice.id)} />
        </div>
      ))}
    </div>
  );
}
