"""The pieces of work that are sent to a cluster, each with an answer that must not depend on where it ran."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import covopt
from covopt.arrangement.enumeration import iter_cells
from covopt.certificates.prove import problem_of
from covopt.oracles.cones import box_gauge
from covopt.parallel import spread_with_rechecks
from covopt.proofs import check_proof
from covopt.proofs.parts import in_parts


def noise(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal(n)


@cache
def _dual(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and a dual that is nearly optimal, where many neurons are nearly the best: the hard case for boxes."""
    X, y = noise(n, d)
    found = covopt.fit(
        X, y, lam="0.02max" if d > 5 else "0.01max", tol=0.1 if d > 5 else 0.05, random_state=0
    )
    return np.column_stack([X, np.ones(n)]), found.dual.ravel()


def boxes(size: str) -> Callable[[], Any]:
    rows, dual = _dual(*{"full": (40, 8), "medium": (40, 7), "small": (30, 5)}[size])
    return lambda: box_gauge(rows, dual, rtol=1e-6, max_nodes=200_000_000).upper_bound


def cells(size: str) -> Callable[[], Any]:
    X = np.column_stack([noise(150 if size == "full" else 80, 4)[0], np.ones(150 if size == "full" else 80)])
    return lambda: sum(len(block) for block in iter_cells(X, chunk_size=1 << 20))


def exact(size: str) -> Callable[[], Any]:
    X, y = noise(300 if size == "full" else 60, 2)
    found = covopt.min_norm(X, y)
    proof, problem = found.prove(), problem_of(found, found.data)
    dual = found.dual.reshape(-1)
    return lambda: check_proof(problem, dual, proof, cover_by=in_parts(spread_with_rechecks())).cover


WORK = {"boxes": boxes, "cells": cells, "exact": exact}
