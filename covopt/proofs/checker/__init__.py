"""The exact checker: integers and fractions only; no solver, no oracle, no compiled code below it."""

from covopt.proofs.checker.network import CheckedNetwork, check_network
from covopt.proofs.checker.theorem import CheckedBound, check_by_faces

__all__ = ["CheckedBound", "CheckedNetwork", "check_by_faces", "check_network"]
