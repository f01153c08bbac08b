"""Networks, shallow and deep, and their export to files and frameworks."""

from covopt.network.base import check_inputs
from covopt.network.deep import DeepReLUNetwork
from covopt.network.shallow import ReLUNetwork

__all__ = ["DeepReLUNetwork", "ReLUNetwork", "check_inputs"]
