"""The first reformulation of FL22: training over the hidden representations Z_1 … Z_L."""

from covopt.representations.descent import DescentResult, projected_gradient_descent
from covopt.representations.forces import Forces, forces, gradient
from covopt.representations.images import LayerImage, LayerRank
from covopt.representations.neuron_rays import NeuronRays, neuron_rays
from covopt.representations.problem import RepresentationProblem
from covopt.representations.stationarity import Stationarity, stationarity

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
