"""The outcome of an instance."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import numpy as np

from covopt.errors import CovoptError

HELD, REFUTED, REFUSED, CRASHED = "held", "refuted", "refused", "crashed"


@dataclass(frozen=True)
class Outcome:
    """``held``, ``refuted``, ``refused`` (an error that covopt raises on purpose) or ``crashed``.

    ``slack`` is the relative distance of the claim from the adversary's own bound; NaN if there is none.
    """

    kind: str
    detail: str = ""
    slack: float = float("nan")


def held(slack: float = float("nan")) -> Outcome:
    return Outcome(HELD, "", slack)


def refuted(detail: str) -> Outcome:
    return Outcome(REFUTED, detail)


def judge(instance, rng: np.random.Generator) -> Outcome:
    """Run one instance; any exception other than covopt's own errors is a crash."""
    try:
        return instance(rng)
    except CovoptError as error:
        return Outcome(REFUSED, f"{type(error).__name__}: {error}"[:200])
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
        return Outcome(CRASHED, f"{type(error).__name__}: {error} ({where})"[:200])


def worst(outcomes: list[Outcome]) -> Outcome:
    """Return the first outcome that is refuted or crashed, else the first."""
    for kind in (REFUTED, CRASHED):
        for outcome in outcomes:
            if outcome.kind == kind:
                return outcome
    return outcomes[0]
