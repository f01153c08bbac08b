"""A solution: a network with the proof of its optimality, properties of the set of minimisers, and its file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from covopt.certificates.certify import Certificate
from covopt.certificates.enclosure import Uniqueness
from covopt.certificates.minimisers import Minimisers, Sparsest, tight_set_of_fit
from covopt.certificates.tight import TightSet
from covopt.checks import counted
from covopt.checks.validation import check_number, check_time_limit
from covopt.data import Data
from covopt.data.scaling import Scaling
from covopt.errors import InputError, Status
from covopt.losses import Loss
from covopt.network import ReLUNetwork
from covopt.potentials import make_potential
from covopt.proofs import Proof
from covopt.solution.content import from_content, load, to_content
from covopt.solution.summary import Predicts, summary_rows

__all__ = ["Solution", "load"]

_BY_OUTPUTS = (
    "where the loss is strictly convex all optimal networks share their outputs F on the data and are the networks "
    "of minimal norm through them: ask covopt.min_norm(X, solution.network.predict(X))"
)


@dataclass(eq=False, repr=False)
class Solution(Predicts):
    """A network with the proof of its optimality; numbers are in the user's units.

    ``cost`` is ‖W‖², ``objective`` the minimised objective: the cost for interpolation, mean loss + λ‖W‖² for a fit.
    No network of any width has an objective below ``lower_bound``. ``gap`` is (objective − lower bound) / objective.

    Attributes
    ----------
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
        Λ, feasible: ‖Λᵀσ(X̃ w)‖ ≤ 1 for every unit neuron w; |⟨Λ, σ(X̃ w)⟩| ≤ ω(w) with a label-noise potential.
    dual_low : ndarray or None
        The low parts of the multipliers, Λ = dual + dual_low: for one input far from the origin, where sums cancel by
        more digits than a double has. None otherwise.
    certificate : Certificate
    status : Status
    data : Data
        The table that was solved; with standardised columns if the network has a ``scaling``.
    lam, loss, sample_weight : float, Loss, ndarray
        λ, loss and sample weights of a fit; None for interpolation.
    lambda_max : float or None
        :func:`covopt.lambda_max` of the table, or the best lower bound on it, if the solve needed it; not saved.
    held_out : HeldOut or None
        Scores on held-out rows for each λ that ``lam="cv"`` compared; not saved.
    timings : dict of str to float
        Seconds by stage in decreasing order: preparing (imports, checks, reductions), pricing, the restricted master
        problem, its columns, making networks, proofs, finishing, the certificate and the rest. They sum to
        ``time_s``, which does not include the seconds of compiling, if there were any.
    """

    data: Data
    output_bias: str
    potential: str
    network: ReLUNetwork
    dual: np.ndarray
    certificate: Certificate
    status: Status
    tol: float
    solver: str
    history: list[dict[str, float]] = field(default_factory=list)
    time_s: float = 0.0
    random_state: int | None = None
    lam: float | None = None
    loss: Loss | None = None
    sample_weight: np.ndarray | None = None
    lambda_max: float | None = None
    timings: dict[str, float] = field(default_factory=dict)
    dual_low: np.ndarray | None = None
    held_out: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        fits = self.network.n_inputs == len(self.data.feature_names)  # else damaged; verify reports it
        if self.network.feature_names is None and fits:
            self.network = replace(self.network, feature_names=self.data.feature_names)

    # ------------------------------------------------------------------ numbers
    @property
    def scaling(self) -> Scaling | None:
        """The standardisation of the columns; None without one.

        Cost, bounds, dual, λ and ``data`` are those of the standardised table; ``network`` takes the user's columns.
        """
        return self.network.scaling

    def in_your_units(self) -> Solution:
        """Return the solution with ``data`` in the user's columns, which ``network`` takes, for pictures.

        Its bracket is still that of the standardised table.
        """
        return self if self.scaling is None else replace(self, data=self.scaling.invert_data(self.data))

    @property
    def cost(self) -> float:
        """‖W‖² of the network, Σ|v|ω(w) with a label-noise potential; for interpolation the upper bound."""
        return self.certificate.cost

    @property
    def objective(self) -> float:
        """The minimised objective, C(f) + λ‖W‖² with a loss; for interpolation the cost itself."""
        return self.certificate.objective

    @property
    def loss_value(self) -> float | None:
        """C(f), None for interpolation."""
        return None if self.loss is None else self.certificate.loss_value

    @property
    def lower_bound(self) -> float:
        """Certified lower bound on the objective of every network (on ‖W‖² of every network through the points)."""
        return self.certificate.lower_bound

    @property
    def gap(self) -> float:
        """(objective − lower_bound) / objective."""
        return self.certificate.gap

    @cached_property
    def undetermined(self) -> np.ndarray:
        """For each neuron the dimension of the set of parameters with the same cost and the same activations.

        Zeros with the variation norm. A label-noise potential depends on a neuron only through its activations, which
        do not determine the parameters if the active rows have rank below D; see :mod:`covopt.potentials`.
        """
        rows = self.data.lifted
        if self.sample_weight is not None:
            rows = rows[self.sample_weight > 0]
        return make_potential(self.potential).undetermined(rows, self.network.hidden_weights)

    def _rows(self) -> list[tuple[str, str]]:
        return summary_rows(self)

    def __repr__(self) -> str:
        of = "" if self.lam is None else f"λ {self.lam:.6g}, objective {self.objective:.8g}, "
        return (
            f"Solution({self.status.code}, {of}cost {self.cost:.8g}, lower bound {self.lower_bound:.8g}, "
            f"gap {self.gap:.1e}, {counted(len(self.network), 'neuron')}, "
            f"{counted(self.data.n_samples, 'point')} × {counted(self.data.n_features, 'feature')})"
        )

    # ------------------------------------------------------------------ structure of the set of minimisers
    @cached_property
    def _minimisers(self) -> Minimisers:
        if self.potential != "variation":
            raise InputError(
                f"the tight set and the sparsest minimiser are computed for potential='variation'; this solution has "
                f"potential={self.potential!r}. Its `undetermined` says what the data leave open."
            )
        network = self.network.bare()
        return Minimisers(self.data, self.output_bias, network, self.dual, self.gap, self.random_state)

    def tight_set(self, slack: float = 1e-6, *, refine: bool = True) -> TightSet:
        """Return all (cell, sign) pairs with a dual value within ``slack`` of one; they hold all minimisers.

        With several outputs: all maximisers of ‖Λᵀσ(X̃ w)‖, each with the direction of its output weight.

        Parameters
        ----------
        slack : float
        refine : bool
            Whether to solve to a gap of 1e-9 first if this solution is coarser. Otherwise its own dual is used, and
            ``slack`` is at least ten times its gap.

        Returns
        -------
        TightSet
            Unit neurons in the coordinates of ``data`` and their dual values.

        Raises
        ------
        BudgetError
            If the arrangement has too many faces to look at.
        """
        if self.loss is not None and self.potential == "variation":
            assert self.lam is not None
            return tight_set_of_fit(
                self.data,
                self.loss,
                self.lam,
                self.output_bias,
                self.dual,
                slack=min(0.1, max(slack, 10.0 * self.gap)),
            )
        return self._minimisers.tight_set(slack, refine=refine)

    @property
    def uniqueness(self) -> Uniqueness:
        """Whether this is the only minimal-norm network, with the reason (SP20 Thm 4.7, eq. 21)."""
        if self.potential != "variation":
            return Uniqueness(None, "only the variation norm's minimisers are analysed", 0)
        if self.loss is not None:
            return Uniqueness(None, f"with a loss it is not analysed; {_BY_OUTPUTS}", 0)
        return self._minimisers.uniqueness

    @property
    def is_unique(self) -> bool | None:
        """True, False, or None if it is not known; ``uniqueness.reason`` has the reason."""
        return self.uniqueness.unique

    def sparsest(self, *, time_limit_s: float | None = 60.0) -> Sparsest:
        """Return a minimal-norm network with the fewest neurons: the ℓ0 problem on the tight set.

        Parameters
        ----------
        time_limit_s : float, optional
            For the mixed-integer program; None for no limit.

        Returns
        -------
        Sparsest

        Raises
        ------
        InputError
            For a solution with a loss, and for a time limit that is none.
        BudgetError
            If the arrangement has too many faces for the tight set.
        """
        if self.loss is not None:
            raise InputError(f"the sparsest minimiser is computed for interpolation; {_BY_OUTPUTS}")
        limit = check_time_limit(time_limit_s)
        found = self._minimisers.sparsest(np.inf if limit is None else limit)
        if self.scaling is None:
            return found
        return replace(found, network=replace(found.network, scaling=self.scaling))

    def prove(
        self,
        *,
        max_boxes: int = 2_000_000,
        n_threads: int = 1,
        time_limit_s: float | None = None,
        tol: float = 1e-9,
    ) -> Proof:
        """Return a proof of the lower bound that :func:`covopt.verify` replays in exact arithmetic.

        A finite list of boxes covers all directions of a neuron; on each of them an inequality between integers shows
        that no neuron violates the dual constraint: see :mod:`covopt.proofs`.

        Parameters
        ----------
        max_boxes : int
            Limit of the search. If it is reached, the proof is of a smaller bound, its ``lower_bound``.
        n_threads : int
        time_limit_s : float, optional
            Seconds. Proofs with more and more boxes are made until then, and the last one is returned.
        tol : float
            The fraction of ``lower_bound`` that may be lost. A larger one makes a smaller file.

        Returns
        -------
        Proof
            It proves a bound of at least (1 − ``tol``) ``lower_bound``, unless a limit was reached.

        Raises
        ------
        InputError
            With several outputs, a label-noise potential or the softmax, for which there are no exact proofs.
            If ``tol`` is below 1e-9, which doubles cannot reach, or not below 1.
        BudgetError
            If the time was up before there was any proof.

        Examples
        --------
        >>> import covopt
        >>> solution = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
        >>> proof = solution.prove()
        >>> covopt.verify(solution, proof=proof).ok
        True
        """
        from covopt.certificates.prove import float_link, multipliers_of, problem_of, prove_in_time

        tol = check_number("tol", tol, "a number from 1e-9 to below 1", lambda t: 1e-9 <= t < 1)
        data = self.data
        if self.loss is not None:
            data = replace(data, Y=self.loss.targets)
        problem = problem_of(self, data)
        reason = float_link(problem, self.potential)
        if reason is not None:
            raise InputError(f"there is no exact proof of this bound: {reason}")
        return prove_in_time(
            problem, multipliers_of(self), self.lower_bound, check_time_limit(time_limit_s),
            network=self.network, max_boxes=max_boxes, n_threads=n_threads, tol=tol,
        )  # fmt: skip

    # ------------------------------------------------------------------ files and pictures
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        return to_content(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Solution:
        """Invert :meth:`to_dict`; only the form of the content is checked (see ``covopt.verify``).

        Parameters
        ----------
        content : dict

        Raises
        ------
        SolutionFileError
            If the content is not a solution, has another schema, or is damaged.
        """
        return from_content(cls, content)

    def plot(self, path: str | os.PathLike[str] | None = None):
        """Draw the function and the certificate.

        Parameters
        ----------
        path : path-like, optional
            Where to save the figure: .png, .pdf or .svg.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            If the path ends in another suffix.
        """
        from covopt.plotting import plot_solution

        return plot_solution(self, None if path is None else Path(path))
