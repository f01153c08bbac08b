r"""A proof that h(Λ) ≤ γ, made of multipliers, and its checker: one factorisation a region, rounding included.

On a region of directions (:mod:`covopt.oracles.lifted.lift`) let l be the lines and u = (t, w, p). If

.. math::
    a\|v\|^2 + b\,t^2 + c\,\|w\|^2 - v^\top F(u) - l^\top N l - \textstyle\sum_i l_i (\alpha_i t + \beta_i \cdot w)
    \succeq 0

as a quadratic form in (v, u), with N ≥ 0 outside of the pairs (p_i, q_i) and α_i ≥ ‖β_i‖, then at every neuron of the
region, where ‖v‖ = t = ‖w‖ = 1, v·F(u) = v·Λᵀσ(Zw) ≤ a + b + c. Where one sign s of a scalar dual is looked
at, v = s t. If the form plus δ is definite in the metric ‖v‖² + t² + ‖w‖² + ‖p‖²/s² ≤ 4, s ≥ ‖Z_R‖, that adds 4δ.

**Rounding.** The multipliers, the dual and the rows (of length at most one) are doubles; the entries of the form are
sums of at most 2L + n + 8 of their products, off by γ of that many times the same sums of absolute values (fact 2 of
:mod:`covopt.exact.rounding`), and the Frobenius norm of these bounds what δ misses. δ itself and s² come from
Cholesky's factorisation (:mod:`covopt.exact.definite`), no eigenvalue is believed. The user's rows are
z_i = l_i V u_i + e_i: what unit rows, lengths and a basis V round is paid by transfer (:class:`UnitRows`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from covopt.errors import InputError
from covopt.exact.definite import definite_up, spectral_norm_up
from covopt.exact.rank import row_span
from covopt.exact.rounding import TINY, allowance, lengths_up, operator_norm_up, total_up, transfer_up, up
from covopt.files.layouts import GAUGE
from covopt.files.schema import check_content, numbers
from covopt.oracles.lifted.lift import LEVELS, Lift, Region, covers

DIGITS = 8
SHORTER = 1.0 + 2.0**-45  # rows of length one are to be no longer, whatever their quotients round to
MOST = 1e100  # larger multipliers prove nothing, and have no eigenvalues in double precision


@dataclass(frozen=True)
class RegionProof:
    """Multipliers of one region.

    Attributes
    ----------
    signs : list of int
        See :class:`covopt.oracles.lifted.lift.Region`.
    sign : int
    theta : list of float
        a, b, c above.
    products : list of float
        Upper triangle of N, row by row, without the diagonal.
    cone : list of list of float
        One row per line: α_i and the coefficients that make β_i of the rows; empty when not used.
    """

    signs: list[int]
    sign: int
    theta: list[float]
    products: list[float]
    cone: list[list[float]]


@dataclass(frozen=True)
class GaugeCertificate:
    """Multipliers for a dual point, independent of units and of the basis in which the rows are written.

    Attributes
    ----------
    n_rows, n_outputs : int
        Shape of the dual.
    size : float
        Σ ‖Λ_i‖‖z_i‖ of the dual that the multipliers belong to; they scale with it.
    support : list of int
        Rows that are lifted; what the others can add is bounded by Σ ‖Λ_i‖‖z_i‖.
    level : str
    extra : list of list of float
        Further hyperplanes that regions are split by, as coefficients of the supporting rows at length one.
    regions : list of RegionProof

    Examples
    --------
    >>> from covopt.oracles.relaxation import relaxation_bound
    >>> found = relaxation_bound(np.eye(2), np.array([3.0, 4.0]))
    >>> again = GaugeCertificate.from_dict(found.certificate.to_dict())
    >>> 5.0 <= check_gauge(np.eye(2), np.array([3.0, 4.0]), again) <= 5.01
    True
    """

    n_rows: int
    n_outputs: int
    size: float
    support: list[int]
    level: str
    extra: list[list[float]]
    regions: list[RegionProof]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> GaugeCertificate:
        """Undo :meth:`to_dict`.

        Raises
        ------
        InputError
            When an entry is missing, unknown or no number.
        """
        try:
            check_content(values, GAUGE, "the gauge certificate")
            regions = [RegionProof(**entry) for entry in values["regions"]]
            for entry in regions:
                for part in (entry.signs, entry.theta, entry.products, *entry.cone):
                    numbers("regions", part)
            numbers("extra", values["extra"])
            return cls(**{**values, "regions": regions})
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise InputError(
                f"the gauge certificate is malformed ({error}); save the solution again"
            ) from error


@dataclass(frozen=True)
class UnitRows:
    """The supporting rows at length one (not above) in the coordinates of their span, and what that changes F by.

    Attributes
    ----------
    units : ndarray of shape (n, r)
    dual : ndarray of shape (n, k)
        Λ_i‖z_i‖.
    lost : float
        An upper bound on ‖Λᵀσ(Zw)‖ − ‖dualᵀσ(units Vᵀw)‖ over unit w.
    size : float
        Σ ‖Λ_i‖‖z_i‖ over all rows.
    stretch : float
        An upper bound on ‖V‖.
    """

    units: np.ndarray
    dual: np.ndarray
    lost: float
    size: float
    stretch: float

    @classmethod
    def of(cls, rows: np.ndarray, dual: np.ndarray, support: np.ndarray) -> UnitRows:
        """Normalise the rows of a support and reduce them to their rank."""
        # a little longer than the rows, by more than what quotients and products round
        long = lengths_up(rows) * SHORTER
        given = dual.reshape(len(rows), -1)
        sizes = lengths_up(given)
        outputs = given * long[:, None]
        units = rows[support] / np.maximum(long[support, None], TINY)
        basis, reduced = np.eye(rows.shape[1]), units
        span = row_span(units)
        if len(span) < rows.shape[1]:
            basis, reduced = span.T, units @ span.T / SHORTER
        paid = transfer_up(rows[support], sizes[support], basis, long[support, None] * reduced)
        # the products of both lengths with both factors are rounded, and they may underflow
        paid += allowance(8, total_up(sizes[support], long[support])) + len(rows) * TINY
        rest = np.ones(len(rows), dtype=bool)
        rest[support] = False
        lost = up(up(paid) + total_up(sizes[rest], long[rest]))
        return cls(reduced, outputs[support], lost, total_up(sizes, long), operator_norm_up(basis))


@dataclass(frozen=True)
class Multipliers:
    """The same as :class:`RegionProof` as arrays, in the coordinates of a lift.

    Attributes
    ----------
    theta : ndarray of shape (3,)
    products : ndarray of shape (L, L)
        N; symmetric.
    cone : ndarray of shape (L, 1 + r) or (0, 1 + r)
        α_i and β_i.
    """

    theta: np.ndarray
    products: np.ndarray
    cone: np.ndarray

    def store(self, lift: Lift) -> RegionProof:
        """Round to :data:`DIGITS` digits; β becomes coefficients of the rows, which know no basis."""

        def short(values: np.ndarray) -> list[float]:
            return [float(f"{value:.{DIGITS}g}") for value in values]

        stored: list[list[float]] = []
        if len(self.cone):
            coefficients = np.linalg.pinv(lift.rows.T) @ self.cone[:, 1:].T
            stored = [short(line) for line in np.column_stack([self.cone[:, 0], coefficients.T])]
        upper = self.products[np.triu_indices(lift.n_lines, 1)]
        return RegionProof(
            [int(s) for s in lift.region.signs], lift.region.sign, short(self.theta), short(upper), stored
        )

    @classmethod
    def read(cls, lift: Lift, proof: RegionProof, scale: float) -> Multipliers:
        """Undo :meth:`store` and multiply by ``scale``."""
        upper = np.zeros((lift.n_lines, lift.n_lines))
        upper[np.triu_indices(lift.n_lines, 1)] = scale * np.asarray(proof.products)
        cone = np.zeros((0, 1 + lift.rank))
        if proof.cone:
            given = scale * np.asarray(proof.cone)
            cone = np.column_stack([given[:, 0], given[:, 1:] @ lift.rows])
        return cls(scale * np.asarray(proof.theta), upper + upper.T, cone)


def bound_region(lift: Lift, dual: np.ndarray, multipliers: Multipliers) -> float:
    """Bound v·Λᵀσ(Zw) on a region by its multipliers; valid whatever they are.

    Parameters
    ----------
    lift : Lift
    dual : ndarray of shape (n, k)
        For the rows at length one.
    multipliers : Multipliers
        Negative ones count as zero, except for the pairs p_i q_i.

    Returns
    -------
    float
        a + b + c and what the smallest eigenvalue and rounding add.
    """
    k = 0 if lift.region.sign else dual.shape[1]
    parts = (multipliers.theta, multipliers.products, multipliers.cone)
    if max(float(np.abs(part).max(initial=0.0)) for part in parts) > MOST:
        return np.inf
    a, b, c = (float(value) for value in multipliers.theta)
    if not k:
        a, b = 0.0, a + b
    products = np.where(lift.products, np.maximum(multipliers.products, 0.0), 0.0)
    products[lift.pairs] = products[lift.pairs[::-1]] = multipliers.products[lift.pairs]

    size, rank, forms = k + lift.size, lift.rank, lift.forms
    matrix, terms = np.zeros((size, size)), np.zeros((size, size))
    inner = matrix[k:, k:]
    inner -= forms.T @ products @ forms
    terms[k:, k:] += np.abs(forms).T @ np.abs(products) @ np.abs(forms)
    linear = dual.T @ lift.activation
    magnitude = np.abs(dual).T @ np.abs(lift.activation)
    cone = np.zeros((lift.n_lines, lift.size))
    if len(multipliers.cone):
        cone[:, 1 : 1 + rank] = multipliers.cone[:, 1:]
        cone[:, 0] = np.maximum(multipliers.cone[:, 0], lengths_up(cone[:, 1:]))
        mixed = forms.T @ cone
        inner -= 0.5 * (mixed + mixed.T)
        terms[k:, k:] += np.abs(forms).T @ np.abs(cone) + np.abs(cone).T @ np.abs(forms)
    if k:
        matrix[:k, k:] -= 0.5 * linear
        matrix[k:, :k] -= 0.5 * linear.T
        terms[:k, k:] += magnitude
        terms[k:, :k] += magnitude.T
    else:
        inner[0] -= 0.5 * lift.region.sign * linear[0]
        inner[:, 0] -= 0.5 * lift.region.sign * linear[0]
        terms[0] += magnitude[0]
        terms[:, 0] += magnitude[0]
    diagonal = np.concatenate([np.full(k, a), [b], np.full(rank, c), np.zeros(len(lift.open))])
    matrix[np.diag_indices(size)] += diagonal
    terms[np.diag_indices(size)] += np.abs(diagonal)

    metric = np.ones(size)
    weight = 2.0 + bool(k)
    if len(lift.open):
        metric[k + 1 + rank :] = spectral_norm_up(lift.rows[lift.open])
        weight += 1.0
    matrix = metric[:, None] * (0.5 * (matrix + matrix.T)) * metric
    terms = metric[:, None] * terms * metric
    rounding = allowance(2 * lift.n_lines + len(dual) + size + 8, float(np.linalg.norm(terms)))
    if not np.isfinite(rounding):
        return np.inf
    delta = definite_up(matrix, float(np.linalg.eigvalsh(matrix)[0]))
    return up(up(a + b + c + allowance(4, abs(a) + abs(b) + abs(c))) + up(weight * up(delta + rounding)))


def check_gauge(rows: np.ndarray, dual: np.ndarray, certificate: GaugeCertificate) -> float:
    r"""Bound h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖ by the multipliers of a certificate.

    The answer is an upper bound whatever the multipliers are: wrong ones make it large. A small
    eigenvalue problem is solved per region, and the regions are checked to leave out no direction.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)
        Any positive multiple of the dual that the certificate was made for gives the same multiple of the bound.
    certificate : GaugeCertificate

    Returns
    -------
    float
        Rounding included.

    Raises
    ------
    InputError
        When the certificate does not fit the rows, or its regions do not cover all directions.

    Examples
    --------
    >>> from covopt.oracles.relaxation import relaxation_bound
    >>> rows, dual = np.eye(3), np.array([1.0, -2.0, 2.0])
    >>> certificate = relaxation_bound(rows, dual).certificate
    >>> round(check_gauge(rows, 10 * dual, certificate) / check_gauge(rows, dual, certificate), 6)
    10.0
    """
    outputs = 1 if dual.ndim == 1 else dual.shape[1]
    if certificate.n_rows != len(rows) or certificate.n_outputs != outputs:
        raise InputError(
            f"the gauge certificate is for a dual of shape ({certificate.n_rows}, {certificate.n_outputs}); "
            f"received {len(rows)} rows and {outputs} outputs. It belongs to other data."
        )
    if not np.any(dual):
        return 0.0
    support = np.asarray(certificate.support, dtype=np.int64)
    if (
        len(support) == 0
        or len(np.unique(support)) < len(support)
        or support.min() < 0
        or support.max() >= len(rows)
    ):
        raise InputError(
            f"the gauge certificate lists rows that are not there or repeated; there are {len(rows)}"
        )
    if certificate.level not in LEVELS:
        raise InputError(
            f"the gauge certificate has the unknown level {certificate.level!r}; known: {LEVELS}"
        )
    unit = UnitRows.of(rows, dual, support)
    if not (np.isfinite(certificate.size) and certificate.size > 0):
        raise InputError(f"the gauge certificate has size {certificate.size!r}; it must be positive")
    scale = unit.size / certificate.size
    n_extra = len(certificate.extra)
    extra = np.reshape(np.asarray(certificate.extra, dtype=float), (n_extra, -1 if n_extra else len(support)))
    if extra.shape[1] != len(support) or not np.isfinite(extra).all():
        raise InputError("the gauge certificate's extra hyperplanes do not fit its supporting rows")
    rows_of_lift = np.concatenate([unit.units, extra @ unit.units])
    for number, proof in enumerate(certificate.regions):
        _check_region(number, proof, len(rows_of_lift), len(support), outputs, certificate.level)
    for sign in (1, -1) if outputs == 1 else (0,):
        patterns = [np.asarray(p.signs, dtype=np.int8) for p in certificate.regions if p.sign in (0, sign)]
        if not patterns or not covers(rows_of_lift, patterns):
            raise InputError("the regions of the gauge certificate leave out directions: it proves nothing")
    bounds = []
    for proof in certificate.regions:
        region = Region(np.asarray(proof.signs, dtype=np.int8), proof.sign)
        lift = Lift(rows_of_lift, len(support), region, certificate.level)
        bounds.append(bound_region(lift, unit.dual, Multipliers.read(lift, proof, scale)))
    return up(up(unit.stretch * max(0.0, *bounds)) + unit.lost)


def _check_region(
    number: int, proof: RegionProof, n_signs: int, n_rows: int, outputs: int, level: str
) -> None:
    signs = np.asarray(proof.signs)
    where = f"region {number} of the gauge certificate"
    if len(signs) != n_signs or not np.isin(signs, (-1, 0, 1)).all():
        raise InputError(f"{where} needs {n_signs} signs, each -1, 0 or 1; received {len(signs)}")
    if proof.sign not in ((-1, 0, 1) if outputs == 1 else (0,)):
        raise InputError(
            f"{where} is for sign {proof.sign!r}, which a dual with {outputs} outputs does not have"
        )
    n_open = int((signs[:n_rows] == 0).sum())
    n_lines = 1 + n_open + len(signs[signs != 0]) + n_open * (2 if level in ("length", "cone") else 1)
    expected = n_lines * (n_lines - 1) // 2
    numbers = [np.asarray(values, dtype=float) for values in (proof.theta, proof.products, *proof.cone)]
    if len(numbers[0]) != 3 or len(numbers[1]) != expected or len(proof.cone) not in (0, n_lines):
        raise InputError(
            f"{where} needs 3 and {expected} multipliers; received {len(numbers[0])}, {len(numbers[1])}"
        )
    if any(len(line) != 1 + n_signs for line in numbers[2:]):
        raise InputError(f"{where} needs {1 + n_signs} numbers for the cone of each line")
    if not all(np.isfinite(values).all() for values in numbers):
        raise InputError(f"{where} holds numbers that are not finite")
