"""Which regions the directions are divided into, and where to divide them further."""

from __future__ import annotations

import numpy as np

from covopt.oracles.lifted.admm import LiftedPoint
from covopt.oracles.lifted.gauge_certificate import GaugeCertificate, Multipliers, UnitRows
from covopt.oracles.lifted.lift import Lift, Region, is_empty

LIGHT = 1e-3  # of the whole mass: what is not worth a split
SETTLED = 1e-4


class Regions:
    """A cover of all directions by cones of a sub-arrangement, and of both signs of a scalar dual.

    Parameters
    ----------
    units : ndarray of shape (n, r)
        Rows of length one.
    n_outputs : int
    level : str
        See :class:`covopt.oracles.lifted.lift.Lift`.

    Examples
    --------
    >>> len(Regions(np.eye(3), 1, "plain")), len(Regions(np.eye(3), 1, "length"))
    (1, 2)
    """

    def __init__(self, units: np.ndarray, n_outputs: int, level: str):
        self.rows, self.n_rows, self.level = units, len(units), level
        nothing = np.zeros(self.n_rows, dtype=np.int8)
        one_sided = n_outputs == 1 and level != "plain"
        self.regions = [Region(nothing, sign) for sign in ((1, -1) if one_sided else (0,))]
        self._lifts: dict[tuple[bytes, int], Lift] = {}

    def __len__(self) -> int:
        return len(self.regions)

    def lifts(self) -> list[Lift]:
        """One lift per region, kept while the region is."""
        kept: dict[tuple[bytes, int], Lift] = {}
        for region in self.regions:
            key = region.key
            old = self._lifts.get(key)
            if old is None or len(old.rows) < len(self.rows):
                old = Lift(self.rows, self.n_rows, region, self.level)
            kept[key] = old
        self._lifts = kept
        return list(kept.values())

    def split(self, point: LiftedPoint, only: list[int] | None = None, limit: int = 256) -> int:
        """Split the regions that carry mass, each where its moments disagree most with any one neuron.

        Parameters
        ----------
        point : LiftedPoint
            Moments per region, in the order of :meth:`lifts`.
        only : list of int, optional
            Regions that may be split; all that carry mass otherwise.
        limit : int
            Largest number of regions to end with.

        Returns
        -------
        int
            How many were split.
        """
        masses = np.array([moment[0, 0] for moment in point.moments])
        order = np.argsort(-masses) if only is None else np.array(only)
        chosen: dict[int, int] = {}
        for index in order:
            if len(self.regions) + len(chosen) >= limit or masses[index] <= LIGHT * masses.sum():
                continue
            row = self._where(index, point, masses[index])
            if row is not None:
                chosen[int(index)] = row
        # extra hyperplanes may have been added meanwhile
        width = len(self.rows)
        regions = []
        for index, region in enumerate(self.regions):
            signs = np.zeros(width, dtype=np.int8)
            signs[: len(region.signs)] = region.signs
            wide = Region(signs, region.sign)
            if index in chosen:
                regions += [half for half in wide.split(chosen[index]) if not is_empty(self.rows, half.signs)]
            else:
                regions.append(wide)
        self.regions = regions
        return len(chosen)

    def _where(self, index: int, point: LiftedPoint, mass: float) -> int | None:
        """Find a row that is active and inactive at once in the moments, or add a hyperplane."""
        lift = list(self._lifts.values())[index]
        moment, dual = point.moments[index], np.linalg.norm(point.dual, axis=1)
        p, q = lift.pairs
        if len(p):
            if lift.region.sign:
                both = np.minimum(moment[0, p], moment[0, q])
            else:
                both = np.sqrt(mass * np.maximum(np.minimum(moment[p, p], moment[q, q]), 0.0))
            worth = both * dual[lift.open]
            if worth.max() > SETTLED * mass:
                return int(lift.open[worth.argmax()])
        values, vectors = np.linalg.eigh(point.spans[index])
        if len(values) < 2 or values[-2] <= SETTLED * mass:
            return None
        self.rows = np.concatenate([self.rows, vectors[:, -2][None, :]])
        return len(self.rows) - 1


def certificate_of(
    unit: UnitRows, support: np.ndarray, n_all: int, lifts: list[Lift], multipliers: list[Multipliers]
) -> GaugeCertificate:
    """Store multipliers, one per lift, for the dual in ``unit``.

    Parameters
    ----------
    unit : UnitRows
    support : ndarray of int
        Its rows among all of them.
    n_all : int
        How many there are.
    lifts : list of Lift
        They cover all directions.
    multipliers : list of Multipliers
    """
    rows, n_rows = lifts[0].rows, len(support)
    extra = rows[n_rows:] @ np.linalg.pinv(rows[:n_rows])
    return GaugeCertificate(
        n_rows=n_all,
        n_outputs=unit.dual.shape[1],
        size=unit.size,
        support=[int(i) for i in support],
        level=lifts[0].level,
        extra=[[float(value) for value in line] for line in extra],
        regions=[part.store(lift) for part, lift in zip(multipliers, lifts, strict=True)],
    )
