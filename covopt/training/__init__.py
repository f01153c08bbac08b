"""Many small networks trained at once in torch, and held against the certified optimum (extra ``[torch]``)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Public name -> module that defines it, never one of that name: importing it would hide the function.
_PUBLIC: dict[str, str] = {
    "CrossCheck": "covopt.training.crosscheck",
    "Phase": "covopt.training.schedule",
    "Plateau": "covopt.experiments.plateau",
    "TrainingRun": "covopt.training.results",
    "cross_check": "covopt.training.crosscheck",
    "plateau": "covopt.experiments.plateau",
    "recheck": "covopt.training.contradiction",
    "train": "covopt.training.runner",
}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'covopt.training' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
