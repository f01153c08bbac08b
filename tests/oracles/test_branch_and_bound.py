"""Branch and bound against the exact oracle, brute force and closed forms; its limits leave valid bounds."""

import pytest

from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.signs import sign_tree
from tests.cases import normal


def oracle(rows, **options):
    return BranchAndBoundOracle(rows, random_state=0, n_starts=options.pop("n_starts", 64), **options)


def test_an_interrupt_leaves_a_valid_bound(monkeypatch):
    rows, dual = normal(0, (18, 6), 18)
    truth = oracle(rows).price(dual).upper_bound
    real, calls = sign_tree.bound_node, []
    for last in (1, 2, 3, 4, 7):  # in the first root, the second, either part of a node

        def stop(*args, last=last):
            calls.append(1)
            if len(calls) == last:
                raise KeyboardInterrupt
            return real(*args)

        calls.clear()
        monkeypatch.setattr(sign_tree, "bound_node", stop)
        asked = oracle(rows, n_starts=1)
        assert asked.price(dual).upper_bound >= truth * (1 - 1e-9)
        assert asked.interrupted and len(calls) == last


def test_a_goal_ends_the_search_with_a_bound_that_holds():
    rows, dual = normal(1, (25, 8), 25)
    tight, loose = oracle(rows), oracle(rows, goal=1.5)
    dual /= abs(tight.price(dual).values[0])
    found = loose.price(dual)
    assert 1.0 <= found.upper_bound <= 1.5 and not found.exact
    assert loose.n_nodes < tight.n_nodes
    assert loose.price(2.0 * dual).upper_bound == pytest.approx(2.0, rel=1e-9)  # out of reach: the maximum
