"""The first reformulation of FL22: training over the hidden representations Z_1 … Z_L."""

from covopt.experiments.representations.descent import DescentResult, projected_gradient_descent
from covopt.experiments.representations.forces import Forces, NeuronRays, forces, gradient, neuron_rays
from covopt.experiments.representations.images import LayerImage, LayerRank
from covopt.experiments.representations.problem import RepresentationProblem
from covopt.experiments.representations.stationarity import Stationarity, stationarity

__all__ = [
    "DescentResult",
    "Forces",
    "LayerImage",
    "LayerRank",
    "NeuronRays",
    "RepresentationProblem",
    "Stationarity",
    "forces",
    "gradient",
    "neuron_rays",
    "projected_gradient_descent",
    "stationarity",
]
