"""The result of :func:`covopt.gap`: a ladder of explicit networks and a certified lower bound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks import Check, Rows, counted, required
from covopt.depth.layers import from_content, to_content
from covopt.errors import Status
from covopt.exact.rank import FOUND
from covopt.exact.rounding import EPS, relative_gap
from covopt.files import Saved, check_format, damaged, find_reader, heading
from covopt.files.schema import GAP, check_content
from covopt.limits import seconds_left
from covopt.losses import Interpolation, Loss
from covopt.meter.findings import describe, draw
from covopt.meter.ladder import balanced, objective, refitted_slope, top
from covopt.network import DeepReLUNetwork
from covopt.problems.problem import Problem
from covopt.sparsify import HiddenLayer
from covopt.verification import verify

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "covopt-gap"
STATED = "gap", "excess", "refit_gap", "status"
BEST, BELOW = "best", "lower bound"
RUNGS = {
    "as given": "the network as it came",
    "balanced": "each neuron scaled: the same function",
    "merged": "neurons of one cell joined: the same outputs on the rows",
    "refitted": "best output weights for its hidden neurons: a convex problem",
    BEST: "hidden weights too: the best network found",
    BELOW: "certified: no network of any width is below",
}


@dataclass(frozen=True, eq=False, repr=False)
class Gap(Rows, Saved):
    """Result of :func:`covopt.gap`: bounds on how far a network is from the best one.

    ``objective`` is that of the given network, ``lower_bound`` a lower bound for networks of any width, ``excess``
    their ratio minus one. ``ladder`` has the objectives of the improved networks, and the lower bound last. ``gap``
    is the relative distance of the given network from the lower bound.

    Attributes
    ----------
    networks : dict of str to DeepReLUNetwork
        ``"as given"``, ``"balanced"``, ``"merged"``, ``"refitted"``, as far as the time allowed.
    best : Solution, DeepFit or DeepSolution
        The best network, with the certificate of the lower bound.
    formula : str
        The value of λ and its origin.
    notes : tuple of str
        Remarks on the objective.
    what : str
        Description of the network.
    tol, time_s : float
    """

    networks: dict[str, DeepReLUNetwork]
    best: Any
    formula: str
    notes: tuple[str, ...]
    what: str
    tol: float
    time_s: float
    stated: dict[str, Any] = field(default_factory=dict)  # numbers stored in a file, compared by verify

    # ------------------------------------------------------------------ numbers
    @property
    def X(self) -> np.ndarray:
        """The points, in the units of the network."""
        points: np.ndarray = self.best.data.X
        return points

    @property
    def is_deep(self) -> bool:
        """Whether the network has more than two layers."""
        return len(self.networks["as given"].weights) > 2

    @property
    def loss(self) -> Loss:
        """The loss; without one, interpolation of the network's own outputs."""
        return self.best.loss or Interpolation()

    @cached_property
    def ladder(self) -> dict[str, float]:
        """Objectives from the given network to the best one, and the lower bound; non-increasing.

        A step skipped for lack of time has the objective of the one before.
        """
        found, least = {}, np.inf
        for name in list(RUNGS)[:-2]:
            if name in self.networks:
                least = min(least, objective(self.networks[name], self.X, self.loss, self.best.lam or 1.0))
            found[name] = least
        found[BEST] = min(least, self.best.objective)
        found[BELOW] = self.best.lower_bound
        return found

    @property
    def objective(self) -> float:
        """Objective of the given network."""
        return self.ladder["as given"]

    @property
    def lower_bound(self) -> float:
        """Certified lower bound on the objective of every network."""
        return float(self.best.lower_bound)

    @property
    def gap(self) -> float:
        """(objective − lower bound) / objective, an upper bound on the possible improvement."""
        return relative_gap(self.objective, self.lower_bound)

    @property
    def excess(self) -> float:
        """(objective − lower bound) / lower bound; infinite where the bound is 0."""
        return (self.objective - self.lower_bound) / self.lower_bound if self.lower_bound > 0 else np.inf

    @property
    def status(self) -> Status:
        """CERTIFIED if the best network and the lower bound agree to ``tol``, so that the excess is known."""
        status: Status = self.best.status
        return status

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """Sentences that explain the gap; recomputed for a report read from a file."""
        return tuple(describe(self))

    def fall(self, name: str) -> float:
        """Return the decrease at a step of the ladder, relative to the objective.

        Parameters
        ----------
        name : str
        """
        steps = self.ladder
        names = list(steps)
        before = steps[names[names.index(name) - 1]]
        return (before - steps[name]) / self.objective if self.objective > 0 else 0.0

    @cached_property
    def refit_dual(self) -> np.ndarray:
        """Dual variables −∇C/2λ (N, k) at the outputs of the last network of the ladder."""
        name, network = list(self.networks.items())[-1]
        outputs = network.representations(self.X)[-1]
        if name != "refitted":
            return -self.loss.gradient(outputs) / (2.0 * self.best.lam)
        layer = top(self.networks["merged"], self.X)
        return -refitted_slope(layer, outputs, self.loss, self.best.lam) / (2.0 * self.best.lam)

    @cached_property
    def refit_gap(self) -> float | None:
        """Relative duality gap of the convex refit problem; None if it was not solved.

        It is not solved for interpolation, and not for deep networks, whose other layers are rescaled with the refit.

        The dual point is that of the residual, divided by the largest ‖Λᵀσ(A u)‖ over the refitted directions u.
        """
        if "refitted" not in self.networks or self.best.loss is None or self.is_deep:
            return None
        data, kind = self.best.data, self.best.output_bias
        rho = np.inf if kind == "none" else 0.0 if kind == "free" else 1.0 / data.bias**2
        problem = Problem(data.lifted, self.loss, 2.0 * self.best.lam, rho)
        layer = top(self.networks["merged"], self.X)
        units = _directions(layer)
        refitted = self.networks["refitted"]
        dual = problem.project_dual(self.refit_dual)
        dual_norm = np.linalg.norm(np.maximum(layer.inputs @ units.T, 0.0).T @ dual, axis=1).max(initial=0.0)
        value = objective(refitted, self.X, self.loss, self.best.lam)
        return relative_gap(value, 2.0 * self.best.lam * problem.scale_dual(dual, float(dual_norm))[1])

    # ------------------------------------------------------------------ summaries
    WIDTH = 17

    def _rows(self) -> list[tuple[str, str]]:
        given, data = self.networks["as given"], self.best.data
        widths = ", ".join(map(str, given.widths))
        steps, below = self.ladder, self.lower_bound
        size = f"{counted(data.n_samples, 'row')} × {counted(data.n_features, 'column')}"
        through = self.best.loss is None
        goal = "‖W‖² through its own outputs" if through else f"mean {self.loss.title} loss + λ‖W‖²"
        rows = [
            ("your network", f"{self.what}: width {widths}, {size}"),
            ("measured", f"{goal}; {self.formula}"),
            ("your objective", f"{self.objective:.8g}"),
            (
                "no network below",
                f"{below:.8g}  ({'certified; any width' if below > 0 else 'nothing is known yet'})",
            ),
            ("excess", self._excess()),
        ]
        whole = self.objective if self._is_weak else below
        for name in list(steps)[1:-1]:
            part = self.fall(name) * self.objective / whole
            is_known = name == "refitted" and self.refit_gap is not None
            own = f" (known to {self.refit_gap:.1g})" if is_known else ""
            late = name not in (*self.networks, BEST)
            said = "there was no time for it" if late else f"{RUNGS[name]}{own}"
            rows.append((f"  {name}", f"{steps[name]:.8g}  −{100.0 * part:.3g} %  {said}"))
        rest = f"{100.0 * (steps[BEST] - below) / whole:.3g} %" + (
            " of your objective" if self._is_weak else ""
        )
        rows.append(("  not known", f"{rest}  between the best network and the bound"))
        rows += [("to mend", text) for text in self.findings]
        rows += [("note", text) for text in self.notes]
        net = self.best.network
        neurons = sum(net.widths) if hasattr(net, "widths") else len(net)
        rows.append(("repaired", f"{steps[BEST]:.8g} with {counted(neurons, 'neuron')}: report.best"))
        rows.append(("status", f"{self.status.code.upper()}: {self._said()}"))
        rows.append(("time", f"{self.time_s:.2f} s"))
        return rows

    @property
    def _is_weak(self) -> bool:
        """Whether the bound is at most half of the objective: percentages of the bound then say little."""
        return self.objective >= 2.0 * self.lower_bound

    def _excess(self) -> str:
        if self.lower_bound <= 0:
            return "not known"
        if not self._is_weak:
            return f"at most {100.0 * self.excess:.3g} %"
        found = self.objective / self.ladder[BEST]
        why = "the bound is weak, and the" if self.best.gap > 0.5 else "the"
        return (
            f"at most {1.0 + self.excess:.3g} times the least objective, at least {found:.3g} times: {why} shares "
            "below are of your objective"
        )

    def _said(self) -> str:
        known = f"the least objective is known to {100.0 * self.best.gap:.2g} %"
        return known + (
            f" (asked for {self.tol:g})" if self.status is Status.CERTIFIED else "; more time narrows it"
        )

    def __repr__(self) -> str:
        return (
            f"Gap({self.status.code}, objective {self.objective:.8g}, lower bound {self.lower_bound:.8g}, "
            f"best {self.ladder[BEST]:.8g}, gap {self.gap:.1e})"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each rung: ``rung``, ``objective``, ``excess`` over the lower bound, ``what``.

        Returns
        -------
        pandas.DataFrame
        """
        pd = required("pandas", "to_frame()", "tables")
        below = self.lower_bound
        rows = [
            (name, value, (value - below) / below if below > 0 else np.inf, RUNGS[name])
            for name, value in self.ladder.items()
        ]
        return pd.DataFrame(rows, columns=["rung", "objective", "excess", "what"])

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Plot the ladder, and the predictions together with those of the best network.

        Parameters
        ----------
        path : path-like, optional
            File to save the figure to: .png, .svg or .pdf.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return draw(self, path)

    # ------------------------------------------------------------------ checking and files
    def claims(self, X: Any = None, Y: Any = None) -> Iterator[Check]:
        """Check every number from the networks, the table and a run of the oracle, for ``covopt.verify``.

        The certificate of the best network, which takes longest, comes last.

        Parameters
        ----------
        X, Y : array_like, optional
            A table to be compared with the one that was measured, in the units of the network.

        Yields
        ------
        Check
        """
        outputs = self.networks["as given"].representations(self.X)[-1]
        size = float(np.abs(outputs).max(initial=0.0)) or 1.0
        for name, network in self.networks.items():
            off = float(np.abs(network.representations(self.X)[-1] - outputs).max(initial=0.0)) / size
            if name in ("balanced", "merged") or (name == "refitted" and self.best.loss is None):
                yield Check(
                    f"{name} network", off <= np.sqrt(EPS), f"its outputs differ by {off:.1e} of the largest"
                )
        if "balanced" in self.networks:
            norms = [self.networks["balanced"].squared_norm, balanced(self.networks["as given"]).squared_norm]
            yield Check("balanced norm", _is_same(*norms), "{:.12g}, least by scaling {:.12g}".format(*norms))
        if "refitted" in self.networks and not self.is_deep:
            before, after = (_directions(top(self.networks[name], self.X)) for name in ("merged", "refitted"))
            off = float((1.0 - (after @ before.T).max(axis=1, initial=-1.0)).max(initial=0.0))
            yield Check("refitted neurons", off <= FOUND, f"directions differ by {off:.1e} from those before")
        for name, value in self.ladder.items():
            said = self.stated.get(name, value)
            yield Check(name, _is_same(said, value), f"stated {said:.12g}, recomputed {value:.12g}")
        for name, own in {"gap": self.gap, "excess": self.excess, "refit_gap": self.refit_gap}.items():
            said = self.stated.get(name, own)
            ok = said == own if said is None or own is None else _is_same(said, own, 1.0)
            yield Check(f"{name} of the report", ok, f"stated {said}, recomputed {own}")
        said = self.stated.get("status", self.status.code)
        held = said == self.status.code and self.tol == self.best.tol
        yield Check("status of the report", held, f"{said}, asked for {self.tol:g}")
        if self.best.loss is not None and self.formula:
            named = f"{self.best.lam:g}" in self.formula.replace(":", " ").split()
            yield Check("formula", named, f"{self.formula}; λ is {self.best.lam:g}")
        below = self.lower_bound <= self.ladder[BEST] * (1.0 + FOUND)
        yield Check("bracket", below, f"{self.lower_bound:.12g} ≤ {self.ladder[BEST]:.12g}")
        left = seconds_left()
        yield from verify(self.best, X, Y, time_limit_s=left if np.isfinite(left) else None).checks

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        return {
            **heading(FORMAT), "status": self.status.code,
            "ladder": self.ladder, "gap": self.gap, "excess": self.excess if self.lower_bound > 0 else None,
            "refit_gap": self.refit_gap,
            "what": self.what, "formula": self.formula, "notes": list(self.notes), "findings": list(self.findings),
            "tol": self.tol, "time_s": self.time_s,
            "networks": {name: to_content(network) for name, network in self.networks.items()},
            "best": self.best.to_dict(),
        }  # fmt: skip

    @classmethod
    @damaged("the file of a gap")
    def from_dict(cls, content: dict[str, Any]) -> Gap:
        """Read what :meth:`to_dict` wrote; the numbers are not checked (see ``covopt.verify``).

        Parameters
        ----------
        content : dict

        Raises
        ------
        SolutionFileError
            If the content is not a report, has another schema, or is damaged.
        """
        check_format(content, FORMAT)
        check_content(content, GAP)
        best = find_reader(content["best"])(content["best"])
        names = list(content["networks"])
        if names != list(RUNGS)[: len(names)] or not names or BEST in names:
            raise ValueError(f"the networks are called {names}")
        sizes = best.data.n_features, best.data.n_outputs, best.data.bias, best.output_bias
        networks = {name: from_content(part, *sizes) for name, part in content["networks"].items()}
        stated = {str(name): float(value) for name, value in content["ladder"].items()}
        if list(stated) not in ([*names, BEST, BELOW], list(RUNGS)):
            raise ValueError("the ladder names other rungs than the networks")
        infinite = {"excess": np.inf} if content.get("excess", 0.0) is None else {}
        stated |= {name: content[name] for name in STATED if name in content} | infinite
        return cls(
            networks, best, content["formula"], tuple(content["notes"]), content["what"],
            float(content["tol"]), float(content["time_s"]), stated,
        )  # fmt: skip


def _directions(layer: HiddenLayer) -> np.ndarray:
    lengths = np.linalg.norm(layer.incoming, axis=1, keepdims=True)
    units: np.ndarray = layer.incoming / np.maximum(lengths, 1e-300)
    return units


def _is_same(said: float, value: float, size: float = 1e-300) -> bool:
    return said == value or bool(abs(said - value) <= FOUND * max(abs(value), size))
