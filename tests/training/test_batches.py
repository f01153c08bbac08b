"""Cutting a run into batches, and taking a batch apart."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from covopt.depth.layers import Layout  # noqa: E402
from covopt.losses import make_loss  # noqa: E402
from covopt.training import Phase, loop  # noqa: E402
from covopt.training.model import BatchedLoss  # noqa: E402
from covopt.training.schedule import initial_weights, make_grid  # noqa: E402

WIDTHS = [40, 3, 200, 3, 17, 90]


def make(widths, *phases, seeds=5, n=20):
    rng = np.random.default_rng(0)
    loss = make_loss("squared")
    loss.encode_targets(rng.standard_normal(n))
    twin = BatchedLoss(loss, torch.device("cpu"), torch.float64)
    members = make_grid(widths, 0.1, None, seeds)
    layouts = [Layout((2, *member.widths, 1), 1.0, "none") for member in members]
    weights = [
        initial_weights(own, member.seed, 0, 1.0) for own, member in zip(layouts, members, strict=True)
    ]
    return loop.Runner(members, layouts, torch.tensor(rng.standard_normal((n, 3))), twin, phases, weights)


@pytest.mark.parametrize("limit", [1, 30_000, 200_000, 2**30])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_network_is_in_one_batch_that_fits(monkeypatch, limit, workers):
    monkeypatch.setattr(loop, "CPU_BYTES", limit)
    monkeypatch.setattr(loop, "CPU_LEAST_BYTES", 1)
    runner = make(WIDTHS)
    groups = runner.cut(range(30), samples=None, copies=6, workers=workers)
    assert sorted(i for group in groups for i in group) == list(range(30))
    for group in groups:
        sizes = [runner.bytes_of(i, None, 6) for i in group]
        assert len(group) == 1 or len(group) * max(sizes) <= limit
        assert len({runner.members[i].widths for i in group}) == 1  # nothing is padded
    if limit == 2**30:
        assert len(groups) >= workers


def test_equal_networks_are_shared_equally(monkeypatch):
    monkeypatch.setattr(loop, "CPU_LEAST_BYTES", 1)
    runner = make(64, seeds=100)
    assert [len(g) for g in runner.cut(range(100), samples=None, copies=6, workers=2)] == [50, 50]
    monkeypatch.setattr(loop, "CPU_LEAST_BYTES", 2**30)
    assert len(runner.cut(range(100), samples=None, copies=6, workers=2)) == 1
    runner = make(64, seeds=2000)
    whole, drawn = (len(runner.cut(range(2000), samples=m, copies=4, workers=1)) for m in (None, 1))
    assert drawn < whole  # minibatches make larger batches


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "lbfgs"])
def test_a_part_of_a_batch_takes_the_steps_it_takes_in_the_whole(optimiser):
    phase = Phase(optimiser, 300)
    for keep in ([0, 1], [3], [1, 2]):
        runner = make(9, phase, seeds=4)
        whole, part = (runner.batch(range(4)) for _ in range(2))
        for batch in (whole, part):
            runner.advance(batch, phase, 20)
        rows, runner.step = torch.tensor(keep), 20
        part.networks = part.networks.take(rows)
        part.optimiser.take(rows, part.networks)
        for batch in (whole, part):
            runner.advance(batch, phase, 40)
        np.testing.assert_allclose(part.now, whole.now[keep], rtol=0, atol=1e-12)
