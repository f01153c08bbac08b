"""λ chosen along the path in every fold: against scikit-learn's own search."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import covopt
from covopt import ReLUClassifierCV, ReLURegressorCV
from covopt.api.selection import fold_networks, held_out
from covopt.api.task import Task
from covopt.errors import CovoptWarning, NotCertifiedWarning, TableWarning
from covopt.limits import TimeUp


def noisy(n=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 1))
    return X, np.abs(X[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.mark.filterwarnings("ignore::covopt.errors.NotCertifiedWarning")
def test_no_lam_is_lost_to_a_time_limit_and_no_constant_is_silent(processor_clock):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.warns(TableWarning, match="the network is a constant: no smaller λ"):
        ReLURegressorCV(lams=[1e3, 1e2], cv=2).fit(X[:20], y[:20])
    few = np.arange(0, len(X), 8)
    found = ReLUClassifierCV(n_lams=2, eps=0.05, cv=2, time_limit_s=0.3, output_bias="free").fit(
        X[few], y[few]
    )
    assert np.isfinite(found.scores_).all()
    assert len(found.network_) > 0
    assert found.score(X, y) > 0.9


def test_columns_are_standardised_in_every_fold():
    X = np.random.default_rng(3).standard_normal((24, 4))
    y, outputs = 50.0 + np.abs(X[:, 0]), []
    for table in (X, 7.0 + X * [1e3, 1.0, 1e-2, 4.0]):
        task = Task(
            table, y, "squared", 1.0, "none", None, "variation", "auto", 1e-6, None, standardised=True
        )  # fmt: skip
        networks, _ = fold_networks(task, np.arange(18), np.array([0.05]))
        outputs.append(networks[0].predict(table[18:]))
    np.testing.assert_allclose(*outputs, rtol=1e-4)
    assert np.abs(outputs[0] - y[18:]).mean() < 1.0


def test_folds_that_there_was_time_for_choose(monkeypatch):
    X, y = noisy(30)
    task = Task(X, y, "squared", 1.0, "none", None, "variation", "auto", 1e-6, None)
    whole, began = held_out(task, [0.3, 0.03], folds=3), []

    def late(*table, **limit):
        began.append(table)
        if len(began) == 3:
            raise TimeUp
        return fold_networks(*table, **limit)

    monkeypatch.setattr("covopt.api.selection.fold_networks", late)
    with pytest.warns(NotCertifiedWarning, match="1 fold not looked at, 0 networks cut short"):
        np.testing.assert_allclose(held_out(task, [0.3, 0.03], folds=3).losses, whole.losses[:, :2])
    began[:] = [(), ()]
    assert held_out(task, [0.3, 0.03], folds=3) is None


def test_networks_that_time_has_cut_are_told(monkeypatch):
    def cut(*_, **__):
        raise TimeUp
        yield

    monkeypatch.setattr("covopt.solvers.descent.Descent.run", cut)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 6))
    for choose in (
        lambda: covopt.fit(X, X[:, 0] ** 2, lam="cv", time_limit_s=60.0),
        lambda: ReLURegressorCV(n_lams=10, time_limit_s=60.0).fit(X, X[:, 0] ** 2),
    ):
        with pytest.warns(CovoptWarning) as said:
            choose()
        told = "of 5 folds × 10 λ in .* 0 folds not looked at, 50 networks cut short"
        assert any(re.search(told, str(one.message)) for one in said)


def test_held_out_losses_are_those_of_networks_that_have_not_seen_the_rows():
    X, y = noisy(30)
    task = Task(X, y, "squared", 1.0, "none", None, "variation", "auto", 1e-6, None, standardised=True)
    lams = covopt.lambda_max(X, y, standardise=True) * np.array([0.3, 0.03])
    seen = held_out(task, lams, folds=3)
    assert seen.losses.shape == seen.qualities.shape == (2, 3)
    assert seen.best == lams[seen.losses.mean(axis=1).argmin()]
    left = np.random.default_rng(1).permutation(30)[:10]
    rest = np.setdiff1d(np.arange(30), left)
    for lam, network in zip(lams, fold_networks(task, rest, lams)[0], strict=True):
        known = covopt.fit(X[rest], y[rest], lam=lam, standardise=True)
        np.testing.assert_allclose(network.predict(X[left]), known.network.predict(X[left]), atol=2e-3)
