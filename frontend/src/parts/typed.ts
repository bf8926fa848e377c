/** Fields with something typed that is not yet taken; the page does not go away without it. */
import { useLayoutEffect, useRef } from "react";

const fields = new Set<() => unknown>();

/** Takes what is being typed, wherever it is. */
export function takeTyped(): void {
  for (const take of [...fields]) take();
}

window.addEventListener("pagehide", takeTyped);
document.addEventListener("visibilitychange", () => document.hidden && takeTyped());

/** Calls `take`, as it was rendered last, when the page goes away or the field is `gone` from it. */
export function useTyped(take: (gone: boolean) => unknown): void {
  const latest = useRef(take);
  useLayoutEffect(() => {
    latest.current = take;
  });
  useLayoutEffect(() => {
    const now = () => latest.current(false);
    fields.add(now);
    return () => {
      fields.delete(now);
      latest.current(true);
    };
  }, []);
}
