"""The exact checker: integers and fractions only; no solver, no oracle, no compiled code below it."""

from covopt.proofs.checker.dual import CheckedBound, CheckedNetwork, check_by_faces, check_network

__all__ = ["CheckedBound", "CheckedNetwork", "check_by_faces", "check_network"]
