"""Public names of FL22's first reformulation: training over the hidden representations Z_1 … Z_L."""

from covopt.experiments.descent import DescentResult, projected_gradient_descent
from covopt.experiments.forces import Forces, Stationarity, forces, gradient, stationarity
from covopt.experiments.images import LayerImage
from covopt.experiments.representations import RepresentationProblem

__all__ = [
    "DescentResult", "Forces", "LayerImage", "RepresentationProblem", "Stationarity", "forces", "gradient",
    "projected_gradient_descent", "stationarity",
]  # fmt: skip
