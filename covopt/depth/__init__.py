"""Deep networks: representation cost, Jacobian rank and bottleneck structure (RK23, BN23)."""

from importlib import import_module
from typing import Any

from covopt.depth.bottleneck import (
    BottleneckStructure,
    balance,
    bottleneck_structure,
    right_sides,
    tangent_kernel_curvature,
    tangent_kernel_trace,
)
from covopt.depth.cost import representation_cost
from covopt.depth.fitting import DeepFit
from covopt.depth.layers import jacobian
from covopt.depth.linear import (
    Expansion,
    linear_cost,
    linear_expansion,
    linear_network,
    schatten,
    schatten_between,
)
from covopt.depth.ranks import JacobianRank, bottleneck_rank_up, jacobian_rank, ranks_at
from covopt.depth.solution import DeepSolution

# Names that only reproduce the papers; imported on first use, since the core does not need them.
_PAPERS: dict[str, str] = {
    **dict.fromkeys(("ExpansionEstimate", "estimate_expansion", "function_brackets"), "estimates"),
    **dict.fromkeys(("Tour", "rank_one_tour"), "tours"),
}

__all__ = [
    "BottleneckStructure",
    "DeepFit",
    "DeepSolution",
    "Expansion",
    "ExpansionEstimate",
    "JacobianRank",
    "Tour",
    "balance",
    "bottleneck_rank_up",
    "bottleneck_structure",
    "estimate_expansion",
    "function_brackets",
    "jacobian",
    "jacobian_rank",
    "linear_cost",
    "linear_expansion",
    "linear_network",
    "rank_one_tour",
    "ranks_at",
    "representation_cost",
    "right_sides",
    "schatten",
    "schatten_between",
    "tangent_kernel_curvature",
    "tangent_kernel_trace",
]


def __getattr__(name: str) -> Any:
    if name in _PAPERS:
        return getattr(import_module(f"covopt.experiments.{_PAPERS[name]}"), name)
    raise AttributeError(f"module 'covopt.depth' has no attribute {name!r}")
