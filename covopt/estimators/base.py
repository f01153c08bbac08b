"""Base classes of the estimators: validation, sample weights, and storage of the certificate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from covopt.api.lambdas import is_chosen, parse_lam
from covopt.api.task import Task
from covopt.checks.validation import check_time_limit
from covopt.data.tabular import Named
from covopt.errors import InputError, NotCertifiedWarning, Status
from covopt.limits import now
from covopt.losses import Loss
from covopt.solution import Solution

BRIEF = 0.002  # reduced effort for lower bounds, since grid searches fit many times


@dataclass(kw_only=True, eq=False, repr=False)  # generates the __init__ that scikit-learn requires
class CertifiedEstimator(BaseEstimator):
    """Base class of all estimators: stores the solution, and warns if optimality is not proved."""

    bias: float = 1.0
    output_bias: str = "none"
    tol: float = 1e-6
    time_limit_s: float | None = None
    random_state: Any = None

    def _seed(self) -> int | None:
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31 - 1))
        return self.random_state

    def _table(self, X: np.ndarray) -> Any:
        """Return X with its column names, for solutions, files and plots."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return X
        return Named(X, tuple(str(name) for name in names))

    def _keep(self, solution: Solution) -> None:
        self.solution_ = solution
        self.network_ = solution.network
        self.certificate_ = solution.certificate
        self.dual_gap_ = float(solution.gap)
        self.n_iter_ = len(solution.history)
        if solution.status is Status.CERTIFIED:
            return
        remedy = {
            Status.TIME_LIMIT: "raise time_limit_s",
            Status.HEURISTIC: "use fewer features or samples",
        }.get(solution.status, "fit again")
        misses = solution.loss is None and not solution.certificate.interpolates
        warnings.warn(
            f"{type(self).__name__} has no proof of optimality: {solution.status.message}; relative gap "
            f"{solution.gap:.1e}, tol={solution.tol:g}. For a proof {remedy}, or take a larger tol."
            + (
                f" The network misses the targets by {solution.certificate.residual:.1e} max|y|."
                if misses
                else ""
            ),
            NotCertifiedWarning,
            stacklevel=3,
        )

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.network_.predict(X)


def check_weights(X: np.ndarray, sample_weight: Any) -> np.ndarray | None:
    """Return the sample weights as float64, or None.

    Raises
    ------
    ValueError
        For another length, negative weights, and weights that are not finite or all zero.
    """
    if sample_weight is None:
        return None
    given = np.asarray(sample_weight)
    if given.size and not given.any():
        raise InputError("sample_weight is all zero; at least one sample needs a positive weight.")
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return weights


def merge_samples(
    X: np.ndarray, Y: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return distinct samples (x, y) in lexicographic order with the sums of their weights, without zero weights.

    The objective is unchanged. Repeating a sample and doubling its weight then give the same table, hence the same
    network, not only the same objective up to the tolerance. Without weights and repetitions nothing is changed.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N,) or (N, k)
    weights : ndarray of shape (N,) or None

    Examples
    --------
    >>> merge_samples(np.array([[2.0], [1.0], [2.0], [3.0]]), np.array([5.0, 4.0, 5.0, 0.0]), np.array([1, 2, 3, 0]))
    (array([[1.],
           [2.]]), array([4., 5.]), array([2., 4.]))
    """
    table = np.column_stack([X, Y]) + 0.0  # turns −0 into 0
    if weights is not None:
        table, Y, weights = table[weights > 0], Y[weights > 0], weights[weights > 0]
    _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)
    if weights is None and len(first) == len(X):
        return X, Y, None
    counts = np.bincount(group.ravel(), weights=weights).astype(np.float64)
    return table[first, : X.shape[1]], Y[first], counts


class LossEstimator(CertifiedEstimator):
    """Base class of the regressors and classifiers with a loss."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
            Numbers, also of shape (n_samples, n_outputs); for a classifier labels of at least two classes.
        sample_weight : array_like of shape (n_samples,), optional
            Nonnegative; zero leaves a sample out. Also used in the scores if λ is chosen by them.

        Raises
        ------
        InputError
            A ValueError: for parameters out of range, a single class, or a hinge loss with more than two classes.
        """
        X, y, targets, loss, weights = self._encoded(X, y, sample_weight)
        self._keep(self._train(X, targets, loss, weights, self._choose(X, y, targets, loss, weights)))
        return self

    def _encoded(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, np.ndarray, Any, Any]:
        """Return the validated samples and targets, the encoded targets, the loss, and the weights."""
        raise NotImplementedError

    def _choose(self, X: Any, y: Any, targets: np.ndarray, loss: Any, weights: Any) -> float | str:
        return self.lam

    def _task(self, X: Any, Y: np.ndarray, loss: str | Loss, weights: np.ndarray | None) -> Task:
        return Task(
            X, Y, loss, self.bias, self.output_bias, weights, "variation", "auto", self.tol, self._seed()
        )

    def _train(
        self, X: np.ndarray, Y: np.ndarray, loss: str | Loss, weights: np.ndarray | None, lam: float | str
    ) -> Solution:
        X, Y, weights = merge_samples(X, Y, weights)
        began, limit = now(), check_time_limit(self.time_limit_s)
        if not is_chosen(lam):
            parse_lam(lam)  # validate before any computation
        task = self._task(self._table(X), Y, loss, weights)
        task.effort = BRIEF
        with threadpool_limits(1, user_api="blas"):
            return task.solve(task.strength(lam, limit), limit, None, None, began)
