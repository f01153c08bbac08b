"""What the cvxpy backends can do, as data; which of them answer here; one call that runs a program on one.

A new backend is a row of :data:`BACKENDS`. Every status that a backend can end with is a row of
:data:`OUTCOMES`. cvxpy is always told which solver to use: left to choose, it takes an installed MOSEK first,
and without a licence that raises MOSEK's own error class in the middle of the user's work.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from covopt.checks.optional import is_installed, required
from covopt.errors import InputError, SolverError, SolverFallbackWarning, SolverUnavailableError

if TYPE_CHECKING:
    import cvxpy
    import numpy as np


@dataclass(frozen=True)
class Backend:
    """One solver that cvxpy can drive.

    Attributes
    ----------
    name : str
        As the user writes it, in capitals.
    constant : str
        Name of the solver's constant in cvxpy.
    module : str
        Module that must be importable.
    cones : frozenset of str
        Subset of {"linear", "second-order", "semidefinite"}.
    tolerance_options : tuple of str
        Options that receive the tolerance.
    time_option : str
        Option that receives the time limit in seconds.
    fixed_options : dict
        Options that are always passed.
    nested : str or None
        Key under which cvxpy expects the options, for solvers that take them as one dictionary.
    tightest_tol : float
        Tolerances below this one are raised to it: the backend would only stop with an error.
    needs_licence : bool
        Whether installed does not mean usable, so that a tiny problem is solved once to find out.
    fallback : str or None
        Backend that takes its place when it does not answer.
    """

    name: str
    constant: str
    module: str
    cones: frozenset[str]
    tolerance_options: tuple[str, ...]
    time_option: str
    fixed_options: dict[str, Any] = field(default_factory=dict)
    nested: str | None = None
    tightest_tol: float = 1e-12
    needs_licence: bool = False
    fallback: str | None = None

    def options(self, tol: float, time_limit_s: float | None = None) -> dict[str, Any]:
        """Return the keyword arguments of ``cvxpy.Problem.solve`` for this tolerance and time limit."""
        tol = max(tol, self.tightest_tol)
        options = {**dict.fromkeys(self.tolerance_options, tol), **self.fixed_options}
        if time_limit_s is not None:
            options[self.time_option] = float(time_limit_s)
        return {self.nested: options} if self.nested else options


_ALL_CONES = frozenset({"linear", "second-order", "semidefinite"})

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend(
            name="CLARABEL",
            constant="CLARABEL",
            module="clarabel",
            cones=_ALL_CONES,
            tolerance_options=("tol_gap_abs", "tol_gap_rel", "tol_feas"),
            time_option="time_limit",
            fixed_options={"max_iter": 500},
        ),
        Backend(
            name="SCS",
            constant="SCS",
            module="scs",
            cones=_ALL_CONES,
            tolerance_options=("eps_abs", "eps_rel"),
            time_option="time_limit_secs",
            fixed_options={"max_iters": 200_000},
            tightest_tol=1e-8,  # first order: each further digit costs as much as all before it
        ),
        Backend(
            name="MOSEK",
            constant="MOSEK",
            module="mosek",
            cones=_ALL_CONES,
            tolerance_options=tuple(
                f"MSK_DPAR_INTPNT_{kind}TOL_{what}"
                for kind in ("", "CO_", "QO_")
                for what in ("PFEAS", "DFEAS", "REL_GAP")
            ),
            time_option="MSK_DPAR_OPTIMIZER_MAX_TIME",
            nested="mosek_params",
            needs_licence=True,
            fallback="CLARABEL",
        ),
    )
}


@dataclass(frozen=True)
class Outcome:
    """What a backend's status means for the caller: is there a point, and what is to be said about it."""

    has_point: bool
    message: str


OUTCOMES: dict[str, Outcome] = {
    "optimal": Outcome(True, "solved to the backend's tolerance"),
    "optimal_inaccurate": Outcome(True, "stopped near the optimum, before the backend's tolerance"),
    "user_limit": Outcome(True, "stopped at the limit on time or iterations"),
    "infeasible": Outcome(False, "the backend found the program infeasible"),
    "infeasible_inaccurate": Outcome(False, "the backend believes that the program is infeasible"),
    "unbounded": Outcome(False, "the backend found the program unbounded"),
    "unbounded_inaccurate": Outcome(False, "the backend believes that the program is unbounded"),
    "infeasible_or_unbounded": Outcome(False, "the backend found the program infeasible or unbounded"),
    "solver_error": Outcome(False, "the backend failed"),
}


@dataclass(frozen=True)
class BackendRun:
    """How a run ended; the point itself is in the cvxpy variables.

    Attributes
    ----------
    backend : str
    status : str
        A key of :data:`OUTCOMES`.
    time_s : float
        Wall-clock time of the whole call.
    backend_time_s : float or None
        Time that the backend reports for itself.
    iterations : int or None
    """

    backend: str
    status: str
    time_s: float
    backend_time_s: float | None
    iterations: int | None

    @property
    def message(self) -> str:
        """The status in words."""
        return OUTCOMES[self.status].message


@cache
def why_unavailable(name: str) -> str | None:
    """Return why a backend of :data:`BACKENDS` cannot be used in this process, or None when it can.

    A backend that needs a licence is asked to solve a tiny problem, once per process.
    """
    backend = BACKENDS[name]
    if not is_installed("cvxpy"):
        return "it needs cvxpy: pip install 'covopt-nn[conic]'"
    try:
        if find_spec(backend.module) is None:
            return "it is not installed"
    except ValueError:  # a module placed in sys.modules without a spec
        pass
    return _probe(backend) if backend.needs_licence else None


def _probe(backend: Backend) -> str | None:
    cp = required("cvxpy", "a cone program", "conic")
    point = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.norm(point, 2)), [point[0] + point[1] == 1])
    try:
        problem.solve(solver=getattr(cp, backend.constant))
    except Exception as error:  # licensing errors have classes of the vendor's own
        return f"it did not solve a tiny problem ({type(error).__name__}: {error})".replace("\n", " ")
    return None if problem.status == "optimal" else f"a tiny problem ended as {problem.status!r}"


def available_backends(cone: str = "linear") -> tuple[str, ...]:
    """Return the names of the backends that take this kind of cone and answer here."""
    return tuple(
        name for name, backend in BACKENDS.items() if cone in backend.cones and why_unavailable(name) is None
    )


WARNED: set[str] = set()


def resolve_backend(name: str, *, cone: str = "second-order") -> Backend:
    """Return the backend that will run for a name given by the user.

    Parameters
    ----------
    name : str
        A key of :data:`BACKENDS`, in any case.
    cone : {"linear", "second-order", "semidefinite"}
        The hardest kind of cone in the program.

    Raises
    ------
    InputError
        The name is unknown, or the backend does not take this kind of cone.
    SolverUnavailableError
        The backend does not answer and has no fallback.

    Warns
    -----
    SolverFallbackWarning
        The backend does not answer and its fallback takes its place; once per process and backend.
    """
    backend = BACKENDS.get(name.upper()) if isinstance(name, str) else None
    if backend is None or cone not in backend.cones:
        problem = "unknown backend" if backend is None else f"no {cone} cones in backend"
        raise InputError(f"{problem} {name!r}; available here: {', '.join(available_backends(cone))}")
    required("cvxpy", f"the solver {backend.name}", "conic")
    reason = why_unavailable(backend.name)
    if reason is None:
        return backend
    if backend.fallback is None:
        others = ", ".join(available_backends(cone)) or "none"
        raise SolverUnavailableError(f"{backend.name} cannot be used: {reason}; available here: {others}")
    if backend.name not in WARNED:
        WARNED.add(backend.name)
        warnings.warn(
            f"{backend.name} cannot be used: {reason}; {backend.fallback} takes its place",
            SolverFallbackWarning,
            stacklevel=3,
        )
    return resolve_backend(backend.fallback, cone=cone)


def run_backend(
    problem: cvxpy.Problem,
    backend: Backend,
    *,
    tol: float,
    time_limit_s: float | None = None,
    **cvxpy_options: Any,
) -> BackendRun:
    """Solve a cvxpy problem on a backend that :func:`resolve_backend` returned.

    Parameters
    ----------
    problem : cvxpy.Problem
    backend : Backend
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
    start = time.perf_counter()
    options = {**backend.options(tol, time_limit_s), **cvxpy_options}
    errors: tuple[type[Exception], ...] = (cp.error.SolverError, *_native_errors(backend))
    with warnings.catch_warnings():
        # The status says the same, and is kept.
        warnings.filterwarnings("ignore", message=".*[Ss]olution may be inaccurate.*")
        warnings.filterwarnings("ignore", message=".*terminated by time limit.*")
        try:
            problem.solve(solver=getattr(cp, backend.constant), **options)
        except errors as error:
            raise SolverError(
                f"{backend.name} stopped without a usable point ({error}); try another backend "
                f"({', '.join(available_backends())}) or a looser tolerance than {tol:g}"
            ) from error
    elapsed = time.perf_counter() - start
    status = problem.status if problem.status in OUTCOMES else "solver_error"
    outcome = OUTCOMES[status]
    if not outcome.has_point or any(variable.value is None for variable in problem.variables()):
        raise SolverError(f"{backend.name} ended with status {problem.status!r}: {outcome.message}")
    stats = problem.solver_stats
    iterations = getattr(stats, "num_iters", None)
    return BackendRun(
        backend=backend.name,
        status=status,
        time_s=elapsed,
        backend_time_s=getattr(stats, "solve_time", None),
        iterations=None if iterations is None else int(iterations),
    )


def value_of(variable: cvxpy.Variable) -> np.ndarray:
    """Return the value that a run left in a variable."""
    if variable.value is None:
        raise SolverError(f"the backend left no value in {variable.name()}")
    return variable.value


def _native_errors(backend: Backend) -> tuple[type[Exception], ...]:
    """Exception classes of the solver's own module: a floating licence can vanish after the probe."""
    classes = (getattr(import_module(backend.module), name, None) for name in ("Error", "MosekException"))
    return tuple(cls for cls in classes if isinstance(cls, type) and issubclass(cls, Exception))
