"""Limits, signals and memory on tables of ten to five thousand rows, in seconds of the processor."""

import os
import signal
import warnings

import numpy as np
import pytest

import covopt
from covopt.errors import CovoptWarning
from covopt.limits import HURRY_S, now
from tests.cases import drawn

SLOW = pytest.mark.slow
BUSY = 2.0  # seconds of a processor that others use, too, for one of an idle machine
posix = pytest.mark.skipif(os.name != "posix", reason="signals and clocks of POSIX")


def table(n, d, seed=0):
    """Normal points; noise in the plane, a sum of kinks and noise beyond."""
    rng, X = drawn(seed, (n, d))
    noise = rng.standard_normal(n)
    return X, noise if d <= 2 else np.abs(X).sum(axis=1) + 0.3 * noise


def asked(question, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CovoptWarning)
        if question == "solve":
            return covopt.min_norm(X, y, **options)
        return covopt.fit(X, y, lam="0.01max", **options)


@pytest.fixture(scope="module")
def kernels():
    """Kernels that are loaded, so that their seconds are not those of an answer."""
    for d in (2, 3, 12):
        for question in ("solve", "fit"):
            asked(question, *table(40, d), time_limit_s=0.05)


@pytest.fixture
def compiled(kernels, processor_clock):
    """Loaded kernels, and a clock that other work on the machine does not move."""


@posix
@pytest.mark.parametrize(
    ("question", "d", "n", "limit"),
    [
        ("solve", 3, 2000, 0.25),
        *(pytest.param(question, d, 3000, 1.0, marks=SLOW) for question in ("solve", "fit") for d in (3, 12)),
    ],
)
def test_a_second_for_3000_rows_takes_three_at_most(compiled, question, d, n, limit):
    """They took 6.3 and 28 seconds of the processor, without a clock in exact outputs and least norms."""
    X, y = table(n, d)
    began = now()
    found = asked(question, X, y, time_limit_s=limit)
    assert now() - began < limit + BUSY * 2.0
    assert found.status.code == "time_limit"
    assert len(found.network) > 0
    assert 0.0 < found.lower_bound < found.objective < np.inf


class Interrupting:
    """Ctrl-C after so many seconds of the processor, and perhaps another one a third of a second later."""

    def __init__(self, after, signals):
        self.after, self.left, self.last = after, signals, 0.0

    def __enter__(self):
        self.before = signal.signal(signal.SIGVTALRM, self.ring)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.after, 0.3)
        return self

    def ring(self, *_):
        if self.left:
            self.left, self.last = self.left - 1, now()
            signal.raise_signal(signal.SIGINT)

    def __exit__(self, kind, raised, _):
        self.left = 0
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, self.before)
        if kind is KeyboardInterrupt:
            raise AssertionError("a signal fell out of the solve") from raised


@posix
@pytest.mark.parametrize(
    ("question", "n", "d", "signals", "hurry"),
    [
        ("solve", 120, 6, 1, 0.2), ("fit", 120, 6, 2, 0.2),
        *(pytest.param(question, n, d, signals, HURRY_S, marks=SLOW) for question in ("solve", "fit")
          for n, d in ((120, 6), (300, 10), (3000, 12)) for signals in (1, 2)),
    ],
)  # fmt: skip
def test_a_signal_leaves_two_seconds_and_another_one_none(
    compiled, monkeypatch, question, n, d, signals, hurry
):
    """120 × 6 went on for 33 to 42 seconds; 3000 × 12 for 4.3, with a bound of 0 for a fit."""
    monkeypatch.setattr("covopt.limits.HURRY_S", hurry)
    X, y = table(n, d)
    with Interrupting(1.5 if n > 1000 else 0.2, signals) as interrupting:
        found = asked(question, X, y, tol=1e-9)
    assert now() - interrupting.last < BUSY * (2.0 if signals == 1 else 1.0)
    assert found.status.code == "interrupted"
    assert len(found.network) > 0
    assert 0.0 < found.lower_bound < found.objective
    if question == "solve":
        assert found.certificate.interpolates


def brackets(X, y, most_s):
    """Return (seconds of the processor, lower bound, upper bound) of each round without a limit."""
    began, seen = now(), []

    def note(state):
        seen.append((now() - began, state.lower_bound, state.upper_bound))
        return seen[-1][0] > most_s

    asked("solve", X, y, callback=note)
    return seen


@posix
@pytest.mark.parametrize(
    ("n", "limit"),
    [(200, 0.2), *(pytest.param(n, s, marks=SLOW) for n in (1300, 2000, 3000, 5000) for s in (20.0, 60.0))],
)
def test_a_limit_is_never_worse_than_the_same_seconds_without_one(compiled, processor_clock, n, limit):
    """5000 × 2 ended in half a second with the bound 0 and a network that missed its points."""
    X, y = table(n, 2)
    began = now()
    found = asked("solve", X, y, time_limit_s=limit)
    assert now() - began < 1.1 * limit + BUSY * 2.0
    assert found.certificate.interpolates
    assert 0.0 < found.lower_bound < found.objective < np.inf
    # a first round of 5000 points takes a minute, and what finishes it many
    rounds = [] if n == 5000 else [seen[1:] for seen in brackets(X, y, 0.5 * limit) if seen[0] <= 0.5 * limit]
    if rounds:  # the rest of a limit finishes and certifies, what a solve without one does afterwards
        lower, upper = max(low for low, _ in rounds), min(up for _, up in rounds)
        assert found.lower_bound >= 0.7 * lower
        assert found.objective <= 1.2 * upper
        assert found.gap <= max(1.0 - lower / upper, 0.0) + 0.2
