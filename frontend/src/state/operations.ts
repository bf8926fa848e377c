/** What an operation does to a hypothesis and to the project; the server does the same. */
import type {
  Guide,
  Id,
  Judgement,
  Op,
  Piece,
  Placement,
  SamePlace,
  State,
  Verdict,
} from "../api/types";
import { apply, compose, inverse, wrapDeg } from "../geometry/pose";

export const IN_TRAY: Placement = {
  placed: false,
  x_mm: 0,
  y_mm: 0,
  rotation_deg: 0,
  locked: false,
  group: null,
  z: 0,
  opacity: 1,
  island: null,
  gain: null,
  confidence: null,
};

export function placementOf(state: State, piece: Id): Placement {
  return state.placements[piece] ?? IN_TRAY;
}

export function applied(state: State, operations: readonly Op[]): State {
  const placements = { ...state.placements };
  let { guides, reference } = state;
  const change = (piece: Id, part: Partial<Placement>) => {
    placements[piece] = { ...(placements[piece] ?? IN_TRAY), ...part };
  };
  for (const op of operations) {
    switch (op.op) {
      case "place":
        change(op.piece, {
          placed: true,
          x_mm: op.x_mm,
          y_mm: op.y_mm,
          rotation_deg: op.rotation_deg,
          island: op.island ?? placements[op.piece]?.island ?? 1,
          confidence: op.confidence ?? null,
        });
        break;
      case "unplace":
        change(op.piece, { placed: false });
        break;
      case "lock":
        change(op.piece, { locked: op.locked });
        break;
      case "group":
        for (const piece of op.pieces) change(piece, { group: op.group });
        break;
      case "island":
        for (const piece of op.pieces) change(piece, { island: op.island });
        break;
      case "order":
        change(op.piece, { z: op.z });
        break;
      case "fade":
        change(op.piece, { opacity: op.opacity });
        break;
      case "tint":
        change(op.piece, { gain: op.gain });
        break;
      case "guide":
        guides = withGuide(guides, op);
        break;
      case "reference":
        reference = op.reference;
        break;
      case "replace_all":
        for (const piece of Object.keys(placements)) delete placements[piece];
        Object.assign(placements, op.placements);
        if (op.guides) guides = op.guides;
        if (op.keep_reference === false) reference = op.reference ?? null;
        break;
      default:
        break;
    }
  }
  return { ...state, placements, guides, reference };
}

function withGuide(guides: readonly Guide[], op: Extract<Op, { op: "guide" }>): Guide[] {
  const others = guides.filter((guide) => guide.id !== op.id);
  if (op.axis === null || op.position_mm === null) return others;
  return [...others, { id: op.id, axis: op.axis, position_mm: op.position_mm }];
}

/** Operations that hold for the whole project, whatever hypothesis they are made in. */
const WHOLE: ReadonlySet<Op["op"]> = new Set<Op["op"]>([
  "describe",
  "scale",
  "discard",
  "picture",
  "judge",
]);

export function isForProject({ op }: Op): boolean {
  return WHOLE.has(op);
}

/** The pieces after operations that hold for the whole project; the same array where none does. */
export function piecesAfter(pieces: readonly Piece[], operations: readonly Op[]): readonly Piece[] {
  let now = pieces;
  for (const op of operations) {
    if (op.op !== "describe" && op.op !== "scale" && op.op !== "discard") continue;
    const { op: _, piece: id, ...told } = op;
    const part = Object.fromEntries(Object.entries(told).filter(([, value]) => value !== null));
    const known = now.find((piece) => piece.id === id) as Record<string, unknown> | undefined;
    if (!known || Object.entries(part).every(([name, value]) => known[name] === value)) continue;
    now = now.map((piece) => (piece.id === id ? { ...piece, ...part } : piece));
  }
  return now;
}

/** Whether the server alone knows what became of the pieces. */
export function needsPieces(operations: readonly Op[]): boolean {
  return operations.some((op) => op.op === "picture" || op.op === "scale");
}

type Joined = Pick<Judgement, "first" | "second" | "pose">;

/** What it takes to tell joins apart. */
interface Known {
  pieces: readonly Piece[];
  same_place: SamePlace;
}

/** How far two joins of the same pieces carry the second one apart; `null` for other pieces. */
function between(
  a: Joined,
  b: Joined,
  pieces: readonly Piece[],
): { mm: number; deg: number } | null {
  const turnedRound = a.first === b.second && a.second === b.first;
  if (!turnedRound && (a.first !== b.first || a.second !== b.second)) return null;
  const other = turnedRound ? inverse(b.pose) : b.pose;
  const [cx, cy] = pieces.find((piece) => piece.id === a.second)?.centroid_mm ?? [0, 0];
  const [x, y] = apply(a.pose, cx, cy);
  const [u, v] = apply(other, cx, cy);
  const deg = Math.abs(wrapDeg(a.pose.rotation_deg - other.rotation_deg));
  return { mm: Math.hypot(x - u, y - v), deg };
}

/** Whether two joins are one to a person: seen from the same piece, the other lies nearly alike. */
export function sameJoin(a: Joined, b: Joined, { pieces, same_place }: Known): boolean {
  const apart = between(a, b, pieces);
  return apart !== null && apart.mm < same_place.mm && apart.deg < same_place.deg;
}

/** The verdict on one of the joins listed; of several nearly alike, one alone can be accepted. */
export function verdictOn(
  join: Joined,
  listed: readonly Joined[],
  judgements: readonly Judgement[],
  known: Known,
): Verdict | null {
  const about = judgements.find((one) => sameJoin(one, join, known));
  if (about?.verdict !== "accepted") return about?.verdict ?? null;
  const away = (one: Joined) => {
    const apart = between(about, one, known.pieces);
    return apart ? apart.mm + apart.deg : Infinity;
  };
  return listed.some((other) => away(other) < away(join)) ? null : "accepted";
}

/** Accepted joins of two locked pieces that lie otherwise: no solve can keep them. */
export function contradicted(
  judgements: readonly Judgement[],
  state: State,
  known: Known,
): Judgement[] {
  return judgements.filter((judgement) => {
    const { first, second, verdict } = judgement;
    const [one, other] = [placementOf(state, first), placementOf(state, second)];
    if (verdict !== "accepted" || !one.locked || !other.locked) return false;
    if (one.island !== other.island) return true;
    return !sameJoin(judgement, { first, second, pose: compose(inverse(one), other) }, known);
  });
}

export function judgementsAfter(
  judgements: readonly Judgement[],
  operations: readonly Op[],
  author: string,
  known: Known,
): readonly Judgement[] {
  let now = judgements;
  for (const op of operations) {
    if (op.op !== "judge") continue;
    now = now.filter((judgement) => !sameJoin(judgement, op, known));
    if (op.verdict === null) continue;
    const { first, second, pose, verdict } = op;
    now = [...now, { first, second, pose, verdict, author, at: new Date().toISOString() }];
  }
  return now;
}
