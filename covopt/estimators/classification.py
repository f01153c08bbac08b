"""The classifier: training with weight decay on a loss of classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from covopt.api.lambdas import DEFAULT_LAMBDA
from covopt.checks.validation import check_choice
from covopt.data.labels import codes_of
from covopt.errors import InputError
from covopt.estimators.base import LossEstimator, check_weights

LOSSES = ("logistic", "hinge", "squared-hinge")


def _gives_probabilities(estimator: ReLUClassifier) -> bool:
    if estimator.loss != "logistic":
        raise AttributeError(f'loss={estimator.loss!r} gives no probabilities; use loss="logistic"')
    return True


class ReLUClassifier(ClassifierMixin, LossEstimator):
    r"""A two-layer ReLU network trained with weight decay to its global optimum on a loss of classification.

    .. math::

        \min_f \; \sum_i s_i\, \ell(f(x_i), y_i) + \lambda \|W\|^2

    with ℓ = log(1 + exp(−yf)) for two classes (y = ±1), the softmax cross-entropy for more, or a hinge; s are the
    sample weights divided by their sum. Solved by :func:`covopt.fit`; the fit stops when the relative duality gap
    (objective − lower bound)/objective is at most ``tol``, recomputed from the training data.

    Parameters
    ----------
    lam : float or str
        λ > 0, or a share of :func:`covopt.lambda_max` as in ``"0.03max"``; ``"cv"``: chosen by cross-validation.
    loss : {"logistic", "hinge", "squared-hinge"}
        The hinges are for two classes, and give no probabilities.
    bias, output_bias, tol, time_limit_s, random_state
        As for :class:`MinNormReLURegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        In the order of the columns of ``predict_proba``.
    network_, solution_, certificate_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ReLURegressor`; the network's outputs are the scores of ``decision_function``.

    Warns
    -----
    NotCertifiedWarning
        When the gap is above ``tol``.

    Examples
    --------
    >>> model = ReLUClassifier(lam=0.01).fit([[-1.0], [0.0], [1.0]], ["out", "in", "out"])
    >>> model.predict([[-2.0], [0.1]]).tolist(), model.dual_gap_ <= 1e-6
    (['out', 'in'], True)
    """

    def __init__(
        self,
        lam: float | str = DEFAULT_LAMBDA,
        *,
        loss: str = "logistic",
        bias: float = 1.0,
        output_bias: str = "none",
        tol: float = 1e-6,
        time_limit_s: float | None = None,
        random_state: Any = None,
    ):
        self._set(locals())

    def _encoded(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, np.ndarray, str, Any]:
        """Return the validated samples, their labels as targets of a loss, its name, and the weights."""
        check_choice("loss", self.loss, LOSSES)
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
        """Return the label of the largest score, of the first class in a tie.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        """
        return self.classes_[codes_of(self._outputs(X))]

    def _exponents(self, X: Any) -> np.ndarray:
        """Return a score for each class, of two classes zero for the first."""
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
        """Return the logarithms of the probabilities, which do not underflow.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        """
        return log_softmax(self._exponents(X), axis=1)
