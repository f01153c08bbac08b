"""Estimators that choose λ by cross-validation along a path, as LassoCV does."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from covopt.api.selection import fold_networks, say_cut
from covopt.api.solution_path import check_lams
from covopt.checks.validation import check_time_limit
from covopt.errors import TableWarning
from covopt.estimators.base import LossEstimator
from covopt.estimators.networks import ReLUClassifier, ReLURegressor
from covopt.losses import Loss
from covopt.parallel import check_n_jobs, map_tasks
from covopt.solution import Solution


@dataclass(kw_only=True, eq=False, repr=False)
class _AlongThePath(LossEstimator):
    """Compute a path of networks in every fold, score each on the held-out samples, and solve at the best λ.

    On diabetes, five folds with five λ take 16 processor seconds; scikit-learn's search over cold fits to 1e-3
    takes 53 and selects the same λ.
    """

    lams: Any = None
    n_lams: int = 20
    eps: float = 1e-3
    cv: Any = None
    scoring: Any = None
    n_jobs: int = 1

    def _choose(
        self, X: np.ndarray, y: np.ndarray, targets: np.ndarray, loss: str | Loss, weights: np.ndarray | None
    ) -> float:
        """Return the best λ; among equally good ones the largest, whose network is the smallest."""
        check_n_jobs(self.n_jobs)
        limit = check_time_limit(self.time_limit_s)
        splits = list(check_cv(self.cv, y, classifier=isinstance(self, ClassifierMixin)).split(X, y))
        task = self._task(X, targets, loss, weights)
        asked = self.lams
        self.lams_ = task.grid(self.n_lams, self.eps, limit) if asked is None else check_lams(asked)
        tasks = [(task, train, self.lams_) for train, _ in splits]
        networks_of = partial(fold_networks, time_limit_s=limit)
        by_default = None if isinstance(self, ClassifierMixin) else "neg_mean_squared_error"
        scorer = check_scoring(self, scoring=self.scoring or by_default)
        judged = copy(self)
        judged.__dict__.pop("feature_names_in_", None)  # the arrays of a fold have no column names
        self.scores_ = np.empty((len(self.lams_), len(splits)))
        cut = 0
        for fold, (networks, late) in enumerate(map_tasks(networks_of, tasks, n_jobs=self.n_jobs)):
            cut += late
            test = splits[fold][1]
            own = None if weights is None or not weights[test].any() else weights[test]
            for j, judged.network_ in enumerate(networks):
                self.scores_[j, fold] = scorer(judged, X[test], y[test], sample_weight=own)
        say_cut(cut, len(self.lams_), len(splits), len(splits), limit)
        self.lam_ = float(self.lams_[int(self.scores_.mean(axis=1).argmax())])
        return self.lam_

    def _keep(self, solution: Solution) -> None:
        """See the base class; warn if the network is constant."""
        super()._keep(solution)
        if not len(solution.network):
            warnings.warn(
                f"{type(self).__name__} chose lam={self.lam_:.6g}, where the network is a constant: no smaller λ of "
                "the grid scored better on the rows left out. Give smaller lams, or other features.",
                TableWarning,
                stacklevel=3,
            )


@dataclass(kw_only=True, eq=False, repr=False)
class ReLURegressorCV(_AlongThePath, ReLURegressor):
    r""":class:`ReLURegressor` whose λ is chosen by cross-validation along the path, as LassoCV does.

    In every fold networks are computed by descent from the largest λ down, with warm starts. At the λ of the best
    mean score the problem is then solved on all samples, with a certificate of optimality.

    Parameters
    ----------
    lams : array_like, optional
        The λ to choose from; by default a geometric grid downwards from :func:`covopt.lambda_max` of all samples, or
        from an upper bound on it if there are too many faces.
    n_lams : int
        Number of points of that grid.
    eps : float
        Ratio of the least to the largest λ of the grid.
    cv : int, splitter or iterable, optional
        As in scikit-learn; 5 folds by default.
    scoring : str or callable, optional
        As in scikit-learn, larger is better; the negative mean squared error by default.
    n_jobs : int
        Number of folds computed in parallel; -1 for one per core.
    loss, delta, bias, output_bias, tol, time_limit_s, random_state
        As for :class:`ReLURegressor`; the time limit is for each path, shared by its λ.

    Attributes
    ----------
    lam_ : float
        The chosen λ.
    lams_ : ndarray of shape (n_lams,)
        The λ of the path, in decreasing order.
    scores_ : ndarray of shape (n_lams, n_folds)
    network_, solution_, certificate_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ReLURegressor`, for λ = ``lam_`` on all samples.

    Warns
    -----
    NotCertifiedWarning
        If the gap of the last fit is above ``tol``.
    TableWarning
        If the network is constant: no smaller λ scored better.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = ReLURegressorCV(n_lams=5, cv=3).fit(X, np.abs(X[:, 0]))
    >>> model.scores_.shape, int(model.scores_.mean(axis=1).argmax()), model.dual_gap_ <= 1e-6
    ((5, 3), 4, True)
    """

    lam: Any = field(init=False, default=None)  # is chosen


@dataclass(kw_only=True, eq=False, repr=False)
class ReLUClassifierCV(_AlongThePath, ReLUClassifier):
    r""":class:`ReLUClassifier` whose λ is chosen by cross-validation along the path, as LogisticRegressionCV does.

    Parameters
    ----------
    lams, n_lams, eps, n_jobs
        As for :class:`ReLURegressorCV`.
    cv : int, splitter or iterable, optional
        As in scikit-learn; 5 stratified folds by default.
    scoring : str or callable, optional
        As in scikit-learn; accuracy by default. Among equally good λ the largest is chosen.
    loss, bias, output_bias, tol, time_limit_s, random_state
        As for :class:`ReLUClassifier`; the time limit is for each path.

    Attributes
    ----------
    lam_, lams_, scores_
        As for :class:`ReLURegressorCV`.
    classes_, network_, solution_, certificate_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ReLUClassifier`, for λ = ``lam_`` on all samples.

    Warns
    -----
    NotCertifiedWarning
        If the gap of the last fit is above ``tol``.
    TableWarning
        If the network is constant: no smaller λ scored better.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 1))
    >>> model = ReLUClassifierCV(n_lams=4, cv=2).fit(X, np.abs(X[:, 0]) > 0.5)
    >>> model.predict([[0.0], [0.9]]).tolist(), model.scores_.shape
    ([False, True], (4, 2))
    """

    lam: Any = field(init=False, default=None)  # is chosen
