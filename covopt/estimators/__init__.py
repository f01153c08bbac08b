"""scikit-learn estimators; each fit carries the certificate of its optimality."""

from covopt.estimators.classification import ReLUClassifier
from covopt.estimators.cross_validation import ReLUClassifierCV, ReLURegressorCV
from covopt.estimators.regression import MinNormReLURegressor, ReLURegressor

__all__ = ["MinNormReLURegressor", "ReLUClassifier", "ReLUClassifierCV", "ReLURegressor", "ReLURegressorCV"]
