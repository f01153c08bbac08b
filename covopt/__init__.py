"""covopt: exact minimal-norm ReLU networks, the proof that they are optimal, and its checker."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> module that defines it; imported on first use so that `import covopt` stays light.
_PUBLIC: dict[str, str] = {
    "CPRankCertificate": "covopt.completely_positive.certificate",
    "Checkpoint": "covopt.checks.checkpoints",
    "Data": "covopt.data",
    "DeepReLUNetwork": "covopt.network",
    "Gap": "covopt.meter",
    "MinNormReLURegressor": "covopt.estimators",
    "Proof": "covopt.proofs.proof",
    "ReLUClassifier": "covopt.estimators",
    "ReLUClassifierCV": "covopt.estimators",
    "ReLUNetwork": "covopt.network",
    "ReLURegressor": "covopt.estimators",
    "ReLURegressorCV": "covopt.estimators",
    "Solution": "covopt.solution",
    "Status": "covopt.status",
    "Verification": "covopt.verification",
    "a_priori_bounds": "covopt.certificates.a_priori",
    "cell_lp": "covopt.conic.cell_lp",
    "cone_membership": "covopt.experiments.membership",
    "count_cells": "covopt.arrangement.counting",
    "covariance": "covopt.experiments.covariance",
    "cp_rank": "covopt.completely_positive.rank",
    "cross_check": "covopt.training.crosscheck",
    "enumerate_cells": "covopt.arrangement.enumeration",
    "fit": "covopt.api",
    "frank_wolfe": "covopt.api",
    "gap": "covopt.meter",
    "lambda_max": "covopt.api",
    "load": "covopt.solution",
    "min_norm": "covopt.api",
    "path": "covopt.api",
    "plateau": "covopt.experiments.plateau",
    "price": "covopt.oracles.pricing",
    "representation_cost": "covopt.depth.cost",
    "random_triangle_free": "covopt.completely_positive.graphs",
    "tight_instance": "covopt.experiments.tight_instance",
    "sigma_rank": "covopt.widths.sigma_rank",
    "sparsity_bounds": "covopt.widths.bounds",
    "verify": "covopt.verification",
}

# Sub-packages that are used by their own name, as in covopt.training.train.
_PACKAGES = ("depth", "explore", "representations", "training")

__all__ = ["__version__", *sorted([*_PUBLIC, *_PACKAGES])]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"covopt.{name}")
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'covopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_PACKAGES})
