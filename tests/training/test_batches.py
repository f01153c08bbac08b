"""Cutting a run into batches, and taking a batch apart."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from covopt.losses import make_loss  # noqa: E402
from covopt.training import grid  # noqa: E402
from covopt.training.backend import BatchedLoss  # noqa: E402
from covopt.training.grid import initial_weights, make_grid  # noqa: E402
from covopt.training.model import Architecture  # noqa: E402

WIDTHS = [40, 3, 200, 3, 17, 90]


def make(widths, seeds=5, n=20):
    rng = np.random.default_rng(0)
    loss = make_loss("squared")
    loss.encode_targets(rng.standard_normal(n))
    twin = BatchedLoss(loss, torch.device("cpu"), torch.float64)
    return grid.Problem(
        Architecture(2, 1, 2),
        make_grid(widths, 0.1, None, seeds),
        torch.tensor(rng.standard_normal((n, 3))),
        twin,
    )


@pytest.mark.parametrize("limit", [1, 30_000, 200_000, 2**30])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_network_is_in_one_batch_that_fits(monkeypatch, limit, workers):
    monkeypatch.setattr(grid, "CPU_BYTES", limit)
    monkeypatch.setattr(grid, "CPU_LEAST_BYTES", 1)
    problem = make(WIDTHS)
    groups = problem.cut(range(30), samples=None, copies=6, workers=workers)
    assert sorted(i for group in groups for i in group) == list(range(30))
    for group in groups:
        sizes = [problem.bytes_of(problem.members[i], None, 6) for i in group]
        assert len(group) == 1 or len(group) * max(sizes) <= limit
    order = [problem.members[i].widths for group in groups for i in group]
    assert order == sorted(order)  # similar widths together: little padding
    if limit == 2**30:
        assert len(groups) >= workers


def test_equal_networks_are_shared_equally(monkeypatch):
    monkeypatch.setattr(grid, "CPU_LEAST_BYTES", 1)
    problem = make(64, seeds=100)
    assert [len(g) for g in problem.cut(range(100), samples=None, copies=6, workers=2)] == [50, 50]
    monkeypatch.setattr(grid, "CPU_LEAST_BYTES", 2**30)
    assert len(problem.cut(range(100), samples=None, copies=6, workers=2)) == 1
    problem = make(64, seeds=2000)
    whole, drawn = (len(problem.cut(range(2000), samples=m, copies=4, workers=1)) for m in (None, 1))
    assert drawn < whole  # minibatches make larger batches


def test_a_part_of_a_batch_keeps_weights_and_state():
    problem = make([3, 9], seeds=2)
    weights = [initial_weights(problem.architecture, m.widths, m.seed, 0, 1.0) for m in problem.members]
    batch = problem.batch(range(4), weights)
    batch.state = {"m": 2.0 * batch.theta}
    for keep in ([0, 1], [3], [1, 2]):
        part = grid.select(problem, batch, np.array(keep))
        assert part.index.tolist() == keep
        assert part.networks.padded == ((3,) if max(keep) < 2 else (9,))
        for values, factor in ((part.theta, 1.0), (part.state["m"], 2.0)):
            for k, layers in zip(keep, part.networks.unpack(values), strict=True):
                assert all((a == factor * b).all() for a, b in zip(layers, weights[k], strict=True))
