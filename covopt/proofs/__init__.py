"""Proofs of lower bounds as files, and their exact checker.

:mod:`covopt.proofs.checker` decides, in integers and fractions; :mod:`covopt.proofs.closing` makes closed covers,
which are not trusted. :mod:`covopt.proofs.proof` is the file. None of them imports a solver or an oracle.
"""

from covopt.proofs.proof import FirstProof, Proof

__all__ = ["FirstProof", "Proof"]
