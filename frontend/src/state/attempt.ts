/** A running solve's attempt, and whether the board shows it or what truly lies there. */
import type { Id, Op } from "../api/types";
import { bench, say, type Bench } from "./bench";

/** The running solve of the open hypothesis that has an attempt to show, shown or not. */
export function attemptOf({ previews, jobs, hypothesis }: Bench): Id | null {
  return Object.keys(previews).find((id) => jobs[id]?.hypothesis === hypothesis) ?? null;
}

export function isAttemptShown(now: Bench): boolean {
  const job = attemptOf(now);
  return job !== null && job !== now.set_aside;
}

export function showAttempt(shown: boolean): void {
  bench.set((now) => ({ set_aside: shown ? null : attemptOf(now) }));
}

/** Operations that are seen only where the board shows what truly lies there. */
const SEEN: ReadonlySet<Op["op"]> = new Set<Op["op"]>([
  "place",
  "unplace",
  "lock",
  "group",
  "island",
  "order",
  "fade",
  "tint",
  "replace_all",
]);

/** Goes back to the person's own board, once they change something on it. */
export function showChanged(operations: readonly Op[]): void {
  if (isAttemptShown(bench.get()) && operations.some(({ op }) => SEEN.has(op))) showAttempt(false);
}

/** Says why nothing moves while an attempt is shown. Answers whether one is. */
export function refusedForAttempt(): boolean {
  if (!isAttemptShown(bench.get())) return false;
  say("The board shows a solver’s attempt.", "Press “Show my board” to move your pieces.");
  return true;
}
