"""What was proved on the way bounds the certificate's gauge in all coordinates and units, and never too low."""

import signal

import numpy as np
import pytest

import covopt
from covopt.limits import TimeUp
from covopt.oracles import support
from covopt.oracles.remembered import recall, remember, remembering
from covopt.oracles.support import in_integers
from covopt.oracles.vector_faces import VectorFaceOracle


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("move", ["nothing", "rows", "dual", "units"])
def test_a_transfer_is_never_below_the_maximum(move, n_outputs):
    rng = np.random.default_rng(3)
    for _ in range(40):
        rows, dual = rng.standard_normal((7, 2)), rng.standard_normal((7, n_outputs))
        proved = in_integers(rows, dual).value
        known_rows = rows @ np.linalg.qr(rng.standard_normal((2, 2)))[0] * 2.0 ** rng.integers(-9, 9)
        scale = proved / in_integers(known_rows, dual).value
        known_dual = dual * scale * rng.uniform(0.5, 2.0)
        value = in_integers(known_rows, known_dual).value
        if move == "rows":  # as if somebody had handed in rows of another table
            known_rows = known_rows * (1.0 + 1e-4 * rng.standard_normal((7, 1)))
        elif move == "dual":
            known_dual = known_dual * (1.0 + 1e-7 * rng.standard_normal((7, 1)))
        elif move == "units":
            powers = rng.integers(-30, 30, 7)[:, None]
            known_rows, known_dual = np.ldexp(known_rows, powers), np.ldexp(known_dual, -powers)
        if move != "units":
            value = in_integers(known_rows, known_dual).value
        with remembering():
            remember(known_rows, known_dual, value)
            found = recall(rows, dual)
        assert proved * (1.0 - 1e-13) <= found
        assert move == "rows" or found <= proved * (1.0 + 1e-5)


def test_what_does_not_fit_is_left_aside():
    rows, dual = np.eye(3), np.ones(3)
    with remembering():
        remember(rows, dual, np.inf)
        remember(rows[:2], dual[:2], 1.0)
        remember(rows, np.array([1.0, 2.0, 3.0]), 1.0)
        assert recall(rows, dual) == np.inf
        remember(rows * 1e300, dual, 1e300)
        remember(rows * 0.0, dual, 0.0)
        assert recall(rows, dual) >= np.sqrt(3.0)
        assert recall(rows * 0.0, dual) == np.inf
    remember(rows, dual, np.sqrt(3.0))
    assert recall(rows, dual) == np.inf


@pytest.mark.parametrize("command", ["min_norm", "fit"])
def test_an_interrupt_keeps_what_the_rounds_have_proved(command, monkeypatch):
    rng = np.random.default_rng(0)
    n = 24 if command == "min_norm" else 40
    X = rng.standard_normal((n, 4))
    y = np.abs(X).sum(axis=1) + 0.3 * rng.standard_normal(n)
    known, searched = [], support.searched_gauge

    def no_time(rows, dual, budget, *claim):
        if known:
            if budget >= 1.0:
                raise TimeUp
            return support.GaugeBound(1e3, False, support.VALID)
        return searched(rows, dual, budget, *claim)

    def stop(state):
        if state.lower_bound > 0.0 and np.isfinite(state.upper_bound):
            known.append(state.lower_bound)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(support, "searched_gauge", no_time)
    options = {"tol": 1e-9, "callback": stop}
    found = (
        covopt.min_norm(X, y, **options) if command == "min_norm" else covopt.fit(X, y, lam=0.01, **options)
    )
    assert found.status.code == "interrupted"
    assert known[0] * (1.0 - 1e-6) <= found.lower_bound <= known[0]
    monkeypatch.undo()
    assert covopt.verify(found).ok


def test_faces_of_several_outputs_are_remembered_where_they_are_proved():
    rng = np.random.default_rng(5)
    rows, dual = rng.standard_normal((12, 4)), rng.standard_normal((12, 2))
    oracle = VectorFaceOracle(rows)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    with remembering():
        bound = oracle.price(dual).upper_bound
        assert oracle.proved
        assert bound * (1.0 - 1e-12) <= recall(rows @ turn, 3.0 * dual) / 3.0 <= bound * (1.0 + 1e-9)
