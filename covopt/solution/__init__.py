"""What a solve returns: the network, its certificate, and the file that carries both."""

from covopt.solution.content import load
from covopt.solution.solution import Solution

__all__ = ["Solution", "load"]
