"""covopt: exact minimal-norm ReLU networks, the proof that they are optimal, and its checker."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it; imported on first use so that `import covopt` stays light.
_PUBLIC: dict[str, str] = {
    name: f"covopt.{module}"
    for module, names in {
        "api.cone": "frank_wolfe",
        "api.fitting": "fit lambda_max min_norm",
        "api.solution_path": "path",
        "arrangement.counting": "count_cells",
        "arrangement.enumeration": "enumerate_cells",
        "certificates.a_priori": "a_priori_bounds",
        "completely_positive.certificate": "CPRankCertificate",
        "completely_positive.graphs": "random_triangle_free",
        "completely_positive.rank": "cp_rank",
        "conic.cell_lp": "cell_lp",
        "data": "Data",
        "depth.cost": "representation_cost",
        "errors": "Status",
        "estimators": "MinNormReLURegressor ReLUClassifier ReLUClassifierCV ReLURegressor ReLURegressorCV",
        "experiments.covariance": "covariance",
        "experiments.membership": "cone_membership",
        "experiments.tight_instance": "tight_instance",
        "meter": "Gap gap",
        "network": "DeepReLUNetwork ReLUNetwork",
        "oracles.pricing": "price",
        "proofs.proof": "Proof",
        "solution": "Solution load",
        "training.crosscheck": "cross_check",
        "training.sweep": "plateau",
        "verification": "Verification verify",
        "widths": "sparsity_bounds",
        "widths.sigma_rank": "sigma_rank",
    }.items()
    for name in names.split()
}

# Sub-packages that are used by their own name, as in covopt.training.train.
_PACKAGES = ("depth", "explore", "representations", "training")

__all__ = [  # noqa: RUF022
    "__version__", "CPRankCertificate", "Data", "DeepReLUNetwork", "Gap",
    "MinNormReLURegressor", "Proof", "ReLUClassifier", "ReLUClassifierCV", "ReLUNetwork", "ReLURegressor",
    "ReLURegressorCV", "Solution", "Status", "Verification", "a_priori_bounds", "cell_lp",
    "cone_membership", "count_cells", "covariance", "cp_rank", "cross_check", "depth", "enumerate_cells",
    "explore", "fit", "frank_wolfe", "gap", "lambda_max", "load", "min_norm", "path", "plateau", "price",
    "random_triangle_free", "representation_cost", "representations", "sigma_rank", "sparsity_bounds",
    "tight_instance", "training", "verify",
]  # fmt: skip

if TYPE_CHECKING:  # what editors and type checkers see, which run no __getattr__
    from covopt import depth, explore, representations, training
    from covopt.api.cone import frank_wolfe
    from covopt.api.fitting import fit, lambda_max, min_norm
    from covopt.api.solution_path import path
    from covopt.arrangement.counting import count_cells
    from covopt.arrangement.enumeration import enumerate_cells
    from covopt.certificates.a_priori import a_priori_bounds
    from covopt.completely_positive.certificate import CPRankCertificate
    from covopt.completely_positive.graphs import random_triangle_free
    from covopt.completely_positive.rank import cp_rank
    from covopt.conic.cell_lp import cell_lp
    from covopt.data import Data
    from covopt.depth.cost import representation_cost
    from covopt.estimators import MinNormReLURegressor, ReLUClassifier, ReLUClassifierCV  # isort: split
    from covopt.errors import Status
    from covopt.estimators import ReLURegressor, ReLURegressorCV
    from covopt.experiments.covariance import covariance
    from covopt.experiments.membership import cone_membership
    from covopt.experiments.tight_instance import tight_instance
    from covopt.meter import gap
    from covopt.meter.report import Gap
    from covopt.network import DeepReLUNetwork, ReLUNetwork
    from covopt.oracles.pricing import price
    from covopt.proofs.proof import Proof
    from covopt.solution import Solution, load
    from covopt.training.crosscheck import cross_check
    from covopt.training.sweep import plateau
    from covopt.verification import Verification, verify
    from covopt.widths import sparsity_bounds
    from covopt.widths.sigma_rank import sigma_rank

else:

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
