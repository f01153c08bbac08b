r"""Multipliers for two rows where the tree bound is least: it closes where one neuron a layer is best.

For two rows nothing is left to choose in a family but the direction of λ. At the c of the best network, then where
the bound of the families so far is least, a search over the angle finds the λ of the largest bound; it joins the
others, and on each box the best of all counts. Where one neuron a layer is best, as it mostly is for targets of one
sign, nothing is lost by copies of the layers below.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from covopt.data import Data
from covopt.depth.tree import Family, Recursion, tree_least
from covopt.depth.tree_search import TreeSearch
from covopt.limits import TimeUp, checkpoint

ROUNDS = 16
ANGLES = 24  # of a half circle, before the best is sharpened
GOAL = 5e-7  # relative to the network beside it
COARSE, TOL = 1e-3, 1e-7  # of the minimum over c, at first and in the end
MAX_BOXES = 6000


def refine(
    family: Family, data: Data, depth: int, output_bias: str, *, upper: float, sizes: np.ndarray
) -> tuple[list[Family], float]:
    """Return families of two rows that are best where their bound is least, and the bound.

    Parameters
    ----------
    family : Family
        Says which rows, and which direction of the outputs.
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    upper : float
        The squared norm of some network through the points.
    sizes : ndarray of shape (L − 2,)
        c of that network: where to begin.
    """
    rows, direction = list(family.rows), family.direction
    lifted, penalized = data.lifted[rows], output_bias == "penalized"
    search = TreeSearch(
        lifted, data.Y[rows] @ (np.ones(1) if direction is None else np.array(direction)), data.bias
    )
    families, best, c, tol = [family], 0.0, sizes, COARSE
    valued = families  # those that the best bound is of, whenever the time is up
    try:
        for _ in range(ROUNDS):
            checkpoint()
            if output_bias != "free":  # there λ ⟂ 1 leaves no choice
                families = [
                    *families, _at(search, tuple(rows), direction, lifted, data.bias, depth, c, penalized)
                ]  # fmt: skip
            gained = best
            while True:
                best, found = tree_least(
                    families, data.X, data.Y, depth, data.bias, output_bias, cutoff=upper, tol=tol,
                    max_boxes=MAX_BOXES,
                )  # fmt: skip
                valued = families
                if tol <= TOL or 1.0 - best / upper > 4.0 * tol:
                    break
                tol = max(0.1 * tol, TOL)
            if found is None or output_bias == "free" or 1.0 - best / upper <= GOAL:
                break
            if best - gained <= 0.5 * tol * upper:
                break
            c = found
    except TimeUp:
        pass
    return valued, best


def _at(
    search: TreeSearch,
    rows: tuple[int, ...],
    direction: tuple[float, ...] | None,
    lifted: np.ndarray,
    bias: float,
    depth: int,
    c: np.ndarray,
    penalized: bool,
) -> Family:
    """Return the family of the λ whose bound is largest at c."""

    def family(angle: float) -> Family:
        return search.family(rows, direction, np.array([math.cos(angle), math.sin(angle)]))

    def loss(angle: float) -> float:
        vector = np.array([math.cos(angle), math.sin(angle)])
        inner = float(vector @ search.targets)
        if inner <= 0.0:
            return 0.0
        found = family(angle)
        size = float(np.abs(vector).max() / np.abs(found.members[found.root]).max())
        height = size * float(Recursion(found, lifted, bias, depth).gauge(c[:, None])[0])
        penalty = (bias * float(vector.sum())) ** 2 if penalized else 0.0
        t = min(1.0 / height, inner / penalty) if penalty > 0.0 else 1.0 / height
        return -(2.0 * inner * t - penalty * t * t)

    towards = math.atan2(*search.targets[::-1])
    angles = towards + np.linspace(-0.5, 0.5, ANGLES + 1)[1:-1] * math.pi
    k = int(np.argmin([loss(float(angle)) for angle in angles]))
    step = float(angles[1] - angles[0])
    answer = minimize_scalar(
        loss, bounds=(angles[k] - step, angles[k] + step), method="bounded", options={"xatol": 1e-9}
    )
    return family(float(answer.x))
