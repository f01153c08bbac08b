"""The exact checker: integers and fractions only; no solver, no oracle, no compiled code below it."""

from covopt.proofs.checker.dual import CheckedBound, check_by_faces
from covopt.proofs.checker.network import CheckedNetwork, check_network

__all__ = ["CheckedBound", "CheckedNetwork", "check_by_faces", "check_network"]
