"""A deep network trained with weight decay, with a bracket of the least objective, and the file that carries both."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

from covopt.checks.validation import check_positive
from covopt.data import Data
from covopt.depth.bounds import Asked
from covopt.depth.layers import stationarity
from covopt.depth.solution import DeepSolution
from covopt.files.schema import DEEP_FIT
from covopt.losses import Loss
from covopt.status import Status

FORMAT = "covopt-deep-fit"


@dataclass(eq=False, repr=False)
class DeepFit(DeepSolution):
    """A network of depth L trained with weight decay, and bounds on the objective of every such network.

    Attributes
    ----------
    network : DeepReLUNetwork
    depth : int
    lam : float
    loss : Loss
        With its targets.
    sample_weight : ndarray of shape (N,) or None
    bounds : list of Bound
        Lower bounds on C + λ‖W‖², best first; ``covopt.verify`` computes them again.
    status : Status
        CERTIFIED where the bracket is closed to ``tol``; HEURISTIC otherwise: descent found the network.
    """

    potential: ClassVar[str] = "variation"
    solver: ClassVar[str] = "descent"
    lambda_max: ClassVar[None] = None
    scaling: ClassVar[None] = None
    _FORMAT: ClassVar[str] = FORMAT
    _LAYOUT: ClassVar[Any] = DEEP_FIT
    _STATED: ClassVar[tuple[str, ...]] = ("cost", "objective", "lower_bound")

    def __post_init__(self) -> None:
        if self.loss is None or self.lam is None:
            raise ValueError("a fit has a loss and a λ")

    @property
    def _terms(self) -> tuple[Loss, float]:
        assert self.loss is not None
        assert self.lam is not None
        return self.loss, self.lam

    @property
    def loss_value(self) -> float:
        """C of the network."""
        return float(self._terms[0].value(self.network.representations(self.data.X)[-1]))

    @property
    def objective(self) -> float:
        """C + λ‖W‖² of the network."""
        return self.loss_value + self._terms[1] * self.cost

    @property
    def stationarity(self) -> float | None:
        """Residual of the first-order conditions in the cell of its signs, relative: 0 at a local minimum."""
        loss, lam = self._terms
        gradient = loss.gradient(self.network.representations(self.data.X)[-1])
        return stationarity(self.network, self.data.X, self.output_bias, gradient, lam)

    def _rows(self) -> list[tuple[str, str]]:
        rows = {name: text for name, text in super()._rows() if name not in ("interpolation", "too large")}
        best = max(self.bounds, key=lambda bound: bound.value, default=None)
        rows["problem"] += f", {self._terms[0].title} loss, λ {self.lam:g}"
        found = {}
        for name, text in rows.items():
            if name == "lower bound":
                found["loss C"] = f"{self.loss_value:.10g}"
                found["objective"] = f"{self.objective:.10g}"
            found[name] = text
        found["lower bound"] = f"{self.lower_bound:.10g}  ({best.title if best else 'none'})"
        return list(found.items())

    def _said(self) -> str:
        if self.status is Status.HEURISTIC:
            return "the network was found by descent, smaller objectives may exist; the lower bound is valid"
        return self.status.message

    def __repr__(self) -> str:
        return (
            f"DeepFit({self.status.code}, depth {self.depth}, λ {self.lam:g}, objective {self.objective:.8g}, "
            f"lower bound {self.lower_bound:.8g}, gap {self.gap:.1e})"
        )

    # ------------------------------------------------------------------ checking
    @property
    def _least(self) -> str:
        return "min C + λ‖W‖²"

    def asked(self) -> Asked:
        """Return what the bounds are about, from the raw table."""
        loss, lam = copy.copy(self._terms[0]), self._terms[1]
        loss.encode_targets(self.data.Y, self.sample_weight)
        check_positive("lam", lam)
        data = Data.validate(self.data.X, loss.targets, bias=self.data.bias, interpolates=False)
        return Asked(data, self.depth, self.output_bias, self.objective, loss, lam)

    # ------------------------------------------------------------------ files
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        found = super().to_dict()
        found["objective"] = self.objective
        return found
