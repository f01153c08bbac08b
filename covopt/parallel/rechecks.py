"""Answers of a cluster, some of them computed here again: for proofs, where an answer should not rest on belief."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from covopt.errors import ClusterError
from covopt.parallel.cluster import spread_over_cluster

ONE_IN = 64  # parts, and one of each call: what is left to this machine is less than a worker does

Spread = Callable[..., Iterator[Any]]


def spread_with_rechecks() -> Spread | None:
    """Return the active cluster's ``spread`` with a random sample of its parts computed here again; None without one.

    Examples
    --------
    >>> spread_with_rechecks() is None
    True
    """
    spread = spread_over_cluster()
    return None if spread is None else rechecked(spread)


def rechecked(spread: Spread) -> Spread:
    """Compute one part in :data:`ONE_IN` here as well, drawn anew for each call, while the others are waited for.

    A worker whose every answer is wrong is found with the first of its parts that is drawn; of answers that are wrong
    now and then most are not. The answer is that of the workers.

    Parameters
    ----------
    spread : callable
        As :meth:`covopt.parallel.cluster.Cluster.spread`.

    Raises
    ------
    ClusterError
        Where a worker's answer is another one.

    Examples
    --------
    >>> list(rechecked(lambda function, tasks: map(function, *zip(*tasks)))(pow, [(2, 3), (3, 2)]))
    [8, 9]
    >>> list(rechecked(lambda function, tasks: [0] * len(tasks))(pow, [(2, 3), (3, 2)]))
    Traceback (most recent call last):
    covopt.errors.ClusterError: a worker's answer is not this machine's: ...
    """

    def run(function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *shared: Any) -> Iterator[Any]:
        every = list(tasks)
        drawn = random.SystemRandom().sample(range(len(every)), min(len(every), 1 + len(every) // ONE_IN))
        given = [array for arrays in shared for array in arrays]
        for place, answer in enumerate(spread(function, every, *shared)):
            if place in drawn and function(*given, *every[place]) != answer:
                raise ClusterError(
                    f"a worker's answer is not this machine's: part {place + 1} of {len(every)} was computed on "
                    "both; leave the cluster out, and mistrust it."
                )
            yield answer

    return run
