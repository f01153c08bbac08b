"""Regressors of least norm or with weight decay, and a classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from covopt.api.fitting import min_norm
from covopt.api.lambdas import DEFAULT_LAMBDA
from covopt.checks.validation import check_choice
from covopt.errors import InputError
from covopt.estimators.base import CertifiedEstimator, LossEstimator, check_weights
from covopt.losses import Huber, Loss
from covopt.losses.classification import codes_of

LOSSES, OF_CLASSES = ("squared", "huber"), ("logistic", "hinge", "squared-hinge")


class _Regressor(MultiOutputMixin, RegressorMixin, CertifiedEstimator):
    """Base class of the regressors: one or several numerical targets; predictions have the shape of y."""

    def _validated(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self._y_ndim = y.ndim
        return X, y

    def predict(self, X: Any) -> np.ndarray:
        """Return the outputs of the network, of the shape of y.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        """
        outputs = self._outputs(X)
        return outputs[:, None] if outputs.ndim < self._y_ndim else outputs


@dataclass(kw_only=True, eq=False, repr=False)
class MinNormReLURegressor(_Regressor):
    r"""Two-layer ReLU network of any width that interpolates the training points with least norm.

    .. math::

        \min_{w, v, b} \; \sum_j \|w_j\|^2 + \|v_j\|^2 \,(+\, \|b\|^2)
        \quad \text{s.t.} \quad \sum_j v_j\, \sigma(w_j \cdot (x_i, \beta)) + \beta b = y_i

    (FL22 §2; SP20 §2), solved by :func:`covopt.min_norm`. The fit stops when the relative duality gap
    (‖W‖² − lower bound)/‖W‖² is at most ``tol``; the gap is recomputed from the training data. The network also
    interpolates noise; use :class:`ReLURegressor` for noisy targets.

    Parameters
    ----------
    bias : float
        β ≥ 0, a constant appended to every input; 0 for none.
    output_bias : {"none", "penalized", "free"}
        No output bias, one whose square counts in the norm, or one without penalty.
    duplicates : {"error", "mean"}
        How to treat equal rows of X with different targets, which no function interpolates: raise an error, or
        interpolate their means (which is another problem; ``solution_.data.notes`` states what was merged).
    tol : float
        Relative duality gap at which to stop, in (0, 1).
    time_limit_s : float, optional
        Seconds for the search, after which the best bounds so far are kept; the final certificate takes extra time.
    random_state : int, RandomState instance or None
        Seed of the starting columns; None is a fixed seed. The optimum does not depend on it.

    Attributes
    ----------
    network_ : ReLUNetwork
        ``to_torch()`` and ``to_onnx(path)`` export it.
    solution_ : Solution
        Has ``save``, ``plot``, ``is_unique``; :func:`covopt.verify` checks it.
    certificate_ : Certificate
        Cost, lower bound, and residual of the interpolation.
    dual_gap_ : float
        Relative duality gap, to be compared with ``tol``. It is at most ``tol`` unless the fit warned.
    n_iter_ : int
        Rounds of column generation.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Column names of X, if it had any.

    Warns
    -----
    NotCertifiedWarning
        If the gap is above ``tol``, as with many features: about N^d · 3^(d−1) faces have to be checked.

    References
    ----------
    F. Bach, Breaking the Curse of Dimensionality with Convex Neural Networks, JMLR 18(19), 2017.

    Examples
    --------
    >>> model = MinNormReLURegressor().fit([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0])
    >>> model.predict([[-2.0], [0.5]]).round(6), model.dual_gap_ <= 1e-6
    (array([2. , 0.5]), True)
    """

    duplicates: str = "error"

    def fit(self, X: Any, y: Any) -> MinNormReLURegressor:
        """Compute the network.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        y : array_like of shape (n_samples,) or (n_samples, n_outputs)

        Raises
        ------
        InputError
            A ValueError: for parameters out of range, and for points that no network interpolates.
        """
        X, y = self._validated(X, y)
        self._keep(
            min_norm(
                self._table(X), y, bias=self.bias, output_bias=self.output_bias, duplicates=self.duplicates,
                tol=self.tol, time_limit_s=self.time_limit_s, random_state=self._seed(),
            )
        )  # fmt: skip
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class ReLURegressor(_Regressor, LossEstimator):
    r"""Two-layer ReLU network of any width, trained with weight decay to global optimality.

    .. math::

        \min_f \; \sum_i s_i\, \ell(f(x_i), y_i) + \lambda \|W\|^2,
        \qquad f(x) = \sum_j v_j\, \sigma(w_j \cdot (x, \beta)) + \beta b,

    with s the sample weights divided by their sum (a mean), ℓ the square ‖f − y‖² (no ½) or Huber's loss; solved by
    :func:`covopt.fit`. The fit stops when the relative duality gap (objective − lower bound)/objective is at most
    ``tol``; the gap is recomputed from the training data.

    Parameters
    ----------
    lam : float or str
        λ > 0, or a fraction of :func:`covopt.lambda_max` as in ``"0.03max"``, which does not depend on units, or
        ``"cv"``, chosen by cross-validation. For λ ≥ λ_max the network is constant.
    loss : {"squared", "huber"} or Loss
    delta : float
        Residual at which Huber's loss changes from quadratic to linear; not used by the squared loss.
    bias, output_bias, tol, time_limit_s, random_state
        As for :class:`MinNormReLURegressor`.

    Attributes
    ----------
    network_, solution_, certificate_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`MinNormReLURegressor`. With sample weights or repeated samples, ``solution_`` is for the
        sorted table of distinct samples with the sums of their weights.

    Warns
    -----
    NotCertifiedWarning
        If the gap is above ``tol``.

    Notes
    -----
    With many features the fit stops when no neuron is found that lowers the objective by more than ``tol``. It
    then spends a fiftieth of the effort of :func:`covopt.fit` on the lower bound. In a search over λ use
    ``tol=1e-3``: the networks predict as well, in half the time or less.

    The norm depends on the units of X. If columns are not comparable, put a ``StandardScaler`` before the estimator,
    and use ``output_bias="free"`` instead of centring y.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> years, y = [[1990.0], [2000.0], [2010.0], [2020.0]], [205.0, 201.0, 206.0, 204.0]
    >>> pipeline = make_pipeline(StandardScaler(), ReLURegressor("0.01max", output_bias="free"))
    >>> pipeline.fit(years, y).score(years, y) > 0.9
    True
    >>> model = ReLURegressor(lam=0.01).fit([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0])
    >>> model.dual_gap_ <= 1e-6, model.score([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0]) > 0.99
    (True, True)
    """

    lam: float | str = field(default=DEFAULT_LAMBDA, kw_only=False)
    loss: str | Loss = "squared"
    delta: float = 1.0

    def _encoded(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, np.ndarray, Any, Any]:
        X, y = self._validated(X, y)
        return X, y, y.astype(np.float64), self._made_loss(), check_weights(X, sample_weight)

    def _made_loss(self) -> str | Loss:
        if isinstance(self.loss, Loss):
            if self.loss.is_classification:
                raise InputError(f"loss={self.loss.name!r} is for classes; use ReLUClassifier.")
            return self.loss
        return Huber(self.delta) if check_choice("loss", self.loss, LOSSES) == "huber" else self.loss


def _gives_probabilities(estimator: ReLUClassifier) -> bool:
    if estimator.loss != "logistic":
        raise AttributeError(f'loss={estimator.loss!r} gives no probabilities; use loss="logistic"')
    return True


@dataclass(kw_only=True, eq=False, repr=False)
class ReLUClassifier(ClassifierMixin, LossEstimator):
    r"""Two-layer ReLU network of any width, trained with weight decay to global optimality on a classification loss.

    .. math::

        \min_f \; \sum_i s_i\, \ell(f(x_i), y_i) + \lambda \|W\|^2

    with ℓ = log(1 + exp(−yf)) for two classes (y = ±1), the softmax cross-entropy for more, or a hinge; s are the
    sample weights divided by their sum. Solved by :func:`covopt.fit`; the fit stops when the relative duality gap
    (objective − lower bound)/objective is at most ``tol``, recomputed from the training data.

    Parameters
    ----------
    lam : float or str
        λ > 0, or a fraction of :func:`covopt.lambda_max` as in ``"0.03max"``, or ``"cv"`` for cross-validation.
    loss : {"logistic", "hinge", "squared-hinge"}
        The hinge losses are for two classes only, without probabilities.
    bias, output_bias, tol, time_limit_s, random_state
        As for :class:`MinNormReLURegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, in the order of the columns of ``predict_proba``.
    network_, solution_, certificate_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ReLURegressor`; the network's outputs are the scores of ``decision_function``.

    Warns
    -----
    NotCertifiedWarning
        If the gap is above ``tol``.

    Examples
    --------
    >>> model = ReLUClassifier(lam=0.01).fit([[-1.0], [0.0], [1.0]], ["out", "in", "out"])
    >>> model.predict([[-2.0], [0.1]]).tolist(), model.dual_gap_ <= 1e-6
    (['out', 'in'], True)
    """

    lam: float | str = field(default=DEFAULT_LAMBDA, kw_only=False)
    loss: str = "logistic"

    def _encoded(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, np.ndarray, str, Any]:
        """Return the validated samples, the encoded labels, the name of the loss, and the weights."""
        check_choice("loss", self.loss, OF_CLASSES)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = check_weights(X, sample_weight)
        self.classes_, codes = np.unique(y, return_inverse=True)
        used = np.unique(codes if weights is None else codes[weights > 0])
        if len(used) < 2:
            weighted = "" if weights is None else " of positive weight"
            raise InputError(
                f"{type(self).__name__} needs samples{weighted} of at least two classes; they are of one class, "
                f"{self.classes_[used].tolist()[0]!r}."
            )
        if len(self.classes_) == 2:
            return X, y, 2.0 * codes - 1.0, self.loss, weights
        if self.loss != "logistic":
            raise InputError(
                f"loss={self.loss!r} is for two classes, but y holds {len(self.classes_)}; "
                'use loss="logistic" (with more than two classes the softmax cross-entropy).'
            )
        return X, y, np.eye(len(self.classes_))[codes], "softmax-cross-entropy", weights

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the outputs of the network: (n_samples,) for two classes, else (n_samples, n_classes).

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        """
        return self._outputs(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of the largest score; in a tie that of the first class.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        """
        codes = codes_of(self._outputs(X))  # raises NotFittedError before ``classes_`` is missing
        return self.classes_[codes]

    def _exponents(self, X: Any) -> np.ndarray:
        """Return a score for each class; with two classes that of the first is zero."""
        scores = self._outputs(X)
        return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, (n_samples, n_classes).

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        """
        return softmax(self._exponents(X), axis=1)

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities, without underflow.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        """
        return log_softmax(self._exponents(X), axis=1)
