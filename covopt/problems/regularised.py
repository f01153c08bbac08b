"""Reduction of a table and a loss to the solver's problem: samples without weight, ranks, units; too small λ."""

from __future__ import annotations

import numpy as np

from covopt.data import Data, row_space
from covopt.errors import InputError
from covopt.exact.rank import ATOMS
from covopt.losses import Loss
from covopt.problems.problem import Problem
from covopt.problems.reduction import LEAST, Reduction, check_rows, check_size, reduce_outputs


def reduce_fit(data: Data, loss: Loss, lam: float, output_bias: str) -> tuple[Problem, Reduction]:
    """Leave out samples without weight, reduce rows and outputs to their rank, scale the rows to size one.

    Rows of one point or ray all stay: each has its own loss. Targets are not scaled, so that the loss keeps its
    units. The outputs of the softmax lose the direction in which nothing changes.

    Parameters
    ----------
    data : Data
    loss : Loss
        Bound to ``data.Y``.
    lam : float
        λ.
    output_bias : {"none", "penalized", "free"}

    Raises
    ------
    InputError
        When the numbers are so large or small that they leave the range of double precision.
    """
    keep = np.flatnonzero(loss.weights[:, 0] > 0)
    # without the rows of weight zero the rank may fall, and oracles take rows of full rank
    basis = data.basis if len(keep) == data.n_samples else row_space(data.lifted[keep])
    outputs = loss.output_basis()
    if loss.is_quadratic and loss.targets.shape[1] > 1:
        outputs = reduce_outputs(loss.targets[keep])[1]
    rows = data.lifted[keep] @ basis
    row_scale = 1.0
    if rows.size and rows.any():
        with np.errstate(over="ignore"):
            row_scale = float(np.linalg.norm(rows, axis=1).max())
        check_size("X or bias", "the largest row has norm", row_scale)
        check_rows(rows)
    strength = 2.0 * lam / row_scale
    check_size("lam", "measured in units of X it is", strength)
    offset_cost = {"none": np.inf, "free": 0.0}.get(output_bias)
    if offset_cost is None:
        offset_cost = (row_scale / data.bias) / data.bias
        check_size("bias", "the price of the penalized output bias is", offset_cost)
    part = loss.take(keep)
    # a sample's probabilities are sums of its dual's outputs: below this share of their size they are rounding errors
    part.floor = ATOMS * min(1.0, strength / float(part.weights.max()))
    problem = Problem(rows / row_scale, part, strength, offset_cost, outputs)
    return problem, Reduction(keep, data.n_samples, basis, row_scale, 1.0, outputs)


def check_strength(problem: Problem, lam: float) -> None:
    """Refuse a λ that is negligible relative to λ_max; its limit is interpolation.

    Parameters
    ----------
    problem : Problem
    lam : float
        λ in the user's units.

    Raises
    ------
    InputError

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([1.0, 2.0])
    >>> check_strength(Problem(np.eye(2), loss, 1e-90), 1e-90)
    """
    slope = problem.loss.gradient(np.zeros(problem.loss.targets.shape))
    most = float(np.linalg.norm(slope, axis=1) @ np.linalg.norm(problem.rows, axis=1))
    if problem.strength < LEAST * most:
        raise InputError(
            f"lam={lam:g} is less than {LEAST:g} of λ_max, next to nothing in double precision; give a larger "
            "one, or take covopt.min_norm, which solves the limit."
        )
