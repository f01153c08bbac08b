"""A GPU trains what the processor trains. Skipped where torch sees none."""

import numpy as np
import pytest
import torch

import covopt
from covopt.training import Phase, train
from tests.commands import said

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((40, 3)), RNG.standard_normal(40)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "softmax-cross-entropy"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd", "gd", "lbfgs"])
@pytest.mark.parametrize("widths", [[4, 9], [(5, 3), (4, 4)]])
def test_a_gpu_takes_the_same_steps(optimiser, widths, loss):
    targets = Y if loss in ("squared", "huber") else np.arange(40) % (3 if loss.startswith("soft") else 2)
    settings = dict(widths=widths, lam=[0.01, 0.1], seeds=3, schedule=Phase(optimiser, 40), loss=loss)
    here, there = train(X, targets, **settings), train(X, targets, device="cuda", **settings)
    np.testing.assert_allclose(here.table.objective, there.table.objective, rtol=1e-9)
    for k in range(len(here)):
        np.testing.assert_allclose(here.network(k).predict(X), there.network(k).predict(X), atol=1e-7)


@pytest.mark.parametrize("optimiser", ["adam", "gd"])
def test_networks_that_diverge_leave_the_batch(optimiser):
    rates = {
        "widths": 6,
        "lam": 0.1,
        "seeds": 2,
        "learning_rate": [0.01, 1e6],
        "schedule": Phase(optimiser, 300),
    }
    here, there = train(X, Y, **rates), train(X, Y, device="cuda", **rates)
    assert here.table.status.tolist() == there.table.status.tolist()


def test_single_precision_on_a_gpu():
    run = train(X, Y, widths=20, lam=0.01, seeds=50, dtype="float32", device="cuda", tol_gradient=1e-4)
    best = covopt.fit(X, Y, lam=0.01)
    assert best.lower_bound <= run.table.objective.min() <= 1.05 * best.objective


def test_the_command_and_the_gap_meter_take_a_gpu(tmp_path):
    table = tmp_path / "table.csv"
    np.savetxt(table, np.column_stack([X, Y]), delimiter=",", header="a,b,c,y", comments="")
    assert said("train", table, "--target", "y", "--widths", "8", "--lam", "0.1max", "--device", "cuda")
    linear, relu = torch.nn.Linear, torch.nn.ReLU()
    model = torch.nn.Sequential(linear(3, 8), relu, linear(8, 1, bias=False)).double().cuda()
    with pytest.raises(covopt.errors.InputError, match="torch sees"):
        train(X, Y, widths=3, device=f"cuda:{torch.cuda.device_count()}")
    report = covopt.gap(model, X, Y, lam=0.05, time_limit_s=2)
    assert 0 < report.lower_bound <= report.objective
