"""The first reformulation of FL22: training over the hidden representations Z_1 … Z_L."""

from covopt.experiments.representations.descent import DescentResult, projected_gradient_descent
from covopt.experiments.representations.forces import (
    Forces,
    Stationarity,
    forces,
    gradient,
    stationarity,
)
from covopt.experiments.representations.images import LayerImage
from covopt.experiments.representations.problem import RepresentationProblem

__all__ = [
    "DescentResult",
    "Forces",
    "LayerImage",
    "RepresentationProblem",
    "Stationarity",
    "forces",
    "gradient",
    "projected_gradient_descent",
    "stationarity",
]
