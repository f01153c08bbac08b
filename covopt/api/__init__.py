"""Public entry points: each takes a table and returns a network with its certificate."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Name -> module that defines it; imported on first use.
_PUBLIC: dict[str, str] = {
    "fit": "covopt.api.fitting",
    "frank_wolfe": "covopt.api.cone",
    "lambda_max": "covopt.api.fitting",
    "min_norm": "covopt.api.fitting",
    "path": "covopt.api.solution_path",
}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'covopt.api' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
