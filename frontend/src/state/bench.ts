/** Everything the window knows: the open project as the server told it, and what is selected. */
import type {
  About,
  HypothesisSummary,
  Id,
  Job,
  Judgement,
  Piece,
  Preview,
  ProjectSummary,
  SamePlace,
  State,
} from "../api/types";
import { placementOf } from "./operations";
import { createStore } from "./store";

export type Dialog =
  | { kind: "import"; files: { file: File; path: string }[]; draft: boolean }
  | { kind: "cutout"; piece: Id }
  | { kind: "export" }
  | { kind: "compare"; first: Id; second: Id }
  | { kind: "name"; title: string; label: string; value: string; done: (name: string) => void }
  | { kind: "confirm"; title: string; text: string; action: string; done: () => void }
  | { kind: "help" }
  | { kind: "tour" };

export interface Notice {
  id: number;
  tone: "plain" | "warning" | "bad";
  text: string;
  remedy: string;
  /** Whether it holds only until the server answers and can write again. */
  passing: boolean;
  /** The dialog that it is about: the one that was open when it was said. */
  about: Dialog["kind"] | null;
}

export interface Bench {
  about: About | null;
  projects: readonly ProjectSummary[] | null;
  project: { id: Id; name: string } | null;
  pieces: readonly Piece[];
  hypotheses: readonly HypothesisSummary[];
  judgements: readonly Judgement[];
  same_place: SamePlace;
  jobs: Readonly<Record<Id, Job>>;
  hypothesis: Id | null;
  /** The open hypothesis, with changes that are on their way to the server. */
  state: State;
  can_undo: boolean;
  can_redo: boolean;
  /** Poses a running solve tries, by job. */
  previews: Readonly<Record<Id, Preview>>;
  /** The solve whose attempts are not shown, since the person works on their own board. */
  set_aside: Id | null;
  selection: ReadonlySet<Id>;
  /** Changes not yet confirmed by the server. */
  unsaved: number;
  /** Likewise, to other hypotheses than the open one. */
  unsaved_elsewhere: number;
  /** Changes taken back before they were sent. */
  taken_back: number;
  /** Whether a field has text that is not yet a change. */
  typing: boolean;
  connected: boolean;
  /** Whether the server could write when it was last asked to. */
  writable: boolean;
  /** Whether the server asks for a token that this window does not have. */
  barred: boolean;
  /** Counts up whenever the list of candidate joins may be another. */
  joins_version: number;
  dialog: Dialog | null;
  notices: readonly Notice[];
  /** What has just happened, for those who cannot see it. */
  announced: string;
}

export const NOTHING: State = { revision: 0, placements: {}, guides: [], reference: null };

export const bench = createStore<Bench>(
  {
    about: null,
    projects: null,
    project: null,
    pieces: [],
    hypotheses: [],
    judgements: [],
    same_place: { mm: 0, deg: 0 },
    jobs: {},
    hypothesis: null,
    state: NOTHING,
    can_undo: false,
    can_redo: false,
    previews: {},
    set_aside: null,
    selection: new Set(),
    unsaved: 0,
    unsaved_elsewhere: 0,
    taken_back: 0,
    typing: false,
    connected: true,
    writable: true,
    barred: false,
    joins_version: 0,
    dialog: null,
    notices: [],
    announced: "",
  },
  withoutGone,
);

/** Nobody holds on to a piece that is discarded or unknown, whoever changed it. */
function withoutGone(now: Bench, before: Bench): Bench {
  if (now.pieces === before.pieces && now.selection === before.selection) return now;
  const live = new Set(livePieces(now).map((piece) => piece.id));
  const kept = [...now.selection].filter((id) => live.has(id));
  return kept.length === now.selection.size ? now : { ...now, selection: new Set(kept) };
}

const PLAIN_MS = 5000;
/** Plain notices that are shown at once. */
const PLAIN = 2;

let noticeId = 0;

/** Says something over the page: in passing, or, where it is no plain word, until it is dismissed. */
export function say(
  text: string,
  remedy = "",
  tone: Notice["tone"] = "plain",
  passing = false,
  about: Notice["about"] = bench.get().dialog?.kind ?? null,
): void {
  const id = ++noticeId;
  bench.set(({ notices }) => {
    const all = [
      ...notices.filter((one) => one.text !== text),
      { id, text, remedy, tone, passing, about },
    ];
    const plain = all.filter((one) => one.tone === "plain").slice(-PLAIN);
    return { notices: all.filter((one) => one.tone !== "plain" || plain.includes(one)) };
  });
  if (tone === "plain") setTimeout(() => dismiss(id), PLAIN_MS);
}

/** The server answers and can write: what was said about that is over. */
export function atWork(): void {
  bench.set(({ notices }) => ({
    connected: true,
    writable: true,
    barred: false,
    notices: notices.some((one) => one.passing) ? notices.filter((one) => !one.passing) : notices,
  }));
}

/** A call did not come through, but may later. */
export function hindered({ unwritable, barred }: { unwritable: boolean; barred: boolean }): void {
  bench.set(unwritable ? { writable: false } : { connected: false, barred });
}

/** Says something to screen readers only. */
export function announce(announced: string): void {
  bench.set({ announced });
}

export function dismiss(id: number): void {
  bench.set((now) => ({ notices: now.notices.filter((notice) => notice.id !== id) }));
}

export function open(dialog: Dialog | null): void {
  if (dialog) forgetTrouble(dialog.kind);
  bench.set({ dialog });
}

/** A dialog tries anew: what was wrong the time before is no longer so. */
export function forgetTrouble(of: Dialog["kind"]): void {
  bench.set(({ notices }) => ({
    notices: notices.filter(({ tone, about }) => tone !== "bad" || about !== of),
  }));
}

export function select(pieces: Iterable<Id>): void {
  const selection = new Set(pieces);
  const before = bench.get().selection;
  if (selection.size === before.size && [...selection].every((id) => before.has(id))) return;
  bench.set({ selection });
}

/** Pieces in use, in the order the server lists them. */
export function livePieces(now: Bench): Piece[] {
  return now.pieces.filter((piece) => !piece.discarded);
}

export function pieceOf(now: Bench, id: Id): Piece | undefined {
  return now.pieces.find((piece) => piece.id === id);
}

export function placedIds(now: Bench): Id[] {
  return livePieces(now)
    .filter((piece) => placementOf(now.state, piece.id).placed)
    .map((piece) => piece.id);
}

/** `ids` and everything grouped with them. */
export function withGroups(now: Bench, ids: Iterable<Id>): Set<Id> {
  const all = new Set(ids);
  const groups = new Set([...all].map((id) => now.state.placements[id]?.group).filter(Boolean));
  if (groups.size) {
    for (const [id, placement] of Object.entries(now.state.placements)) {
      if (placement.placed && placement.group && groups.has(placement.group)) all.add(id);
    }
  }
  return all;
}
