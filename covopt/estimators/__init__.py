"""scikit-learn estimators; each fitted estimator has a certificate of optimality."""

from covopt.checks import required

required("sklearn", "covopt.estimators", "sklearn")

from covopt.estimators.cross_validation import ReLUClassifierCV, ReLURegressorCV  # noqa: E402
from covopt.estimators.networks import MinNormReLURegressor, ReLUClassifier, ReLURegressor  # noqa: E402

__all__ = ["MinNormReLURegressor", "ReLUClassifier", "ReLUClassifierCV", "ReLURegressor", "ReLURegressorCV"]
