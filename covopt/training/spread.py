"""Many networks on a cluster: some seeds to a part, each part trained as it would be on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.data.tabular import to_matrix
from covopt.parallel import active_cluster, map_tasks
from covopt.training.grid import make_grid
from covopt.training.loop import TrainingState
from covopt.training.results import TrainingRun
from covopt.training.schedule import make_schedule

if TYPE_CHECKING:
    import pandas as pd

NETWORKS = 16  # of a part: fewer spend their time on calls, more leave workers idle in the end


def goes_out(device: Any, checkpoint: Any) -> bool:
    """Whether networks are trained on a cluster: on its processors, without a checkpoint, which is of one run.

    Examples
    --------
    >>> goes_out("cpu", None)  # no cluster here
    False
    """
    return active_cluster() is not None and checkpoint is None and str(device) == "cpu"


def train_in_parts(
    train: Callable[..., TrainingRun],
    X: Any,
    Y: Any,
    *,
    widths: Any,
    lam: Any,
    learning_rate: Any,
    seeds: Any,
    schedule: Any,
    start: Any,
    random_state: int,
    callback: Callable[[TrainingState], Any] | None,
    **options: Any,
) -> TrainingRun:
    """Train as :func:`covopt.training.train` does, with :data:`NETWORKS` networks or one seed to a part.

    Parameters
    ----------
    train : callable
        That function; workers call it.
    X, Y, widths, lam, learning_rate, seeds, schedule, start, random_state
        Its arguments; a network's start and draws depend on its own seed and width alone.
    callback : callable, optional
        Called after every part; with a true answer the networks that have come are what is returned.
    **options
        More of its arguments.

    Returns
    -------
    TrainingRun
        Its networks in the order of that function. Sums over a batch are rounded as the batch is cut: networks are
        those of one machine to rounding, and descent may enlarge it.
    """
    began = time.perf_counter()
    members = make_grid(widths, lam, learning_rate, seeds)
    own = list(dict.fromkeys(member.seed for member in members))
    kinds, step = len(members) // len(own), max(1, NETWORKS * len(own) // len(members))
    cuts = list(range(0, len(own), step))
    options |= {
        "widths": widths, "lam": lam, "learning_rate": learning_rate, "schedule": schedule,
        "random_state": random_state,
    }  # fmt: skip
    tasks = []
    for begin in cuts:
        part = own[begin : begin + step]
        told = {"seeds": part, "start": _starts_of(start, begin, len(part), len(own), kinds)}
        tasks.append((train, Y, options | told))
    planned = sum(phase.steps for phase in make_schedule(schedule))
    runs: list[TrainingRun] = []
    done, best = 0, float("nan")
    for run in map_tasks(_train_part, tasks, shared=(np.ascontiguousarray(to_matrix("X", X)[0]),)):
        runs.append(run)
        done += len(run)
        best = float(np.fmin.reduce(run.objectives, initial=best))
        state = TrainingState(
            0, "networks", planned * done // len(members), planned, len(members) - done, len(members), best,
            time.perf_counter() - began,
        )  # fmt: skip
        if callback is not None and callback(state) and done < len(members):
            break
    return replace(joined(runs, kinds), time_s=time.perf_counter() - began)


def joined(runs: Sequence[TrainingRun], kinds: int) -> TrainingRun:
    """Put runs of the same widths, λ and rates and of other seeds together, seeds fastest.

    Parameters
    ----------
    runs : sequence of TrainingRun
    kinds : int
        Networks of one seed.
    """
    if len(runs) == 1:
        return runs[0]
    order = [
        (place, kind * (len(run) // kinds) + seed)
        for kind in range(kinds)
        for place, run in enumerate(runs)
        for seed in range(len(run) // kinds)
    ]

    def several(name: str) -> list[Any]:
        return [getattr(runs[place], name)[i] for place, i in order]

    return replace(
        runs[0], members=several("members"), weights=several("weights"), status=several("status"),
        rates=several("rates"), steps=np.array(several("steps")), times=np.array(several("times")),
        gradient_norms=np.array(several("gradient_norms")), floors=np.array(several("floors")),
        history=_histories(runs, order),
    )  # fmt: skip


def _histories(runs: Sequence[TrainingRun], order: list[tuple[int, int]]) -> pd.DataFrame | None:
    """Put histories together, with the numbers that networks have in the joined run."""
    if runs[0].history is None:
        return None
    import pandas as pd

    new = {old: index for index, old in enumerate(order)}
    frames = [
        run.history.assign(network=[new[place, int(i)] for i in run.history["network"]])
        for place, run in enumerate(runs)
        if run.history is not None
    ]
    return pd.concat(frames).sort_values(["network", "step"], ignore_index=True)


def _starts_of(start: Any, begin: int, count: int, n_seeds: int, kinds: int) -> Any:
    """Return the starts of some seeds where there is one for each network."""
    if isinstance(start, TrainingRun):
        start = [start.network(i) for i in range(len(start))]
    if not isinstance(start, Sequence) or len(start) != kinds * n_seeds:
        return start  # one for all, or what will be refused
    return [start[kind * n_seeds + begin + seed] for kind in range(kinds) for seed in range(count)]


def _train_part(
    X: np.ndarray, train: Callable[..., TrainingRun], Y: Any, options: dict[str, Any]
) -> TrainingRun:
    return train(X, Y, **options)
