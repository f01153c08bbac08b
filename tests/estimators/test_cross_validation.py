"""λ chosen along the path in every fold: against scikit-learn's own search."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

import covopt
from covopt import ReLUClassifier, ReLUClassifierCV, ReLURegressor, ReLURegressorCV
from covopt.api.selection import fold_networks, held_out
from covopt.api.task import Task
from covopt.errors import CovoptWarning, NotCertifiedWarning, TableWarning
from covopt.limits import TimeUp


def noisy(n=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 1))
    return X, np.abs(X[:, 0]) + 0.1 * rng.standard_normal(n)


def test_regression_agrees_with_a_search_over_cold_fits():
    X, y = noisy()
    lams = [0.1, 0.01, 0.001, 1e-5]
    splitter = KFold(3, shuffle=True, random_state=1)
    found = ReLURegressorCV(lams=lams, cv=splitter).fit(X, y)
    search = GridSearchCV(ReLURegressor(), {"lam": lams}, cv=splitter, scoring="neg_mean_squared_error").fit(
        X, y
    )
    assert found.lam_ == search.best_params_["lam"]
    np.testing.assert_allclose(found.scores_.mean(axis=1), search.cv_results_["mean_test_score"], rtol=1e-2)
    assert found.solution_.lam == found.lam_
    assert covopt.verify(found.solution_)
    np.testing.assert_allclose(found.predict(X), search.predict(X), atol=1e-3)


def test_classification_takes_the_largest_of_equal_lams():
    X, y = noisy(12)
    labels = np.where(y > 0.5, "out", "in")
    splitter = StratifiedKFold(3, shuffle=True, random_state=1)
    found = ReLUClassifierCV(n_lams=4, cv=splitter).fit(X, labels)
    assert found.lams_[0] == pytest.approx(covopt.lambda_max(X, labels, loss="logistic"))
    search = GridSearchCV(ReLUClassifier(), {"lam": found.lams_}, cv=splitter).fit(X, labels)
    means = search.cv_results_["mean_test_score"]
    assert found.lam_ == found.lams_[np.flatnonzero(means == means.max())[0]]
    assert set(found.predict(X)) == {"in", "out"}
    assert found.predict_proba(X).shape == (12, 2)
    losses = ReLUClassifierCV(n_lams=2, cv=2, scoring="neg_log_loss").fit(X, labels)
    assert (losses.scores_ < 0).all()


def test_weights_and_several_outputs():
    X, y = noisy(16)
    Y = np.column_stack([y, -y])
    both = ReLURegressorCV(n_lams=3, cv=2).fit(X, Y)
    assert both.predict(X).shape == (16, 2)
    twice = ReLURegressorCV(lams=[0.1, 0.01], cv=[(np.arange(8), np.arange(8, 16))])
    weights = np.where(np.arange(16) % 3, 1.0, 0.0)
    weighted = twice.fit(X, y, sample_weight=weights)
    kept = weights > 0
    first = ReLURegressor(lam=0.1).fit(X[:8][kept[:8]], y[:8][kept[:8]])
    error = np.mean((first.predict(X[8:][kept[8:]]) - y[8:][kept[8:]]) ** 2)
    assert weighted.scores_[0, 0] == pytest.approx(-error, rel=1e-3)


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


def test_lam_by_cross_validation():
    X, y = noisy(12)
    found = covopt.fit(X, y, lam="cv")
    assert found.status == "certified"
    share = found.lam / covopt.lambda_max(X, y)
    assert 1e-3 <= share <= 0.5
    assert ReLURegressor(lam="cv").fit(X, y).solution_.lam == found.lam
    held = covopt.path(X, y, lams=found.held_out.lams, folds=5, tol=0.1).held_out  # the same folds
    at = int(held.losses.mean(axis=1).argmin())
    assert held.best == found.lam
    said = f"R² {held.qualities[at].mean():.4f}, loss {held.losses[at].mean():.6g}: means over 5 folds"
    assert f"rows left out  {said}\n" in found.summary()
    assert covopt.fit(X, y, lam=found.lam).held_out is None


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
