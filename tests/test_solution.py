"""What a solve returns, its file, and the sparsest minimiser."""

import json
import os
import stat
from functools import cache
from itertools import combinations
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

import covopt
from covopt.errors import InputError, Status
from covopt.solution import Solution
from tests.bank.problems import CLOSED_FORMS, Problem
from tests.cases import drawn, normal, unit


@cache
def example() -> Solution:
    rng = np.random.default_rng(0)
    return covopt.min_norm(rng.standard_normal((8, 2)), rng.standard_normal(8), random_state=0)


def bits(array) -> bytes:
    return np.ascontiguousarray(array, dtype=float).tobytes()


# ---------------------------------------------------------------------- files


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=3, max_size=3))
def test_any_finite_number_survives(numbers):
    content = example().to_dict()
    content["problem"]["Y"][0] = [numbers[0]]
    content["network"]["hidden_weights"][0] = numbers
    content["dual"][0] = numbers[1]
    again = Solution.from_dict(json.loads(json.dumps(content)))
    assert bits(again.network.hidden_weights[0]) == bits(numbers)
    assert bits(again.dual[0]) == bits(numbers[1])
    assert bits(again.data.Y[0]) == bits([numbers[0]])


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "s.json"
    path.write_text("old")
    example().save(path)
    assert covopt.load(path).status is Status.CERTIFIED
    assert os.listdir(tmp_path) == ["s.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("step", ["files.json.dumps", "files.os.fsync", "files.os.replace"])
def test_a_failing_write_leaves_the_old_file(step, tmp_path, monkeypatch):
    path = tmp_path / "s.json"
    solution = example()
    solution.save(path)
    old = path.read_bytes()

    monkeypatch.setattr(f"covopt.{step}", Mock(side_effect=OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        solution.save(path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["s.json"]


# ----------------------------------------------------------- tight set, uniqueness, fewest neurons
def fewest_by_brute_force(solution: Solution) -> int:
    """Fewest tight columns whose nonnegative combination (and a free offset) interpolates: all supports."""
    tight = solution.tight_set()
    rows, y = solution.data.lifted, solution.data.Y[:, 0]
    columns = np.maximum(rows @ tight.neurons.T, 0.0) * np.sign(tight.values)
    extra = np.zeros((len(y), 0))
    if solution.output_bias == "free":
        extra = np.column_stack([np.ones(len(y)), -np.ones(len(y))])
    if solution.output_bias == "penalized":
        y = y - solution.data.bias * solution.network.output_bias[0]
    for size in range(len(tight) + 1):
        for support in combinations(range(len(tight)), size):
            chosen = np.column_stack([columns[:, list(support)], extra])
            missed = nnls(chosen, y)[1] if chosen.shape[1] else np.linalg.norm(y)
            if missed <= 1e-4 * np.linalg.norm(solution.data.Y):
                return size
    raise AssertionError("the tight set does not hold a minimiser")


def tiny_cases() -> list[Problem]:
    rng = np.random.default_rng(5)
    cases = list(CLOSED_FORMS)
    for number in range(10):
        kind = ("none", "penalized", "free")[number % 3]
        n = int(rng.integers(3, 7))
        X = rng.standard_normal((n, 1 + number % 2))
        y = rng.integers(-2, 3, n).astype(float) if number % 2 else rng.standard_normal(n)
        cases.append(Problem(f"tiny-{number}", X, y, 1.0, kind))
    return cases


@pytest.mark.thinned(3)
@pytest.mark.parametrize("case", tiny_cases(), ids=lambda case: case.name)
def test_the_sparsest_minimiser_is_the_fewest_of_all_supports(case):
    solution = case.solve(tol=1e-9, random_state=0)
    found = solution.sparsest()
    assert len(found.network) == found.n_neurons
    assert found.n_neurons <= len(solution.network)
    assert found.lower_bound <= found.n_neurons
    assert found.agrees == (found.n_neurons == len(solution.network))
    size = np.abs(case.Y).max() or 1.0
    assert np.abs(found.network.predict(case.X) - case.Y).max() <= 1e-8 * size
    assert found.network.squared_norm <= solution.cost * (1 + 1e-6) + 1e-9 * size
    if len(solution.tight_set()) <= 12:
        fewest = fewest_by_brute_force(solution)
        assert found.lower_bound <= fewest
        if found.proven:
            assert found.n_neurons == fewest


TIGHT = [(covopt.min_norm, {"output_bias": kind}, 1e-6) for kind in ("none", "penalized", "free")]
TIGHT += [(covopt.fit, {"loss": loss, "lam": 1e-2}, 1e-4) for loss in ("squared", "softmax-cross-entropy")]


@pytest.mark.parametrize(("ask", "options", "tol"), TIGHT)
def test_the_tight_set_holds_every_neuron_of_the_solution(ask, options, tol):
    rng, X = drawn(2, (10, 2))
    y = np.arange(10) % 3 if "softmax" in options.get("loss", "") else X[:, 0] ** 2 + rng.standard_normal(10)
    solution = ask(X, y, tol=1e-9, random_state=0, **options)
    tight = solution.tight_set() if ask is covopt.min_norm else solution.tight_set(tol)
    assert (np.abs(np.abs(tight.values) - 1) <= tol).all()
    np.testing.assert_allclose(np.linalg.norm(tight.neurons, axis=1), 1.0, atol=1e-12)
    values = np.maximum(tight.neurons @ solution.data.lifted.T, 0.0) @ solution.dual
    lengths = np.linalg.norm(values.reshape(len(tight), -1), axis=1)
    np.testing.assert_allclose(lengths, np.abs(tight.values), atol=tol)
    units = unit(solution.network.hidden_weights)
    assert (units @ tight.neurons.T).max(axis=1).min() >= 1 - 1e-3
    if values.ndim == 1:
        near = tight.values[(units @ tight.neurons.T).argmax(axis=1)]
        assert (np.sign(near) == np.sign(solution.network.output_weights[:, 0])).all()
    if ask is covopt.fit:
        assert solution.is_unique is None and "share their outputs" in solution.uniqueness.reason
        with pytest.raises(InputError, match="sparsest minimiser is computed for interpolation"):
            solution.sparsest()


def test_uniqueness_is_not_claimed_from_a_coarse_bracket(monkeypatch):
    X = normal(0, (30, 2))
    solution = covopt.min_norm(X, np.sin(3 * X[:, 0]), tol=1e-9, callback=lambda state: state.round == 2)
    assert solution.gap > 1e-3
    # refining fails
    monkeypatch.setattr("covopt.solvers.generation.Generation.solve", lambda self: self.point)
    assert solution.is_unique is None
    assert "needs a gap of" in solution.uniqueness.reason


def test_the_sparsest_minimiser_where_the_first_tight_set_is_not_yet_right():
    # at a gap of 9e-10 Newton's method does not converge on the tight set, and no support matches the targets
    X = np.random.default_rng(2).standard_normal((20, 2))
    solution = covopt.min_norm(X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]), random_state=0)
    found = solution.sparsest()
    assert not found.proven or found.lower_bound == found.n_neurons
    assert found.n_neurons == len(found.network) <= 15
    missed = found.network.predict(X) - np.sin(2 * X[:, 0]) * np.cos(X[:, 1])
    assert np.abs(missed).max() < 1e-9
    assert found.network.squared_norm <= solution.cost * (1 + 1e-9)
