"""No bound is above the best network known, in fractions; every kind is within a thousandth of one somewhere."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from covopt.depth.bounds import Asked, chain_bounds, closed_bounds, recompute_bound, tree_bounds
from covopt.depth.fitting import fit_bounds
from covopt.exact.rounding import above
from tests.cases import cases
from tests.depth.bank.tables import BY_NAME, TABLES, known, squared, tree_bound, tree_of

THROUGH = [given.name for given in TABLES if given.lam is None]
FITS = [given.name for given in TABLES if given.lam is not None]
SHARP = 1.0 / 1.0009  # so 1.001 times a bound is above the network


def is_quick(name: str) -> bool:
    """Whether the tree bound takes a second or two."""
    given = BY_NAME[name]
    return given.bias == 0.0 or len(given.X) + given.depth < 7


def at_times(names: list[str], quick: Callable[[str], bool], every: int = 2) -> list:
    """Take every so many-th of the quick ones; the others are run at night."""
    chosen = [name for name in names if quick(name)][::every]
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.slow) for name in names]


@cache
def bounds(name: str, kind: str) -> list[float]:
    """Return the bounds of a kind on a table; of trees also by the dual at the network's own first layer."""
    given, upper = BY_NAME[name], above(known(name))
    data, depth, output_bias = given.data, given.depth, given.output_bias
    if kind == "fit":
        found = fit_bounds(data, squared(given.Y), given.lam, output_bias, *given.start, 1.5 * upper)
        return [bound.value for bound in found]
    if kind == "tree":
        values = [bound.value for bound in tree_bounds(data, depth, output_bias, upper=upper)]
        if given.Y.shape[1] == 1 and len(given.X) <= 5:
            tree = tree_of(given, float(np.sum(np.square(given.network[0]))))
            values.append(tree_bound(tree, given, 2.0 * upper))
        return values
    closed = closed_bounds(data, depth, output_bias)
    if kind == "chain":
        return [b.value for b in chain_bounds(data, depth, output_bias, upper=upper, closed=closed)]
    return [b.value for b in closed if kind in (b.proof.kind, "closed")]


def holds(name, kind):
    for value in bounds(name, kind):
        assert Fraction(value) <= known(name), f"{value} is above {float(known(name))}"


@pytest.mark.thinned(7)
@pytest.mark.parametrize("name", THROUGH)
def test_closed_forms_are_below_the_best_network(name):
    holds(name, "closed")
    given = BY_NAME[name]
    for bound in closed_bounds(given.data, given.depth, given.output_bias):
        again = recompute_bound(bound, Asked(given.data, given.depth, given.output_bias, np.inf))
        assert again == (bound.value, "")


@pytest.mark.parametrize("name", at_times([n for n in THROUGH if len(BY_NAME[n].X) > 1], is_quick, every=24))
def test_the_tree_bound_is_below_the_best_network(name):
    holds(name, "tree")


@pytest.mark.parametrize(
    "name",
    at_times(
        [n for n in THROUGH if BY_NAME[n].bias > 0 and len(BY_NAME[n].X) == 2],
        lambda n: BY_NAME[n].depth == 3 and n.startswith("k = 2"),
        every=3,
    ),
)
def test_chains_of_two_rows_are_below_the_best_network(name):
    holds(name, "chain")


@pytest.mark.parametrize("name", at_times(FITS, lambda name: len(BY_NAME[name].X) in (1, 2)))
def test_bounds_of_fits_are_below_the_best_network(name):
    holds(name, "fit")


@pytest.mark.parametrize(("name", "kind"), cases("the kind of bound that is sharp"))
def test_every_kind_of_bound_is_sharp_somewhere(name, kind):
    holds(name, kind)
    assert max(bounds(name, kind)) >= SHARP * float(known(name))


# ------------------------------------------------------------------ the same tables in other words
@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", [n for n in THROUGH if len(BY_NAME[n].X) > 1])
def test_bounds_know_neither_the_order_of_rows_nor_axes_nor_units(name):
    given = BY_NAME[name]
    data, depth, output_bias = given.data, given.depth, given.output_bias
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((data.n_features + 1,) * 2))[0]
    features = np.column_stack([data.X, np.zeros(len(data.X))]) @ turn
    honest = [bound.value for bound in closed_bounds(data, depth, output_bias)]
    for X, Y, factor in (
        (data.X[::-1], data.Y[::-1], 1.0), (features, -data.Y, 1.0),
        *((data.X * 2.0**a, data.Y * 2.0**b, 2.0 ** (b - a)) for a, b in ((0, -300), (100, 200)) if not data.bias),
    ):  # fmt: skip
        other = closed_bounds(replace(given, X=X, Y=Y).data, depth, output_bias)
        expected = [value * factor ** (2.0 / depth) for value in honest]
        assert [bound.value for bound in other] == pytest.approx(expected, rel=1e-9)
    if not data.bias and len(data.X) == 3:
        values = [
            tree_bounds(table.data, depth, output_bias, upper=2.0 * float(known(name)))[0].value
            for table in (given, replace(given, X=features, Y=-data.Y))
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-3)
