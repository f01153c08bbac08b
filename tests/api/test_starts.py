"""A solve that was stopped goes on from its solution, and what it finds is certified as ever."""

import json
from itertools import product

import numpy as np
import pytest

import covopt
from covopt.datasets import make_random_plane
from covopt.potentials import POTENTIALS
from tests.cases import drawn, normal

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((16, 2)), RNG.standard_normal(16)
SIGNS = np.where(Y > 0, 1.0, -1.0)
PAIRS = RNG.standard_normal((10, 2))
WIDE = RNG.standard_normal((12, 5)), RNG.standard_normal(12)

SOLVES = {
    "interpolation": lambda **options: covopt.min_norm(X, Y, **options),
    "free output bias": lambda **options: covopt.min_norm(X, Y, output_bias="free", **options),
    "standardised": lambda **options: covopt.min_norm(1e3 + 7.0 * X, Y, standardise=True, **options),
    "two outputs": lambda **options: covopt.min_norm(X[:10], PAIRS, **options),
    "boxes": lambda **options: covopt.min_norm(*WIDE, **options),
    "squared": lambda **options: covopt.fit(X, Y, lam="0.01max", **options),
    "logistic": lambda **options: covopt.fit(X, SIGNS, lam="0.01max", loss="logistic", **options),
    "hinge": lambda **options: covopt.fit(X, SIGNS, lam="0.01max", loss="hinge", **options),
}


def stop_at(number):
    return lambda state: state.round == number


@pytest.mark.parametrize("name", SOLVES)
def test_a_stopped_solve_goes_on_where_it_was(name, tmp_path):
    solve, file = SOLVES[name], tmp_path / "run.json"
    whole = solve()
    first = solve(callback=stop_at(max(2, 2 * len(whole.history) // 3)))
    assert first.status.code == "callback"
    first.save(file)
    rest = []
    second = solve(start=covopt.load(file), callback=lambda state: rest.append(state.round))
    assert second.status.code == "certified"
    assert second.objective == pytest.approx(whole.objective, rel=3e-6)
    assert covopt.verify(second).ok
    assert len(rest) <= len(whole.history) + 10  # 24 for 14 through points on some processors
    third = solve(start=first, callback=stop_at(1))
    assert third.lower_bound >= first.lower_bound * (1 - 1e-9)
    assert third.objective <= first.objective * (1 + 1e-9)


@pytest.mark.parametrize("name", ["interpolation", "squared"])
def test_nothing_in_a_start_is_believed(name):
    solve = SOLVES[name]
    honest, truth = json.dumps(solve(callback=stop_at(6)).to_dict()), solve()

    def too_low(content):
        content["cost"] = 1e-3
        content["network"]["output_weights"] = [[0.0] for _ in content["network"]["output_weights"]]

    def too_high(content):
        content["lower_bound"] = 10.0 * truth.objective
        content["dual"] = [10.0 * v for v in content["dual"]]

    def loose(content):
        content["dual"], content["tol"] = [0.5 * v for v in content["dual"]], 0.9

    def old(content):  # the state of its rounds, which is not read any more
        content["resume"] = {"kind": "ColumnGeneration", "neurons": {"shape": [1, 2], "values": [0.0, 1.0]}}

    for change in (too_low, too_high, loose, old):
        content = json.loads(honest)
        change(content)
        found = solve(start=covopt.Solution.from_dict(content))
        assert covopt.verify(found).ok and found.tol == 1e-6
        assert found.status.code == "certified"
        assert found.lower_bound <= truth.objective * (1 + 1e-12)
        assert found.objective >= truth.lower_bound * (1 - 1e-12)


def test_a_fit_without_a_seed_is_the_same_again():
    rng, points = drawn(0, (40, 5))
    targets = np.abs(points).sum(axis=1) + 0.3 * rng.standard_normal(40)
    one, other = (covopt.fit(points, targets, lam="0.2max", tol=1e-4) for _ in range(2))
    assert one.objective == other.objective
    assert np.array_equal(one.dual, other.dual)
    assert np.array_equal(one.network.hidden_weights, other.network.hidden_weights)


def test_a_path_goes_on_where_it_was():
    whole, rounds, seen = covopt.path(X, Y, n_lams=4), [], []
    again = covopt.path(X, Y, n_lams=4, start=whole, callback=rounds.append)
    assert [s.objective for s in again] == pytest.approx([s.objective for s in whole], rel=1e-6)
    assert len(rounds) < sum(len(s.history) for s in whole)
    covopt.path(X, Y, n_lams=4, start=whole, callback=lambda state: seen.append(state.best and state.best()))
    kept = next(path for path in seen if path)
    assert [s.lam for s in kept] == [s.lam for s in whole]  # those of the start stand in what is written


NINE, PAIR = normal(0, (9, 2), 9), (np.array([[3.3], [1.8]]), np.array([1.0, -1.0]))
LABELS = X, np.where(Y > 0.5, "b", "a")
FITS = {  # of one table, each of which may start from any other
    "another strength, another loss": (LABELS, [{"lam": lam, "loss": "logistic"} for lam in (1e-3, 1e-5, 10.0)] + [
        {"lam": 1e-3, "loss": "hinge"}]),
    **{f"another output bias, {loss}": (PAIR, [
        {"lam": 1e-3, "loss": loss, "output_bias": kind} for kind in ("none", "penalized", "free")
    ]) for loss in ("squared", "logistic", "hinge")},
    "another potential": (make_random_plane(7, random_state=23), [
        {"lam": 0.01, "potential": kind} for kind in POTENTIALS
    ]),
    # samples of weight zero lower the rank, and neurons may be silent on those that are left
    **{f"other weights of samples, {kind}": (NINE, [
        {"lam": lam, "potential": kind, "sample_weight": w}
        for lam, w in ((1e-3, None), (2e-3, np.arange(9) < 2), (2e-3, np.arange(9) > 6), (2e-3, None))
    ]) for kind in POTENTIALS},
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_a_fit_may_start_from_any_other_of_its_table(name):
    table, options = FITS[name]
    alone = [covopt.fit(*table, **each) for each in options]
    for (number, each), start in product(enumerate(options), alone):
        found = covopt.fit(*table, start=start, **each)
        assert found.status.code == "certified"
        assert found.objective == pytest.approx(alone[number].objective, rel=2e-6)
        assert each.get("output_bias") != "none" or not found.network.output_bias.any()


def test_a_near_start_needs_fewer_rounds():
    near, cold = (covopt.fit(X, Y, lam=lam) for lam in (1.1e-3, 1e-3))
    assert len(covopt.fit(X, Y, lam=1e-3, start=near).history) < len(cold.history)
