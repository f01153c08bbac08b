"""A small part of ``python -m benchmarks.adversary``: what once was refuted, and a few instances of every class."""

import dataclasses
import sys

import numpy as np
import pytest

import covopt
from benchmarks.adversary import classes, deep, dual_norms, tables
from benchmarks.adversary.__main__ import main
from benchmarks.adversary.classes import run_one
from benchmarks.adversary.outcome import HELD, REFUSED, REFUTED, judge
from covopt.depth.layers import Layout
from tests.cases import cases

# by the number of the class of error; all of them failed before it was mended
ONCE_REFUTED = cases("once refuted: the class of error, and the instance")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * name.startswith("proof/tr")) for _, name in ONCE_REFUTED],
)
def test_what_once_was_refuted(name):
    what, _, seed = name.rpartition(":")
    outcome = run_one((what, int(seed)))
    assert outcome.kind in (HELD, REFUSED), outcome.detail


def turns():
    """Every kind of question, and of table beside some of them; the other pairs are run at night."""
    kinds: dict[str, list[str]] = {}
    for name in classes.CLASSES:
        if name != "min-norm/far":  # seconds
            kinds.setdefault(name.partition("/")[0], []).append(name)
    for place, names in enumerate(kinds.values()):
        if len(names) < 9 or names[0].startswith("price/"):
            yield from names
        else:
            turned = names[place % 8 :] + names[: place % 8]
            for turn, name in enumerate(turned):
                by_day = turn % 8 == 0 or name.partition("/")[2] not in tables.ALL_TABLES
                yield name if by_day else pytest.param(name, marks=pytest.mark.slow)


# of files that somebody has changed, instances are quick, and kinds of changes are many
BY_DAY = {"price/clusters": 1, "price": 3, "bounds": 3, "forged": 6, "depth/fit": 2}


@pytest.mark.parametrize("name", list(turns()))
def test_a_few_of_every_class(name):
    for seed in range(BY_DAY.get(name, BY_DAY.get(name.partition("/")[0], 1))):
        outcome = run_one((name, seed))
        assert outcome.kind in (HELD, REFUSED), f"--only {name}:{seed}  {outcome.detail}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_of_every_class(part):
    for name, seed in classes.plan(500, 100_000 + part, []):
        outcome = run_one((name, seed))
        assert outcome.kind in (HELD, REFUSED), f"--only {name}:{seed}  {outcome.detail}"


# ---------------------------------------------------------------------- the adversary itself


def test_a_bound_a_little_too_low_is_refuted(monkeypatch):
    honest = covopt.price

    def low(*args, **options):
        found = honest(*args, **options)
        return dataclasses.replace(found, upper_bound=found.upper_bound * (1 - 1e-9))

    monkeypatch.setattr(covopt, "price", low)
    question, generators = dual_norms.price("plain", several=False), map(np.random.default_rng, range(5))
    assert REFUTED in {judge(question, rng).kind for rng in generators}


def test_a_deep_bound_above_a_network_is_refuted():
    given = deep.rival(np.random.default_rng(2), "plain")
    assert deep.judged(deep.bounds_of(given), given).kind == HELD
    cost = sum(w**2 for layer in given.weights for w in np.ravel(layer))
    assert float(given.cost) == pytest.approx(cost)
    layout, theta = Layout.of_layers(given.weights, given.data.n_features, given.data.bias, given.output_bias)
    assert np.array_equal(layout.forward(theta, given.data.X)[1][-1], given.data.Y)
    raised = [dataclasses.replace(bound, value=float(given.cost) * 1.0001) for bound in deep.bounds_of(given)]
    assert deep.judged(raised, given).kind == REFUTED


def test_the_command_runs_instances_in_processes_and_counts_them(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["adversary", "--instances", "2", "--classes", "price/grid"])
    assert main() == 0
    assert "| all | 2 | 2 | 0 | 0 | 0 |" in capsys.readouterr().out
