/**
 * What the server has not confirmed, in the browser's storage. Each window keeps its own; what one
 * left behind that is gone, another takes up.
 */
import type { Id, Op } from "../api/types";
import { isMine, randomName, windowName } from "./identity";

export type Edit = {
  kind: "edit";
  operations: Op[];
  /** By which the server knows it again. */
  token: string;
};

export type Back = {
  kind: "undo" | "redo";
  /** The revision that it was sent at. */
  sent_at?: number;
  /** The token of the edit that it takes back, which may or may not have reached the server. */
  of?: string;
};

export type Unsent = Edit | Back;
type Drafts = Record<string, Op[]>;

interface Entry {
  key: string;
  kind: "unsent" | "draft";
  hypothesis: Id;
  /** None for what earlier versions kept. */
  owner: string | undefined;
}

/** How long a window may take to say that it is there; one that hangs is taken for gone. */
const ANSWER_MS = 250;
const windows = new BroadcastChannel("reassembly.windows");
const answered = new Set<string>();
windows.onmessage = ({ data }: MessageEvent<{ here?: string }>) => {
  if (data.here) answered.add(data.here);
  else windows.postMessage({ here: windowName });
};

const keyOf = (kind: Entry["kind"], p: Id, h: Id) => `reassembly.${kind}.${p}.${h}.${windowName}`;
const KEY = /^reassembly\.(unsent|draft)\.([0-9a-f]+)\.([0-9a-f]+)(?:\.([0-9a-f]+))?$/;

/** This window's changes to a hypothesis, the first one first. */
export function unsent(p: Id, h: Id): Unsent[] {
  return read<Unsent[]>(keyOf("unsent", p, h)) ?? [];
}

export function keepUnsent(p: Id, h: Id, steps: readonly Unsent[]): void {
  write(keyOf("unsent", p, h), steps.length ? steps : null);
}

/** Keeps what is being typed into one field; answers whether anything is being typed. */
export function keepDraft(p: Id, h: Id, field: string, operations: Op[] | null): boolean {
  const key = keyOf("draft", p, h);
  const drafts = read<Drafts>(key) ?? {};
  if (operations) drafts[field] = operations;
  else delete drafts[field];
  const typing = Object.keys(drafts).length > 0;
  write(key, typing ? drafts : null);
  return typing;
}

/**
 * Takes over what other windows have left behind that are gone. What belongs to the `open()`
 * hypothesis goes to `takeUp`, the rest is kept as this window's.
 */
export async function inherit(
  p: Id,
  open: () => Id | null,
  takeUp: (steps: Unsent[]) => void,
): Promise<void> {
  const others = () => entries(p).filter(({ owner }) => !owner || !isMine(owner));
  if (!others().length) return;
  answered.clear();
  windows.postMessage({});
  await new Promise((done) => setTimeout(done, ANSWER_MS));
  for (const { key, kind, hypothesis, owner } of others()) {
    if (owner && answered.has(owner)) continue;
    const left = kind === "unsent" ? read<(Unsent | Op[])[]>(key) : draftsAt(key);
    const steps = (left ?? []).map(asStep);
    localStorage.removeItem(key);
    if (hypothesis === open()) takeUp(steps);
    else keepUnsent(p, hypothesis, [...unsent(p, hypothesis), ...steps]);
  }
}

/** Makes what was typed in this window, into fields that are gone, changes of a hypothesis. */
export function takeDrafts(p: Id, h: Id): void {
  const key = keyOf("draft", p, h);
  const drafts = draftsAt(key);
  localStorage.removeItem(key);
  if (drafts.length) keepUnsent(p, h, [...unsent(p, h), ...drafts.map(asStep)]);
}

/** Hypotheses that this window has changes to. */
export function hypothesesWithUnsent(p: Id): Id[] {
  return entries(p)
    .filter(({ kind, owner }) => kind === "unsent" && owner && isMine(owner))
    .map(({ hypothesis }) => hypothesis);
}

/** The one that was open last. */
export function lastOpened(p: Id): Id | null {
  return localStorage.getItem(`reassembly.opened.${p}`);
}

export function rememberOpened(p: Id, h: Id): void {
  localStorage.setItem(`reassembly.opened.${p}`, h);
}

function draftsAt(key: string): Op[][] {
  return Object.values(read<Drafts>(key) ?? {});
}

/** An earlier version kept the operations of edits alone. */
function asStep(left: Unsent | Op[]): Unsent {
  return Array.isArray(left) ? { kind: "edit", operations: left, token: randomName() } : left;
}

function entries(p: Id): Entry[] {
  return Object.keys(localStorage).flatMap((key) => {
    const [, kind, project, hypothesis, owner] = KEY.exec(key) ?? [];
    if (project !== p || !hypothesis) return [];
    return [{ key, kind: kind as Entry["kind"], hypothesis, owner }];
  });
}

function read<T>(key: string): T | null {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") as T | null;
  } catch {
    return null;
  }
}

function write(key: string, value: unknown): void {
  if (value === null) localStorage.removeItem(key);
  else localStorage.setItem(key, JSON.stringify(value));
}
