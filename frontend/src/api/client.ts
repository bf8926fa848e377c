/** Calls to the server; every failure is a `Refusal` with words for the person. */
import type {
  About,
  Comparison,
  EditResult,
  Fit,
  HistoryEvent,
  Hypothesis,
  HypothesisSummary,
  Id,
  Job,
  Join,
  Op,
  Piece,
  Project,
  ProjectSummary,
  RulerLine,
  State,
  Trouble,
  Upload,
} from "./types";

export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly trouble: Trouble,
  ) {
    super(`${trouble.what} ${trouble.remedy}`);
  }

  /** The server did not answer at all: the same call may succeed later. */
  get unreachable(): boolean {
    return this.status === 0;
  }

  /** The workspace cannot be written, say for a full disk: likewise. */
  get unwritable(): boolean {
    return this.status === 503;
  }

  /** The server was started anew and asks for its new token: likewise. */
  get barred(): boolean {
    return this.status === 401;
  }

  get passing(): boolean {
    return this.unreachable || this.unwritable || this.barred;
  }
}

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const options: RequestInit = { method };
  if (body instanceof FormData || body instanceof Blob) options.body = body;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  let answer: Response;
  try {
    answer = await fetch(path, options);
  } catch {
    throw unanswered();
  }
  if (answer.status === 204) return undefined as T;
  const said: unknown = await answer.json().catch(() => undefined);
  if (!answer.ok) throw new Refusal(answer.status, troubleIn(said, answer.status));
  // The server died, or the line was lost, in the middle of its words.
  if (said === undefined) throw unanswered();
  return said as T;
}

function unanswered(): Refusal {
  return new Refusal(0, {
    what: "The workbench's server does not answer.",
    remedy: "Start it again with “reassembly serve”; nothing saved is lost.",
  });
}

function troubleIn(said: unknown, status: number): Trouble {
  const told = said as Partial<Trouble> | null | undefined;
  if (typeof told?.what === "string") return { what: told.what, remedy: told.remedy ?? "" };
  return { what: `The server refused this (${status}).`, remedy: "Reload the page and try again." };
}

const get = <T>(path: string) => call<T>("GET", path);
const post = <T>(path: string, body: unknown) => call<T>("POST", path, body);

export interface Signature {
  author: string;
  client: string;
}

const project = (p: Id) => `/api/projects/${p}`;
const hypothesis = (p: Id, h: Id) => `/api/projects/${p}/hypotheses/${h}`;

export const api = {
  about: () => get<About>("/api/about"),
  projects: () => get<ProjectSummary[]>("/api/projects"),
  /** `draft`: for an import; without pieces it is not listed, and soon forgotten. */
  createProject: (name: string, draft = false) => post<Project>("/api/projects", { name, draft }),
  demo: () => post<Project>("/api/demo", {}),
  project: (p: Id) => get<Project>(project(p)),
  renameProject: (p: Id, name: string) => call<Project>("PATCH", project(p), { name }),
  deleteProject: (p: Id) => call<void>("DELETE", project(p)),
  openProject: (file: File) => {
    const form = new FormData();
    form.append("file", file, file.name);
    return post<{ job: Job }>("/api/projects/import", form);
  },

  pieces: (p: Id) => get<Piece[]>(`${project(p)}/pieces`),
  keypoints: (p: Id, piece: Id) =>
    get<{ keypoints_mm: [number, number][] }>(`${project(p)}/pieces/${piece}/keypoints`),
  /** `split`: every part of the mask that hangs together becomes a piece. */
  putMask: (p: Id, h: Id, piece: Id, mask: Blob, split: boolean, by: Signature) => {
    const query = new URLSearchParams({ ...by, split: String(split) });
    return call<{ job: Job }>("PUT", `${hypothesis(p, h)}/pieces/${piece}/mask?${query}`, mask);
  },
  split: (p: Id, h: Id, piece: Id, line_px: [number, number][] | null, by: Signature) =>
    post<{ job: Job }>(`${hypothesis(p, h)}/pieces/${piece}/split`, { line_px, ...by }),
  merge: (p: Id, h: Id, pieces: Id[], by: Signature) =>
    post<{ job: Job }>(`${hypothesis(p, h)}/merge`, { pieces, ...by }),

  hypotheses: (p: Id) => get<HypothesisSummary[]>(`${project(p)}/hypotheses`),
  hypothesis: (p: Id, h: Id) => get<Hypothesis>(hypothesis(p, h)),
  branch: (p: Id, name: string, from: Id | null, revision: number | null, author: string) =>
    post<Hypothesis>(`${project(p)}/hypotheses`, { name, from, revision, author }),
  renameHypothesis: (p: Id, h: Id, name: string) =>
    call<HypothesisSummary>("PATCH", hypothesis(p, h), { name }),
  deleteHypothesis: (p: Id, h: Id) => call<void>("DELETE", hypothesis(p, h)),
  history: (p: Id, h: Id, before: number | null, limit = 60) =>
    get<HistoryEvent[]>(
      `${hypothesis(p, h)}/history?limit=${limit}${before === null ? "" : `&before=${before}`}`,
    ),
  stateAt: (p: Id, h: Id, revision: number) =>
    get<State>(`${hypothesis(p, h)}/revisions/${revision}`),
  restore: (p: Id, h: Id, revision: number, by: Signature) =>
    post<EditResult>(`${hypothesis(p, h)}/restore`, { revision, ...by }),
  undo: (p: Id, h: Id, by: Signature) => post<EditResult>(`${hypothesis(p, h)}/undo`, by),
  redo: (p: Id, h: Id, by: Signature) => post<EditResult>(`${hypothesis(p, h)}/redo`, by),
  /** @param token the same one sent again is answered, not done again. */
  edit: (p: Id, h: Id, operations: Op[], token: string, by: Signature) =>
    post<EditResult>(`${hypothesis(p, h)}/edits`, { operations, token, ...by }),
  compare: (p: Id, first: Id, second: Id) =>
    get<Comparison>(`${project(p)}/compare?first=${first}&second=${second}`),
  fit: (p: Id, h: Id) => get<Fit>(`${hypothesis(p, h)}/fit`),

  upload: (p: Id, files: { file: File; path: string }[]) => {
    const form = new FormData();
    for (const { file, path } of files) form.append("files", file, path);
    return post<Upload>(`${project(p)}/uploads`, form);
  },
  uploaded: (p: Id, u: Id) => get<Upload>(`${project(p)}/uploads/${u}`),
  bringIn: (
    p: Id,
    wish: {
      upload: Id;
      mode: "auto" | "pieces" | "tray";
      mm_per_px: number | null;
      rulers: RulerLine[];
      /** Points of things in trays that are no pieces. */
      refused: { file: number; x_px: number; y_px: number }[];
      provenance: string;
      files: number[];
      hypothesis: Id | null;
    } & Signature,
  ) => post<{ job: Job }>(`${project(p)}/imports`, wish),
  reference: (p: Id, file: File) => {
    const form = new FormData();
    form.append("file", file, file.name);
    return post<{ job: Job }>(`${project(p)}/references`, form);
  },

  job: (j: Id) => get<Job>(`/api/jobs/${j}`),
  cancel: (j: Id) => call<Job>("DELETE", `/api/jobs/${j}`),
  solve: (
    p: Id,
    h: Id,
    wish: {
      solver: string | null;
      seed: number;
      scope: "all" | "unplaced";
      trust: number;
      apply: boolean;
    } & Signature,
  ) => post<{ job: Job }>(`${hypothesis(p, h)}/solve`, wish),
  applyProposal: (j: Id, rank: number, name: string | null, by: Signature) =>
    post<Hypothesis>(`/api/jobs/${j}/proposals/${rank}/apply`, { name, ...by }),
  findJoins: (p: Id, by: Signature) =>
    post<{ job: Job }>(`${project(p)}/joins`, { seed: 0, ...by }),
  joins: (p: Id, piece: Id) =>
    get<{ joins: Join[]; found_at: string | null; stale: boolean; settled: boolean }>(
      `${project(p)}/joins?piece=${piece}`,
    ),
  profile: (p: Id, join: Id) =>
    get<{ gap_mm: [number, number][] }>(`${project(p)}/joins/${join}/profile`),
  export: (p: Id, h: Id, formats: string[]) =>
    post<{ job: Job }>(`${hypothesis(p, h)}/exports`, { formats }),
};

export const pictureUrl = {
  level: (sha: string, level: number) => `/api/pictures/${sha}/${level}.webp`,
  full: (sha: string) => `/api/pictures/${sha}/full.png`,
  photo: (sha: string) => `/api/pictures/${sha}/photo.png`,
  mask: (sha: string) => `/api/pictures/${sha}/mask.png`,
  join: (p: Id, join: Id, show: "both" | "first" | "second", size: number) =>
    `/api/projects/${p}/joins/${join}/picture.png?show=${show}&size=${size}`,
  strip: (p: Id, join: Id) => `/api/projects/${p}/joins/${join}/strip.png`,
};
