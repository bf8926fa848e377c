/** One candidate join: its picture, its figures, its reasons, and the verdict. */
import { useEffect, useState, type RefObject } from "react";
import { api, pictureUrl } from "../api/client";
import type { Join, Piece, Verdict } from "../api/types";
import type { Board } from "../board/Board";
import { compose, inverse } from "../geometry/pose";
import { trim } from "../geometry/scale";
import { Button } from "../parts/Button";
import { GapProfile } from "../parts/GapProfile";
import { sayShare } from "../parts/words";
import { nameOf, placeAt } from "../state/actions";
import { bench, select } from "../state/bench";
import { contradicted, placementOf, sameJoin, verdictOn } from "../state/operations";
import { edit } from "../state/queue";
import { useStore } from "../state/store";

const FLICKER_MS = 600;

const VERDICTS: readonly (readonly [Verdict, string])[] = [
  ["accepted", "Accept"],
  ["rejected", "Reject"],
  ["unsure", "Unsure"],
];

export function JoinCard({
  join,
  listed,
  piece,
  board,
}: {
  join: Join;
  /** All that are shown with it. */
  listed: readonly Join[];
  piece: Piece;
  board: RefObject<Board | null>;
}) {
  const project = useStore(bench, (now) => now.project?.id ?? "");
  const verdict = useStore(bench, (now) => verdictOn(join, listed, now.judgements, now));
  const against = useStore(
    bench,
    (now) =>
      verdict === "accepted" &&
      contradicted(now.judgements, now.state, now).some((one) => sameJoin(one, join, now)),
  );
  const [why, setWhy] = useState(false);
  const partner = join.first === piece.id ? join.second : join.first;
  const gap = Number(trim(join.gap_mm, 2));
  const judge = (wanted: Verdict) =>
    edit([
      {
        op: "judge",
        first: join.first,
        second: join.second,
        pose: join.pose,
        verdict: verdict === wanted ? null : wanted,
      },
    ]);
  return (
    <li className={`join ${verdict ?? ""}`} aria-label={`Join with ${nameOf(partner)}`}>
      <div className="join-head">
        <Flicker project={project} join={join} first={join.first === piece.id} />
        <div className="join-figures">
          <button type="button" className="link strong" onClick={() => select([partner])}>
            {nameOf(partner)}
          </button>
          <p className="confidence">
            <meter min={0} max={1} value={join.probability} aria-label="Probability" />{" "}
            {sayShare(join.probability)}
          </p>
          <dl>
            <dt>{gap < 0 ? "overlapping" : "gap"}</dt>
            <dd>{Math.abs(gap)} mm</dd>
            <dt>overlap</dt>
            <dd>{trim(join.overlap_mm2, 1)} mm²</dd>
            <dt>contact</dt>
            <dd>{trim(join.contact_mm, 0)} mm</dd>
          </dl>
        </div>
      </div>
      <div className="verdicts" role="group" aria-label="Verdict">
        {VERDICTS.map(([name, label]) => (
          <button
            key={name}
            type="button"
            className={`button ${name}`}
            aria-pressed={verdict === name}
            onClick={() => judge(name)}
          >
            {label}
          </button>
        ))}
      </div>
      {against && (
        <p className="caution">
          Both pieces are locked otherwise. Unlock one of them, or this join will not be kept.
        </p>
      )}
      <div className="row">
        <PutTogether join={join} piece={piece} board={board} />
        <Button kind="quiet" pressed={why} onClick={() => setWhy(!why)}>
          Why?
        </Button>
      </div>
      {why && <Why project={project} join={join} />}
    </li>
  );
}

/** The join's picture; shown with and without the partner in turn while the button is on. */
function Flicker({ project, join, first }: { project: string; join: Join; first: boolean }) {
  const [on, setOn] = useState(false);
  const [alone, setAlone] = useState(false);
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => setAlone((now) => !now), FLICKER_MS);
    return () => {
      clearInterval(timer);
      setAlone(false);
    };
  }, [on]);
  return (
    <button
      type="button"
      className="join-picture"
      aria-pressed={on}
      aria-label="Flicker: with and without the partner"
      title="Click to flicker between with and without the partner"
      onClick={() => setOn(!on)}
    >
      <img
        src={pictureUrl.join(project, join.id, "both", 256)}
        alt="The two pieces, joined"
        loading="lazy"
        hidden={alone}
      />
      {on && (
        <img
          src={pictureUrl.join(project, join.id, first ? "first" : "second", 256)}
          alt="The chosen piece alone"
          hidden={!alone}
        />
      )}
    </button>
  );
}

function PutTogether({
  join,
  piece,
  board,
}: {
  join: Join;
  piece: Piece;
  board: RefObject<Board | null>;
}) {
  const state = useStore(bench, (now) => now.state);
  const own = placementOf(state, piece.id);
  const isFirst = join.first === piece.id;
  const partner = isFirst ? join.second : join.first;
  const locked = placementOf(state, partner).locked;
  const put = () => {
    const pose = compose(own, isFirst ? join.pose : inverse(join.pose));
    placeAt(new Map([[partner, pose]]), own.island ?? 1);
    board.current?.container.focus();
  };
  return (
    <Button
      onClick={put}
      disabled={!own.placed || locked}
      hint={
        own.placed
          ? "Lays the partner against the chosen piece"
          : "Put the chosen piece on the board first"
      }
    >
      Put together
    </Button>
  );
}

function Why({ project, join }: { project: string; join: Join }) {
  const [profile, setProfile] = useState<[number, number][] | null>(null);
  useEffect(() => {
    let current = true;
    void api.profile(project, join.id).then(
      ({ gap_mm }) => current && setProfile(gap_mm),
      () => current && setProfile([]),
    );
    return () => {
      current = false;
    };
  }, [project, join.id]);
  return (
    <div className="why">
      <figure>
        <img
          src={pictureUrl.strip(project, join.id)}
          alt="The paint along both sides of the joint, one above the other"
        />
        <figcaption className="faint">
          The paint along both sides of the joint. Lines that continue across the middle speak for
          it.
        </figcaption>
      </figure>
      {profile && profile.length > 1 && (
        <figure>
          <GapProfile points={profile} />
          <figcaption className="faint">
            The gap along the joint in mm; below the line the pieces overlap.
          </figcaption>
        </figure>
      )}
    </div>
  );
}
