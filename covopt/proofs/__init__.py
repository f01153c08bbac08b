"""Proofs of lower bounds as files, and their exact checker.

:mod:`covopt.proofs.checker` decides, in integers and fractions; :mod:`covopt.proofs.choice` advises it in floating
point and is not trusted; :mod:`covopt.proofs.proof` is the file. None of them imports a solver or an oracle.
"""

from covopt.proofs.checker import CheckedBound, CheckedNetwork, check_by_faces, check_network, check_proof
from covopt.proofs.problem import Problem
from covopt.proofs.proof import Proof

__all__ = [
    "CheckedBound",
    "CheckedNetwork",
    "Problem",
    "Proof",
    "check_by_faces",
    "check_network",
    "check_proof",
]
