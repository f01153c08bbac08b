"""Estimators that choose λ by cross-validation along the path, as LassoCV does."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from covopt.api.fitting import check_lams
from covopt.api.selection import fold_networks, say_cut
from covopt.checks.validation import check_time_limit
from covopt.errors import TableWarning
from covopt.estimators.base import LossEstimator
from covopt.estimators.networks import ReLUClassifier, ReLURegressor
from covopt.losses import Loss
from covopt.parallel import check_n_jobs, map_tasks
from covopt.solution import Solution


class _AlongThePath(LossEstimator):
    """Descend along a path in every fold, score every network on what was left out, solve at the best λ.

    The folds of diabetes, five with five λ, take 16 processor seconds; scikit-learn's search over cold fits to 1e-3
    takes 53, and ends with the same λ.
    """

    lams: Any
    n_lams: int
    eps: float
    cv: Any
    scoring: Any
    n_jobs: int
    lams_: np.ndarray
    scores_: np.ndarray
    lam_: float

    def _choose(
        self, X: np.ndarray, y: np.ndarray, targets: np.ndarray, loss: str | Loss, weights: np.ndarray | None
    ) -> float:
        """Return the best λ; of several that are as good the largest, whose network is the smallest."""
        check_n_jobs(self.n_jobs)
        limit = check_time_limit(self.time_limit_s)
        splits = list(check_cv(self.cv, y, classifier=isinstance(self, ClassifierMixin)).split(X, y))
        task = self._task(X, targets, loss, weights)
        asked = self.lams
        self.lams_ = task.grid(self.n_lams, self.eps, limit) if asked is None else check_lams(asked)
        tasks = [(task, train, self.lams_) for train, _ in splits]
        networks_of = partial(fold_networks, time_limit_s=limit)
        self.scores_ = np.empty((len(self.lams_), len(splits)))
        cut = 0
        for fold, (networks, late) in enumerate(map_tasks(networks_of, tasks, n_jobs=self.n_jobs)):
            cut += late
            test = splits[fold][1]
            for j, network in enumerate(networks):
                self.scores_[j, fold] = self._score(network, X[test], y[test], weights, test)
        say_cut(cut, len(self.lams_), len(splits), len(splits), limit)
        self.lam_ = float(self.lams_[int(self.scores_.mean(axis=1).argmax())])
        return self.lam_

    def _keep(self, solution: Solution) -> None:
        """See the base class; a constant is not kept silently."""
        super()._keep(solution)
        if not len(solution.network):
            warnings.warn(
                f"{type(self).__name__} chose lam={self.lam_:.6g}, where the network is a constant: no smaller λ of "
                "the grid scored better on the rows left out. Give smaller lams, or other features.",
                TableWarning,
                stacklevel=3,
            )

    def _score(self, network: Any, X: np.ndarray, y: np.ndarray, weights: Any, test: np.ndarray) -> float:
        judged = clone(self)._filled(network, X, y, getattr(self, "classes_", None))
        scorer = check_scoring(judged, scoring=self.scoring or self._default_scoring)
        if weights is None or not weights[test].any():
            return float(scorer(judged, X, y))
        return float(scorer(judged, X, y, sample_weight=weights[test]))

    def _filled(self, network: Any, X: np.ndarray, y: np.ndarray, classes: Any) -> _AlongThePath:
        """Take a network as fit takes what it found."""
        self.network_, self.n_features_in_, self._y_ndim = network, X.shape[1], y.ndim
        if classes is not None:
            self.classes_ = classes
        return self

    _default_scoring = "neg_mean_squared_error"


class ReLURegressorCV(_AlongThePath, ReLURegressor):
    r""":class:`ReLURegressor` whose λ is chosen by cross-validation along the path, as LassoCV does.

    In every fold networks are found by descent from the largest λ down, each started from the one before; the λ of
    the best mean score is solved for on all samples, and that network carries the proof of its optimality.

    Parameters
    ----------
    lams : array_like, optional
        The λ to choose from; by default a geometric grid from :func:`covopt.lambda_max` of all samples down, or from
        a bound on it where the faces are too many.
    n_lams : int
        Number of points of that grid.
    eps : float
        Ratio of its ends.
    cv : int, splitter or iterable, optional
        As in scikit-learn; 5 folds by default.
    scoring : str or callable, optional
        As in scikit-learn, larger is better; minus the mean squared error by default.
    n_jobs : int
        Folds at a time; -1 for one on each core.
    loss, delta, bias, output_bias, tol, time_limit_s, random_state
        As for :class:`ReLURegressor`; the time limit is for each path, and shared by its λ.

    Attributes
    ----------
    lam_ : float
        The λ that was chosen.
    lams_ : ndarray of shape (n_lams,)
        Falling.
    scores_ : ndarray of shape (n_lams, n_folds)
    network_, solution_, certificate_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ReLURegressor`, of λ = ``lam_`` on all samples.

    Warns
    -----
    NotCertifiedWarning
        When the gap of the last fit is above ``tol``.
    TableWarning
        When the network is a constant: no smaller λ scored better.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = ReLURegressorCV(n_lams=5, cv=3).fit(X, np.abs(X[:, 0]))
    >>> model.scores_.shape, int(model.scores_.mean(axis=1).argmax()), model.dual_gap_ <= 1e-6
    ((5, 3), 4, True)
    """

    def __init__(
        self,
        *,
        lams: Any = None,
        n_lams: int = 20,
        eps: float = 1e-3,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int = 1,
        loss: str | Loss = "squared",
        delta: float = 1.0,
        bias: float = 1.0,
        output_bias: str = "none",
        tol: float = 1e-6,
        time_limit_s: float | None = None,
        random_state: Any = None,
    ):
        self._set(locals())


class ReLUClassifierCV(_AlongThePath, ReLUClassifier):
    r""":class:`ReLUClassifier` whose λ is chosen by cross-validation along the path, as LogisticRegressionCV does.

    Parameters
    ----------
    lams, n_lams, eps, n_jobs
        As for :class:`ReLURegressorCV`.
    cv : int, splitter or iterable, optional
        As in scikit-learn; 5 stratified folds by default.
    scoring : str or callable, optional
        As in scikit-learn; accuracy by default, and of several λ that are as good the largest.
    loss, bias, output_bias, tol, time_limit_s, random_state
        As for :class:`ReLUClassifier`; the time limit is for each path.

    Attributes
    ----------
    lam_, lams_, scores_
        As for :class:`ReLURegressorCV`.
    classes_, network_, solution_, certificate_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ReLUClassifier`, of λ = ``lam_`` on all samples.

    Warns
    -----
    NotCertifiedWarning
        When the gap of the last fit is above ``tol``.
    TableWarning
        When the network is a constant: no smaller λ scored better.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 1))
    >>> model = ReLUClassifierCV(n_lams=4, cv=2).fit(X, np.abs(X[:, 0]) > 0.5)
    >>> model.predict([[0.0], [0.9]]).tolist(), model.scores_.shape
    ([False, True], (4, 2))
    """

    def __init__(
        self,
        *,
        lams: Any = None,
        n_lams: int = 20,
        eps: float = 1e-3,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int = 1,
        loss: str = "logistic",
        bias: float = 1.0,
        output_bias: str = "none",
        tol: float = 1e-6,
        time_limit_s: float | None = None,
        random_state: Any = None,
    ):
        self._set(locals())

    _default_scoring = "accuracy"
