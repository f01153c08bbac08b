"""The cvxpy backends, as data; which of them answer here; one call that runs a program on one.

cvxpy is always told which solver to use: left to choose, it takes an installed MOSEK first, and without a licence
that raises MOSEK's own error class in the middle of the user's work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from covopt.checks.optional import is_installed, required
from covopt.errors import InputError, SolverError, SolverFallbackWarning, SolverUnavailableError

if TYPE_CHECKING:
    import cvxpy
    import numpy as np

Options = dict[str, Any]


def _clarabel(tol: float, seconds: float | None) -> Options:
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tol)
    return {**tolerances, "max_iter": 500} | ({} if seconds is None else {"time_limit": seconds})


def _scs(tol: float, seconds: float | None) -> Options:
    tol = max(tol, 1e-8)  # first order: each further digit costs as much as all before it
    return {"eps_abs": tol, "eps_rel": tol, "max_iters": 200_000} | (
        {} if seconds is None else {"time_limit_secs": seconds}
    )


def _mosek(tol: float, seconds: float | None) -> Options:
    kinds = [f"{kind}TOL_{what}" for kind in ("", "CO_", "QO_") for what in ("PFEAS", "DFEAS", "REL_GAP")]
    limits = {} if seconds is None else {"MSK_DPAR_OPTIMIZER_MAX_TIME": seconds}
    return {"mosek_params": {f"MSK_DPAR_INTPNT_{kind}": tol for kind in kinds} | limits}


BACKENDS: dict[str, Callable[[float, float | None], Options]] = {
    "CLARABEL": _clarabel, "SCS": _scs, "MOSEK": _mosek,
}  # fmt: skip
FALLBACKS = {"MOSEK": "CLARABEL"}  # of what needs a licence, so that installed does not mean usable
TIGHTEST = 1e-12  # tolerances below this one are raised to it: backends would only stop with an error
WARNED: set[str] = set()


@cache
def why_unavailable(name: str) -> str | None:
    """Return why a backend of :data:`BACKENDS` cannot be used in this process, or None when it can.

    A backend that needs a licence is asked to solve a tiny problem, once per process.
    """
    if not is_installed("cvxpy"):
        return "it needs cvxpy: pip install '.[conic]' in the checkout"
    cp = required("cvxpy", "a cone program", "conic")
    if name not in cp.installed_solvers():
        return "it is not installed"
    if name not in FALLBACKS:
        return None
    point = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.norm(point, 2)), [point[0] + point[1] == 1])
    try:
        problem.solve(solver=name)
    except Exception as error:  # licensing errors have classes of the vendor's own
        return f"it did not solve a tiny problem ({type(error).__name__}: {error})".replace("\n", " ")
    return None if problem.status == "optimal" else f"a tiny problem ended as {problem.status!r}"


def available_backends() -> tuple[str, ...]:
    """Return the names of the backends that answer here."""
    return tuple(name for name in BACKENDS if why_unavailable(name) is None)


def resolve_backend(name: str) -> str:
    """Return the backend that will run for a name given by the user, in any case.

    Raises
    ------
    InputError
        The name is unknown.
    SolverUnavailableError
        The backend does not answer and has no fallback.

    Warns
    -----
    SolverFallbackWarning
        The backend does not answer and its fallback takes its place; once per process and backend.
    """
    found = name.upper() if isinstance(name, str) else ""
    if found not in BACKENDS:
        raise InputError(f"unknown backend {name!r}; available here: {', '.join(available_backends())}")
    required("cvxpy", f"the solver {found}", "conic")
    reason, fallback = why_unavailable(found), FALLBACKS.get(found)
    if reason is None:
        return found
    if fallback is None:
        others = ", ".join(available_backends()) or "none"
        raise SolverUnavailableError(f"{found} cannot be used: {reason}; available here: {others}")
    if found not in WARNED:
        WARNED.add(found)
        warnings.warn(
            f"{found} cannot be used: {reason}; {fallback} takes its place",
            SolverFallbackWarning,
            stacklevel=3,
        )
    return resolve_backend(fallback)


def run_backend(
    problem: cvxpy.Problem,
    backend: str,
    *,
    tol: float,
    time_limit_s: float | None = None,
    **cvxpy_options: Any,
) -> None:
    """Solve a cvxpy problem on a backend that :func:`resolve_backend` returned.

    Parameters
    ----------
    problem : cvxpy.Problem
    backend : str
    tol : float
        Asked of the backend in its own sense; the caller recomputes what was reached.
    time_limit_s : float, optional
    **cvxpy_options
        Further keyword arguments of ``cvxpy.Problem.solve``.

    Raises
    ------
    SolverError
        The backend left no point; the message carries its status.
    """
    cp = required("cvxpy", "a cone program", "conic")
    seconds = None if time_limit_s is None else float(time_limit_s)
    options = BACKENDS[backend](max(tol, TIGHTEST), seconds) | cvxpy_options
    with warnings.catch_warnings():
        # The status says the same, and is kept.
        warnings.filterwarnings("ignore", message=".*[Ss]olution may be inaccurate.*")
        warnings.filterwarnings("ignore", message=".*terminated by time limit.*")
        try:
            problem.solve(solver=backend, **options)
        except Exception as error:
            # a floating licence can vanish after the probe; the vendor's error classes are its own
            if not isinstance(error, cp.error.SolverError) and backend not in FALLBACKS:
                raise
            raise SolverError(
                f"{backend} stopped without a usable point ({error}); try another backend "
                f"({', '.join(available_backends())}) or a looser tolerance than {tol:g}"
            ) from error
    if problem.status not in cp.settings.SOLUTION_PRESENT or any(
        v.value is None for v in problem.variables()
    ):
        raise SolverError(f"{backend} ended with status {problem.status!r}")


def value_of(variable: cvxpy.Variable) -> np.ndarray:
    """Return the value that a run left in a variable."""
    if variable.value is None:
        raise SolverError(f"the backend left no value in {variable.name()}")
    return variable.value
