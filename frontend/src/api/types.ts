/** The shapes the server speaks: see /api/docs of a running workbench. */
import type { Outline } from "../geometry/polygon";
import type { Point, Pose } from "../geometry/pose";

export type Id = string;
export type Verdict = "accepted" | "rejected" | "unsure";
export type Colour = [r: number, g: number, b: number];

export interface Trouble {
  what: string;
  remedy: string;
}

export interface About {
  version: string;
  solvers: { name: string; summary: string; available: boolean; needs: string | null }[];
  default_solver: string;
  limits: { files: number; file_bytes: number; upload_bytes: number; pixels: number };
  export_formats: string[];
  readable_suffixes: string[];
}

export interface ProjectSummary {
  id: Id;
  name: string;
  created_at: string;
  changed_at: string;
  /** When it came out of a project file, if it did. */
  imported_at: string | null;
  pieces: number;
  hypotheses: number;
}

export interface Piece {
  id: Id;
  name: string;
  inventory: string;
  note: string;
  provenance: string;
  discarded: boolean;
  mm_per_px: number;
  scale_origin: string;
  picture: string;
  width_px: number;
  height_px: number;
  origin_px: Point;
  levels: number[];
  area_mm2: number;
  centroid_mm: Point;
  colour: Colour;
  outline_mm: Outline;
  warnings: string[];
}

export interface Placement extends Pose {
  placed: boolean;
  locked: boolean;
  group: string | null;
  z: number;
  opacity: number;
  island: number | null;
  gain: Colour | null;
  confidence: number | null;
}

export interface Guide {
  id: string;
  axis: "x" | "y";
  position_mm: number;
}

export interface Reference extends Pose {
  picture: string;
  mm_per_px: number;
  opacity: number;
}

export interface State {
  revision: number;
  placements: Record<Id, Placement>;
  guides: Guide[];
  reference: Reference | null;
}

export interface HypothesisSummary {
  id: Id;
  name: string;
  revision: number;
  parent: Id | null;
  parent_revision: number | null;
  created_at: string;
  changed_at: string;
  can_undo: boolean;
  can_redo: boolean;
  placed: number;
  confidence: number | null;
}

export interface Hypothesis extends HypothesisSummary {
  state: State;
}

export interface Judgement {
  first: Id;
  second: Id;
  pose: Pose;
  verdict: Verdict;
  author: string;
  at: string;
}

export type JobState = "queued" | "running" | "done" | "failed" | "cancelled";

export interface Job {
  id: Id;
  project: Id;
  hypothesis: Id | null;
  kind: "inspect" | "import" | "reference" | "solve" | "joins" | "repair" | "export" | "open";
  state: JobState;
  fraction: number;
  stage: string;
  seconds_left: number | null;
  created_at: string;
  finished_at: string | null;
  interrupted: number;
  error: Trouble | null;
  result: Record<string, unknown> | null;
}

/** How the pieces that a running solve may move would lie if it ended now. */
export type Preview = Record<Id, Placement>;

export interface Proposal {
  rank: number;
  confidence: number | null;
  /** Pieces that lie by it, those that were held included. */
  placed: number;
  /** Pieces that were to be placed, and those of them that are; missing in earlier answers. */
  asked?: number;
  laid?: number;
  /** Pieces that were to be placed and are not; missing in answers of earlier versions. */
  unplaced?: Id[];
  /** Pieces that stay where a person has locked or moved them meanwhile; likewise. */
  left?: Id[];
  placements: Record<Id, Placement>;
}

export interface SolveResult {
  proposals: Proposal[];
  applied_revision: number | null;
  confidence_note: string;
  warnings: string[];
}

/** What differs by less in both is the same place to a person, and the same join. */
export interface SamePlace {
  mm: number;
  deg: number;
}

export interface Project {
  id: Id;
  name: string;
  note: string;
  sequence: number;
  pieces: Piece[];
  hypotheses: HypothesisSummary[];
  judgements: Judgement[];
  same_place: SamePlace;
  jobs: Job[];
}

export interface Join {
  id: Id;
  first: Id;
  second: Id;
  pose: Pose;
  probability: number;
  gap_mm: number;
  overlap_mm2: number;
  contact_mm: number;
  verdict: Verdict | null;
}

export interface Fit {
  overlaps: { first: Id; second: Id; area_mm2: number; rings_mm: Outline }[];
  gaps: { first: Id; second: Id; gap_mm: number; at_mm: [Point, Point] }[];
}

/** Something in a photograph: a point within it, and the box around it. */
export interface Thing {
  x_px: number;
  y_px: number;
  left_px: number;
  top_px: number;
  width_px: number;
  height_px: number;
  /** Why it may be no piece. */
  doubt: string | null;
}

export interface UploadFile {
  index: number;
  name: string;
  bytes: number;
  kind: "cutout" | "photograph" | "zip" | "project" | "puzzle" | "other";
  width_px: number | null;
  height_px: number | null;
  dpi: number | null;
  mm_per_px: number | null;
  several: number | null;
  /** Whether every thing in it becomes a piece, unless told otherwise. */
  tray: boolean;
  things: Thing[];
  error: string | null;
  preview: string | null;
}

export interface Upload {
  id: Id;
  job: Job;
  files: UploadFile[];
}

export interface RulerLine {
  /** Index of the photograph among the uploaded files. */
  file: number;
  x1_px: number;
  y1_px: number;
  x2_px: number;
  y2_px: number;
  length_mm: number;
}

export interface HistoryEvent {
  revision: number;
  at: string;
  author: string;
  client: string;
  kind: string;
  summary: string;
  undone: boolean;
}

export interface Comparison {
  pieces: {
    piece: Id;
    change: "same" | "moved" | "only_first" | "only_second";
    distance_mm: number | null;
    rotation_deg: number | null;
  }[];
  /** By which pieces one was laid over the other. */
  laid_over: "nothing" | "locked" | "all";
  same_mm: number;
  same_deg: number;
}

export type Op =
  | ({ op: "place"; piece: Id; island?: number; confidence?: number } & Pose)
  | { op: "unplace"; piece: Id }
  | { op: "lock"; piece: Id; locked: boolean }
  | { op: "group"; pieces: Id[]; group: string | null }
  | { op: "island"; pieces: Id[]; island: number }
  | { op: "order"; piece: Id; z: number }
  | { op: "fade"; piece: Id; opacity: number }
  | { op: "tint"; piece: Id; gain: Colour | null }
  | { op: "guide"; id: string; axis: "x" | "y" | null; position_mm: number | null }
  | { op: "reference"; reference: Reference | null }
  | {
      op: "replace_all";
      placements: Record<Id, Placement>;
      guides?: Guide[] | null;
      reference?: Reference | null;
      /** Unless `false`, the one that lies there stays. */
      keep_reference?: boolean;
    }
  | { op: "judge"; first: Id; second: Id; pose: Pose; verdict: Verdict | null }
  | {
      op: "describe";
      piece: Id;
      name?: string | null;
      inventory?: string | null;
      note?: string | null;
      provenance?: string | null;
    }
  | { op: "scale"; piece: Id; mm_per_px: number }
  | { op: "discard"; piece: Id; discarded: boolean }
  | { op: "picture"; piece: Id };

export interface EditResult {
  revision: number;
  kind: string;
  operations: Op[];
  can_undo: boolean;
  can_redo: boolean;
}

export interface EditEvent extends EditResult {
  hypothesis: Id;
  author: string;
  client: string;
  summary: string;
}
