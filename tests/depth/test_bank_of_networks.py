"""No bound is above the best network known, in fractions; and every kind is within a thousandth of one somewhere."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from covopt.depth.bounds import Asked, chain_bounds, closed_bounds, recompute_bound, tree_bounds
from covopt.depth.fit_bounds import fit_bounds
from covopt.depth.layers import Layout
from covopt.depth.tree_search import TreeSearch
from covopt.exact.rounding import above
from covopt.losses import make_loss
from tests.cases import cases
from tests.depth.bank.exact import ExactNetwork, fractions
from tests.depth.bank.tables import TABLES, tree_bound

BY_NAME = {given.name: given for given in TABLES}
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
def known(name: str) -> Fraction:
    """Return what the best network known costs, through the points exactly; of a fit its objective."""
    given = BY_NAME[name]
    network = ExactNetwork([fractions(w) for w in given.network], given.bias, given.output_bias)
    X, Y = fractions(given.X), fractions(given.Y)
    if given.lam is not None:
        return network.objective(X, Y, given.lam)
    met = network.through(X, Y)
    assert met.forward(X)[1][-1] == Y
    return met.cost()


def trees(name):
    """Return the tree bound, and the same in smaller boxes with multipliers for the layers of the network."""
    given, upper = BY_NAME[name], above(known(name))
    found = tree_bounds(given.data, given.depth, given.output_bias, upper=upper)
    families = []
    free = given.output_bias == "free"
    if given.Y.shape[1] == 1 and len(given.X) <= 5:
        search = TreeSearch(given.data.lifted, given.Y[:, 0], given.bias, free=free)
        search.use(float(np.sum(np.square(given.network[0]))))
        families.append(search.family(tuple(range(len(given.X))), None, search.multipliers()[0]))
    values = [bound.value for bound in found]
    return (
        [*values, tree_bound(families, given.data, given.depth, given.output_bias, 2.0 * upper)]
        if families
        else values
    )


@cache
def bounds(name: str, kind: str) -> list[float]:
    """Return the bounds of a kind on a table."""
    given, upper = BY_NAME[name], above(known(name))
    data, depth, output_bias = given.data, given.depth, given.output_bias
    if kind == "fit":
        layout, theta = Layout.of_layers(
            [np.array(w) for w in given.network], given.X.shape[1], given.bias, output_bias
        )
        loss = make_loss("squared")
        loss.encode_targets(given.Y)
        found = fit_bounds(data, loss, given.lam, output_bias, layout, theta, 1.5 * upper)
        return [bound.value for bound in found]
    if kind == "tree":
        return trees(name)
    closed = closed_bounds(data, depth, output_bias)
    if kind == "chain":
        return [b.value for b in chain_bounds(data, depth, output_bias, upper=1.01 * upper, closed=closed)]
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


@pytest.mark.parametrize("name", at_times([n for n in THROUGH if len(BY_NAME[n].X) > 1], is_quick, every=12))
def test_the_tree_bound_is_below_the_best_network(name):
    holds(name, "tree")


@pytest.mark.parametrize(
    "name",
    at_times(
        [n for n in THROUGH if BY_NAME[n].bias > 0 and len(BY_NAME[n].X) == 2],
        lambda n: BY_NAME[n].depth == 3 or n.startswith("same sign"),
        every=3,
    ),
)
def test_chains_of_two_rows_are_below_the_best_network(name):
    holds(name, "chain")


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", FITS)
def test_bounds_of_fits_are_below_the_best_network(name):
    holds(name, "fit")


@pytest.mark.parametrize(
    ("name", "kind"),
    cases("the kind of bound that is sharp"),
)
def test_every_kind_of_bound_is_sharp_somewhere(name, kind):
    holds(name, kind)
    assert max(bounds(name, kind)) >= SHARP * float(known(name))
