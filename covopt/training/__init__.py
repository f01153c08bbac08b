"""Many small networks trained at once in torch, and held against the certified optimum (extra ``[torch]``)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> module that defines it, never one of that name: importing it would hide the function.
_PUBLIC: dict[str, str] = {
    "CrossCheck": "covopt.training.crosscheck",
    "Phase": "covopt.training.schedule",
    "Plateau": "covopt.experiments.plateau",
    "TrainingRun": "covopt.training.runner",
    "cross_check": "covopt.training.crosscheck",
    "plateau": "covopt.experiments.plateau",
    "recheck": "covopt.training.crosscheck",
    "train": "covopt.training.runner",
}

__all__ = [
    "CrossCheck", "Phase", "Plateau", "TrainingRun", "cross_check", "plateau", "recheck", "train",
]  # fmt: skip

if TYPE_CHECKING:
    from covopt.experiments.plateau import Plateau, plateau
    from covopt.training.crosscheck import CrossCheck, cross_check, recheck
    from covopt.training.runner import TrainingRun, train
    from covopt.training.schedule import Phase

else:

    def __getattr__(name: str) -> Any:
        if name in _PUBLIC:
            value = getattr(import_module(_PUBLIC[name]), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'covopt.training' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
