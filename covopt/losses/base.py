"""Base class of all losses: targets, weights, and the functions that each loss implements."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from covopt.checks.validation import as_doubles
from covopt.data.tabular import RowNames, check_finite, to_matrix
from covopt.errors import InputError
from covopt.exact.rounding import EPS, ROUNDING, TINY, UNIT


def as_columns(values: Any) -> np.ndarray:
    """Return values of shape (N,) or (N, k) with two axes."""
    values = np.asarray(values, dtype=float)
    return values[:, None] if values.ndim == 1 else values


class Loss:
    """A convex loss; see :mod:`covopt.losses` for the formulas.

    Attributes
    ----------
    targets : ndarray of shape (N, k)
        In the form the loss uses: numbers, ±1, or one-hot rows.
    weights : ndarray of shape (N, 1)
        s; the sum is one, or N for a sum over the samples.
    classes : tuple or None
        Labels in the order of their codes: (label of −1, label of +1), or one for each output.
    """

    name: ClassVar[str] = ""
    interpolates: ClassVar[bool] = False  # infinite away from the targets
    is_classification: ClassVar[bool] = False
    is_strictly_convex: ClassVar[bool] = False  # the second derivative is positive everywhere
    is_steep: ClassVar[bool] = False  # the slope of C* is infinite at the edge of its domain
    # the same number added to all outputs changes nothing, and −∇C + s·targets is in the simplex of each row
    is_level: ClassVar[bool] = False
    is_quadratic: ClassVar[bool] = False  # ‖f − y‖² up to a factor: rotating the outputs rotates the problem
    targets: np.ndarray
    weights: np.ndarray
    classes: tuple[Any, ...] | None = None
    column: str | None = None  # name of the column of labels, if it had one
    floor: float = TINY  # smallest probability resolved: below it the conjugate's logarithm is its tangent

    # ------------------------------------------------------------------ binding
    def encode_targets(self, Y: Any, sample_weight: Any = None) -> np.ndarray:
        """Check the targets, store them with their weights, and return them with shape (N, k).

        Parameters
        ----------
        Y : array_like
            Numbers (N,) or (N, k); labels (N,) for the losses of classification.
        sample_weight : array_like of shape (N,), optional

        Raises
        ------
        InputError
            For targets outside the loss's domain and weights that are negative, not finite or all zero.
        """
        targets = self._encode(Y)
        if len(targets) == 0:
            raise InputError("Y has no rows; at least one sample is needed.")
        self.targets = targets
        self.weights = check_sample_weight(sample_weight, len(targets))[:, None]
        return targets

    def _encode(self, Y: Any) -> np.ndarray:
        targets, names = to_matrix("Y", Y)
        targets = as_columns(targets)
        check_finite("Y", targets, names, RowNames.of(Y))
        return targets

    def take(self, rows: np.ndarray) -> Loss:
        """Return the loss on some of the samples, with their weights in the whole table."""
        part = copy.copy(self)
        part.targets, part.weights = self.targets[rows], self.weights[rows]
        return part

    def parameters(self) -> dict[str, Any]:
        """Return the parameters from which :func:`loss_from_dict` makes the loss again."""
        found: dict[str, Any] = {"name": self.name}
        if self.classes is not None:
            found["classes"] = list(self.classes)
        if self.column is not None:
            found["column"] = self.column
        return found

    @property
    def title(self) -> str:
        """The name, with any parameters that change it."""
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # ------------------------------------------------------------------ the loss
    def value(self, F: np.ndarray) -> float:
        """Return C(F)."""
        return float((self.weights[:, 0] * self.samples(as_columns(F))).sum())

    def samples(self, F: np.ndarray) -> np.ndarray:
        """Return ℓ(f_i, y_i), shape (N,)."""
        raise NotImplementedError

    def gradient(self, F: np.ndarray) -> np.ndarray:
        """Return ∇C(F), of the shape of F; a subgradient where C has a kink."""
        F = np.asarray(F, dtype=float)
        return (self.weights * self._slope(as_columns(F))).reshape(F.shape)

    def _slope(self, F: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def hessian(self, F: np.ndarray) -> np.ndarray:
        """Return second derivatives of C, generalised at kinks: (N, 1) multiples of I, (N, k) or (N, k, k) blocks."""
        raise NotImplementedError

    def smoothed(self, width: float) -> Loss:
        """Return a loss within ``width`` of this one, per unit of weight, whose gradient is continuous."""
        return self

    # ------------------------------------------------------------------ constants
    def constant(self, price: float, outputs: np.ndarray | None = None) -> np.ndarray:
        """Minimise C(1Bᵀ) + ½ price ‖B‖² over B, by Newton's method.

        Parameters
        ----------
        price : float
        outputs : ndarray of shape (k, q), optional
            Orthonormal columns E; then B has shape (q,), and the minimisation is over EB.
        """
        n, k = self.targets.shape
        basis = np.eye(k) if outputs is None else outputs
        B = np.zeros(basis.shape[1])

        def value(point: np.ndarray) -> float:
            return self.value(np.tile(basis @ point, (n, 1))) + 0.5 * price * float(point @ point)

        best = value(B)
        for _ in range(100):
            fitted = np.tile(basis @ B, (n, 1))
            gradient = self.gradient(fitted).sum(axis=0) @ basis + price * B
            curvature = self.hessian(fitted).sum(axis=0)
            if curvature.ndim == 1:
                curvature = np.diag(np.broadcast_to(curvature, (k,)))
            curvature = basis.T @ curvature @ basis
            size = float(np.trace(curvature)) + price + TINY
            step = -np.linalg.solve(curvature + (price + 1e-14 * size) * np.eye(len(B)), gradient)
            # where values no longer tell, one more step squares the error
            if -float(gradient @ step) <= EPS * best:
                return B + step if value(B + step) <= (1.0 + ROUNDING) * best else B
            length = 1.0
            while length > 1e-10 and not value(B + length * step) <= best:
                length *= 0.5
            if length <= 1e-10:
                break
            B = B + length * step
            best = value(B)
        return B

    def gradient_at_constant(self, B: np.ndarray, price: float) -> np.ndarray:
        """Return ∇C at the outputs 1Bᵀ, shape (N, k): the subgradient that makes B of :meth:`constant` optimal."""
        return self.gradient(np.tile(B, (len(self.targets), 1)))

    def output_basis(self) -> np.ndarray | None:
        """Return orthonormal columns (k, q) of the outputs on which the loss depends; None if it depends on all."""
        if not self.is_level:
            return None
        k = self.targets.shape[1]
        return np.linalg.qr(np.column_stack([np.ones(k), np.eye(k)[:, : k - 1]]))[0][:, 1:]

    def probabilities(self, F: np.ndarray) -> np.ndarray | None:
        """Return the probability of each class, shape (N, number of classes); None if the loss defines none."""
        return None

    # ------------------------------------------------------------------ its conjugate
    def conjugate(self, U: np.ndarray) -> float:
        """Return C*(U) = max over F of ⟨U, F⟩ − C(F); inf outside the domain."""
        U = as_columns(U)
        return self.conjugate_terms(U)[0] if self.contains(U) else np.inf

    def conjugate_terms(self, U: np.ndarray) -> tuple[float, float]:
        """Return C*(U) for U in the domain, and the sum of the absolute terms, which scales the rounding error."""
        raise NotImplementedError

    def conjugate_gradient(self, U: np.ndarray) -> np.ndarray:
        """Return ∇C*(U), without the part that :meth:`box` accounts for."""
        raise NotImplementedError

    def conjugate_hessian(self, U: np.ndarray) -> np.ndarray:
        """Return second derivatives of C*: (N, 1) multiples of the identity, or (N, k) diagonals."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the domain of the conjugate
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest slope of ℓ in each output, (N, k): U/s is between them in the domain."""
        whole = np.broadcast_to(np.inf, self.targets.shape)
        return -whole, whole

    def domain_box(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds (N, k) on U, infinite where there is none; with ``is_level`` rows also sum to zero."""
        with np.errstate(invalid="ignore"):  # of rows of weight zero
            low, high = (np.where(np.isinf(edge), edge, edge * self.weights) for edge in self.slopes())
        return low, high

    def box(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the bounds on U if C* is smooth up to them; None if it is steep there or there are no bounds."""
        low, high = self.domain_box()
        return None if self.is_steep or np.isinf([low, high]).all() else (low, high)

    def contains(self, U: np.ndarray) -> bool:
        """Return whether C*(U) is finite."""
        low, high = self.domain_box()
        return bool(((low <= U) & (high >= U)).all())

    def project(self, U: np.ndarray) -> np.ndarray:
        """Return a point of the domain: U itself if it is inside."""
        return U if self.contains(U) else np.clip(U, *self.domain_box())

    def room(self, U: np.ndarray) -> np.ndarray:
        """Return how far U may move without leaving the domain, up to a factor; (N, k), positive inside."""
        low, high = self.domain_box()
        return np.minimum(np.maximum(np.minimum(U - low, high - U), 0.0), self.weights)

    def step_limit(self, U: np.ndarray, step: np.ndarray) -> float:
        """Return the largest t with U + t·step in the domain, if C* is steep at its edge; inf otherwise."""
        if not self.is_steep:
            return np.inf
        low, high = self.domain_box()
        left = np.where(step > 0, high - U, U - low)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where((step != 0) & (left > 10.0 * self.floor * self.weights), left / np.abs(step), np.inf)
        return float(t.min(initial=np.inf))

    def reach(self, U: np.ndarray) -> float:
        """Return a t ≥ 1 such that tU is in the domain if U is; slightly less than the largest."""
        low, high = self.domain_box()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(U > 0, high / U, np.where(U < 0, low / U, np.inf))
        # the quotient and the product tU are rounded
        return max(1.0, float(ratio.min(initial=np.inf)) * (1.0 - 8.0 * UNIT))

    def best_multiple(self, U: np.ndarray, longest: float, bend: float = 0.0) -> float:
        """Return nearly the t that maximises −C*(tU) − ½ bend t²: any t in the domain gives a bound.

        Parameters
        ----------
        U : ndarray of shape (N, k)
            In the domain.
        longest : float
            Largest t allowed.
        bend : float

        Examples
        --------
        >>> from covopt.losses import SquaredError
        >>> loss = SquaredError()
        >>> _ = loss.encode_targets([2.0, -2.0])
        >>> U = np.array([[-1.0], [1.0]])
        >>> [round(loss.best_multiple(U, end), 9) for end in (3.0, 0.5, 1e300)]
        [2.0, 0.5, 2.0]
        """
        if longest > 1.0:  # the domain may end beyond 1
            longest = min(longest, self.reach(U))

        def rise(t: float) -> float:
            return -float(np.vdot(U, self.conjugate_gradient(t * U))) - t * bend

        with np.errstate(over="ignore", invalid="ignore"):
            while (
                not (end := rise(longest)) >= 0.0 and longest > 0.0
            ):  # infinite or NaN where a dual norm vanishes
                least = EPS * longest
                if np.isfinite(end) and rise(least) > 0.0:
                    return float(brentq(rise, least, longest, xtol=least, rtol=4.0 * EPS, disp=False))
                longest = least
        return longest


class PiecewiseQuadratic(Loss):
    r"""ℓ(f, y) = max over slopes u of u r − ½ bend u², r = f − y: a parabola r²/(2 bend) with a line on either side.

    If ``bend`` is zero only the lines remain. Value, derivatives and conjugate follow from the slopes of the
    lines (:meth:`Loss.slopes`): C*(U) = Σ u·y + bend u²/(2s) between them.
    """

    bend: float = 0.0

    def samples(self, F):
        with np.errstate(over="ignore", invalid="ignore"):
            u = self._slope(F)
            value = u * (F - self.targets - 0.5 * self.bend * u)
        return np.where(np.isfinite(u), value, np.inf).sum(axis=1)

    def _slope(self, F):
        low, high = self.slopes()
        rest = F - self.targets
        if self.bend > 0.0:
            return np.clip(rest / self.bend, low, high)
        return np.where(rest < 0.0, low, np.where(rest > 0.0, high, 0.0))

    def hessian(self, F):
        if self.bend == 0.0:
            return np.zeros_like(self.weights)
        if self.box() is None:
            return self.weights / self.bend
        (low, high), slope = self.slopes(), (F - self.targets) / self.bend
        return self.weights / self.bend * ((low <= slope) & (slope <= high))

    def conjugate_terms(self, U):
        linear, square = U * self.targets, 0.5 * U * self._bent(U)
        return float(linear.sum() + square.sum()), float(np.abs(linear).sum() + square.sum())

    def conjugate_gradient(self, U):
        return self.targets + self._bent(U)

    def _bent(self, U):
        # bend 0 needs no division, and so allows rows of weight zero
        return self.bend * U / self.weights if self.bend > 0.0 else np.zeros_like(U)

    def conjugate_hessian(self, U):
        return self.bend / self.weights


def check_sample_weight(sample_weight: Any, n_samples: int) -> np.ndarray:
    """Return the weights scaled to sum one, shape (N,); equal weights for None.

    Raises
    ------
    InputError
        For another length, numbers that are negative or not finite, and weights that are all zero.

    Examples
    --------
    >>> check_sample_weight([1, 3], 2)
    array([0.25, 0.75])
    """
    if sample_weight is None:
        return np.full(n_samples, 1.0 / n_samples)
    try:
        weights = as_doubles(sample_weight)
    except (TypeError, ValueError):
        raise InputError(
            f"sample_weight must be {n_samples} numbers; received {sample_weight!r:.60}"
        ) from None
    if weights.shape != (n_samples,):
        raise InputError(
            f"sample_weight has shape {weights.shape}; give one number for each of the {n_samples} samples."
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            f"sample_weight {i} (counting from 0) is {weights[i]:g}; weights must be finite and not negative."
        )
    top = float(weights.max())
    if top == 0.0:
        raise InputError("sample_weight is zero for every sample; give at least one a positive weight.")
    scaled = weights / top
    return scaled / scaled.sum()
