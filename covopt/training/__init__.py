"""Many small networks trained at once in torch, and held against the certified optimum (extra ``[torch]``)."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# Public name -> module that defines it; torch is imported with the first of them.
_PUBLIC: dict[str, str] = {
    "CrossCheck": "covopt.training.cross_check",
    "Phase": "covopt.training.schedule",
    "Plateau": "covopt.training.plateau",
    "TrainingRun": "covopt.training.results",
    "cross_check": "covopt.training.cross_check",
    "plateau": "covopt.training.plateau",
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


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # importing covopt.training.cross_check would put the module in the place of the function of that name
        if not (name in _PUBLIC and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
