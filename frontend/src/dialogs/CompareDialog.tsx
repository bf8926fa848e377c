/** Two hypotheses side by side, and where they differ. */
import { useEffect, useState } from "react";
import { api } from "../api/client";
import type { Comparison, Hypothesis, Id } from "../api/types";
import { trim } from "../geometry/scale";
import { Modal } from "../parts/Modal";
import { MiniAssembly } from "../parts/MiniAssembly";
import { nameOf } from "../state/actions";
import { bench, select } from "../state/bench";
import { tell } from "../state/sync";

const WORDS = {
  same: "the same",
  moved: "elsewhere",
  only_first: "only in the first",
  only_second: "only in the second",
};

const LAID_OVER = {
  nothing: "Both are compared as they lie.",
  locked: "Before, the second was laid over the first by the pieces locked in both.",
  all: "Before, the second was laid over the first so that all their pieces together fit best.",
};

export function CompareDialog({
  first,
  second,
  onClose,
}: {
  first: Id;
  second: Id;
  onClose: () => void;
}) {
  const [both, setBoth] = useState<[Hypothesis, Hypothesis] | null>(null);
  const [found, setFound] = useState<Comparison | null>(null);
  useEffect(() => {
    const { project } = bench.get();
    if (!project) return;
    void tell(async () => {
      setBoth(
        await Promise.all([api.hypothesis(project.id, first), api.hypothesis(project.id, second)]),
      );
      setFound(await api.compare(project.id, first, second));
    });
  }, [first, second]);
  const other = found?.pieces.filter((piece) => piece.change !== "same") ?? [];
  const alike = (found?.pieces.length ?? 0) - other.length;
  return (
    <Modal wide title="Compare hypotheses" onClose={onClose}>
      <div className="compare">
        {both?.map((one) => (
          <figure key={one.id}>
            <MiniAssembly placements={one.state.placements} label={one.name} height={300} />
            <figcaption>
              <strong>{one.name}</strong> <span className="faint">{one.placed} placed</span>
            </figcaption>
          </figure>
        ))}
      </div>
      {found && (
        <>
          <p>
            {alike === 1 ? "1 piece lies" : `${alike} pieces lie`} the same
            {other.length ? `, ${other.length} ${other.length === 1 ? "differs" : "differ"}.` : "."}
          </p>
          <p className="faint">
            The same: the middle of the piece within {found.same_mm} mm, turned by at most{" "}
            {found.same_deg}°. {LAID_OVER[found.laid_over]}
          </p>
          {other.length > 0 && (
            <table>
              <thead>
                <tr>
                  <th>Piece</th>
                  <th></th>
                  <th className="number">Distance</th>
                  <th className="number">Angle</th>
                </tr>
              </thead>
              <tbody>
                {other.map((piece) => (
                  <tr key={piece.piece}>
                    <th>
                      <button
                        type="button"
                        className="link"
                        onClick={() => {
                          select([piece.piece]);
                          onClose();
                        }}
                      >
                        {nameOf(piece.piece)}
                      </button>
                    </th>
                    <td>{WORDS[piece.change]}</td>
                    <td className="number">
                      {piece.distance_mm === null ? "" : `${trim(piece.distance_mm, 1)} mm`}
                    </td>
                    <td className="number">
                      {piece.rotation_deg === null ? "" : `${trim(piece.rotation_deg, 1)}°`}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </>
      )}
    </Modal>
  );
}
