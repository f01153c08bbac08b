"""Networks that are trained in parts, as on a cluster, are those of one run, in its order."""

import numpy as np
import pytest

pytest.importorskip("torch")

from covopt.training import Phase, runner, spread, train

X = np.array([[-1.0], [0.0], [1.0], [2.0]])
Y = np.array([1.0, 0.0, 1.0, 0.5])
GRID = {"widths": [2, 3], "lam": [0.1, 0.2], "seeds": 3, "schedule": Phase("adam", 20), "record_every": 10}


@pytest.fixture
def in_parts(monkeypatch):
    """The outer call goes out in parts of one seed; those of the parts, on workers, do not."""
    monkeypatch.setattr(spread, "NETWORKS", 4)

    def once(run):
        outer = iter([True])
        monkeypatch.setattr(runner, "goes_out", lambda device, checkpoint: next(outer, False))
        return run()

    return once


def test_parts_are_joined_in_the_order_of_one_run(in_parts):
    here = train(X, Y, **GRID)
    told = []
    there = in_parts(lambda: train(X, Y, **GRID, callback=told.append))
    assert there.members == here.members
    np.testing.assert_allclose(there.objectives, here.objectives, rtol=1e-12)
    assert there.history.equals(here.history) or np.allclose(there.history.objective, here.history.objective)
    assert list(there.history.network) == list(here.history.network)
    assert [(state.n_active, state.step) for state in told] == [(8, 6), (4, 13), (0, 20)]
    again = in_parts(lambda: train(X, Y, **GRID, start=here))  # every network goes on from its own
    on = train(X, Y, **GRID, start=here)
    np.testing.assert_allclose(again.objectives, on.objectives, rtol=1e-12)


def test_a_true_answer_leaves_the_networks_that_have_come(in_parts):
    found = in_parts(lambda: train(X, Y, **GRID, callback=lambda state: state.n_active <= 8))
    assert [member.seed for member in found.members] == [0] * 4
    assert len(found.table) == 4
