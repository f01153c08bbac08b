r"""The effective cost that SGD with label noise minimises, and its minimum near a network.

SGD with label noise (SP20 Algorithm 1) with step ε and noise of variance η² first reaches the networks of zero error
and then drifts among them, down the mean squared gradient (SP20 eq. 10, after Blanc, Gupta, Valiant and Valiant 2019)

.. math::
    \Lambda(W) = \frac1N \sum_i |\nabla_W f(x_i)|^2
               = \sum_j \Bigl( k\, S(w_j) + \|v_j\|^2 M(w_j) \Bigr), \qquad
    S = \frac1N\sum_i \sigma(w\cdot\tilde x_i)^2, \quad M = \frac1N\sum_i |\tilde x_i|^2\, \chi(w\cdot\tilde x_i > 0).

**Time scale.** Near zero error the loss mean (f − y)² has the Hessian 2G, G = (1/N) Σ ∇f∇fᵀ, and the noise of a step
has the covariance 4ε²η²G: the weights fluctuate with covariance εη² I across the set of zero error, which adds εη² Λ
to the loss. A step moves by −ε · εη² ∇Λ along the set: a unit of time of the flow Ẇ = −∇Λ takes 1/(ε²η²) steps.

The scale of each neuron converges first, to k S = ‖v‖² M; then Λ = 2√k Σ_j ‖v_j‖ ω(w_j) with the exact label-noise ω
of :mod:`covopt.potentials`. This is a sum over cells of norms of linear functions. It is convex on the closed cells
that the neurons occupy, and :func:`cell_minimum` computes its minimum there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks import required
from covopt.checks.validation import check_positive
from covopt.errors import InputError
from covopt.network import ReLUNetwork, check_inputs
from covopt.potentials import LabelNoise, Potential, VariationNorm, make_potential, on_hinge


def effective_cost(network: ReLUNetwork, X: Any) -> float:
    r"""Return Λ(W), the mean squared gradient of the outputs with respect to the weights (SP20 eq. 10, 12).

    The gradient with respect to an output bias is constant and left out.

    Parameters
    ----------
    network : ReLUNetwork
    X : array_like of shape (N, d)

    Raises
    ------
    InputError
        If X does not match the network.

    Examples
    --------
    >>> net = ReLUNetwork(np.array([[1.0, 0.0]]), np.array([[2.0]]))
    >>> effective_cost(net, [[-1.0], [1.0]])  # half of 1² + 2²(1² + 1²)
    4.5
    """
    rows = check_inputs(network.lift(X), network.hidden_weights.shape[1])
    heights = np.maximum(rows @ network.hidden_weights.T, 0.0)
    active = (heights > 0).T & ~on_hinge(rows, network.hidden_weights)
    inputs = active @ (rows**2).sum(axis=1) / len(rows)
    outputs = network.output_weights.shape[1]
    return float(outputs * (heights**2).sum() / len(rows) + (network.output_weights**2).sum(axis=1) @ inputs)


@dataclass(frozen=True)
class CellMinimum:
    """The minimum of the cost over networks with neurons in the closed cells that a network occupies.

    Attributes
    ----------
    cost : float
        Σ|v|ω(w) of the network itself, without negligible neurons.
    least : float
        Its minimum over the same closed cells, by a conic solver.
    n_cells : int
        Number of pairs (cell, sign of the output weight).
    """

    cost: float
    least: float
    n_cells: int

    @property
    def excess(self) -> float:
        """Relative distance of ``cost`` above ``least``; zero at a local minimum."""
        return self.cost / self.least - 1.0


def cell_minimum(
    network: ReLUNetwork, X: Any, *, potential: str = "label-noise-exact", negligible: float = 1e-3
) -> CellMinimum:
    r"""Return the least cost for the outputs of a network, with neurons in the closed cells that it occupies.

    .. math::
        \min_{p_s \in \bar C_s} \sum_s \omega_s(p_s) \quad \text{s.t.} \quad
        \sum_s \pm \mathrm{diag}(s)\, \tilde X p_s = f(X),

    over the pairs (s, ±) of the neurons, ω_s being ω on the open cell: ‖p‖, ‖diag(s)X̃p‖/√N, or the latter times √M_s.
    This is a second-order cone program. Every local minimum of Σ|v|ω(w) among networks with these outputs attains it,
    so a network well above it is not a local minimum. Other cells are not considered; :func:`covopt.min_norm`
    minimises over all cells.

    Parameters
    ----------
    network : ReLUNetwork
        One output.
    X : array_like of shape (N, d)
    potential : {"label-noise-exact", "label-noise", "variation"}
    negligible : float
        Neurons whose |v|ω(w) is below this fraction of the largest are left out, as vanishing under SGD.

    Raises
    ------
    InputError
        For several outputs, points that do not match, and a network that is zero on them.
    SolverError
        If Clarabel fails.

    Examples
    --------
    >>> X = np.array([[-1.0], [0.0], [1.0], [2.0]])
    >>> two = ReLUNetwork(np.array([[1.0, -0.1], [1.0, -0.9]]), np.array([[1.0], [1.0]]))
    >>> found = cell_minimum(two, X, potential="variation")
    >>> bool(found.least < found.cost), found.n_cells
    (True, 1)
    """
    cp = required("cvxpy", "cell_minimum", "conic")
    from covopt.conic.programs import resolve_backend, run_backend

    weighing = make_potential(potential)
    check_positive("negligible", negligible)
    if network.output_weights.shape[1] != 1:
        raise InputError(
            f"cell_minimum is for one output; this network has {network.output_weights.shape[1]}."
        )
    rows = check_inputs(network.lift(X), network.hidden_weights.shape[1])
    hidden, output = network.hidden_weights, network.output_weights[:, 0]
    shares = np.abs(output) * weighing.weigh(rows, hidden)
    kept = shares > negligible * shares.max(initial=0.0)
    hidden, output = hidden[kept], output[kept]
    outputs = np.maximum(rows @ hidden.T, 0.0) @ output
    scale = float(np.abs(outputs).max())
    if scale == 0.0:
        raise InputError("the network is zero on X; there is no cost to minimise.")
    active = ((hidden @ rows.T) > 0) & ~on_hinge(rows, hidden)
    signed = np.unique(np.column_stack([active, output > 0]), axis=0)
    cells, signs = signed[:, :-1].astype(bool), np.where(signed[:, -1], 1.0, -1.0)

    places = cp.Variable((len(cells), rows.shape[1]))
    terms, fitted = [], 0.0
    sides = []
    for s, (cell, sign) in enumerate(zip(cells, signs, strict=True)):
        terms.append(_cell_norm(weighing, rows, cell, places[s], cp))
        fitted = fitted + sign * (np.where(cell[:, None], rows, 0.0) @ places[s])
        sides.append((np.where(cell, 1.0, -1.0)[:, None] * rows) @ places[s] >= 0)
    program = cp.Problem(cp.Minimize(cp.sum(cp.hstack(terms))), [fitted == outputs / scale, *sides])
    run_backend(program, resolve_backend("CLARABEL"))
    return CellMinimum(float(shares[kept].sum()), scale * float(program.value), len(cells))


def _cell_norm(weighing: Potential, rows: np.ndarray, cell: np.ndarray, place: Any, cp: Any) -> Any:
    if isinstance(weighing, VariationNorm):
        return cp.norm(place)
    part = rows[cell]
    factor = (
        np.sqrt((part**2).sum() / len(rows)) if isinstance(weighing, LabelNoise) and weighing.exact else 1.0
    )
    return factor / np.sqrt(len(rows)) * cp.norm(part @ place)
