"""The estimators: scikit-learn's own checks, the certificate they carry, and λ chosen in every fold."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

import covopt
from covopt import MinNormReLURegressor, ReLUClassifier, ReLUClassifierCV, ReLURegressor, ReLURegressorCV
from covopt.api import run
from covopt.api.selection import fold_networks, held_out
from covopt.api.task import Task
from covopt.datasets import make_random_plane
from covopt.errors import CovoptWarning, NotCertifiedWarning, TableWarning
from covopt.estimators.base import BRIEF, merge_samples
from covopt.limits import TimeUp
from covopt.solvers.descent import Descent
from tests.cases import normal

X1 = np.array([[-1.0], [0.0], [1.0]])
Y1 = np.array([1.0, 0.0, 1.0])
ALL = [MinNormReLURegressor(), ReLURegressor(lam=0.01), ReLUClassifier(lam=0.01)]
FITS = [e for e in ALL if not isinstance(e, MinNormReLURegressor)]

# Tables with five to ten features, or hundreds of rows: no quick proof there, so a clock stops the fit.
UNPROVED = {
    "check_dtype_object", "check_estimators_dtypes", "check_positive_only_tag_during_fit",
    "check_regressor_data_not_an_array", "check_regressor_multioutput", "check_regressors_int",
    "check_regressors_train",
}  # fmt: skip

# Of these the ones with hundreds of rows and ten features, fitted again and again.
SLOW = {
    "check_classifiers_train", "check_positive_only_tag_during_fit", "check_regressor_data_not_an_array",
    "check_regressors_train",
}  # fmt: skip


# Two fits are compared, or their quality is judged: then both may finish, whatever the clock says.
COMPARES = {
    "check_sample_weight_equivalence_on_dense_data": {},
    "check_regressors_int": {"lam": 1.0},
    "check_regressor_data_not_an_array": {"lam": 30.0},
    "check_classifiers_train": {"lam": 0.1, "tol": 1e-3},  # accuracy is judged, not the last digits
}


SMALL = {"n_lams": 2, "cv": 2, "eps": 0.1}
# They share what they do with tables: each alone is asked what its name is about.
ABOUT = {
    ReLURegressor: ("",),
    ReLUClassifier: ("classif", "check_supervised_y_2d", "check_sample_weight"),
    MinNormReLURegressor: ("check_regressor", "check_fit2d_1"),
    ReLURegressorCV: ("",),
    ReLUClassifierCV: ("classif",),
}


def sklearn_checks():
    for kind, about in ABOUT.items():
        chosen = SMALL if kind in (ReLURegressorCV, ReLUClassifierCV) else {}
        for n, (free, check) in enumerate(estimator_checks_generator(kind(**chosen))):
            name = check.func.__name__
            if chosen and name in {*UNPROVED, *COMPARES}:
                continue
            finishes = name in COMPARES and kind is not MinNormReLURegressor
            limited = kind(time_limit_s=5.0 if name in SLOW else 0.5, **chosen)
            instance = kind(**COMPARES[name]) if finishes else limited if name in UNPROVED else free
            own = any(word in name for word in about) and name not in SLOW
            marks = [] if own else [pytest.mark.slow]
            yield pytest.param(instance, check, marks=marks, id=f"{kind.__name__}-{n}-{name}")


@pytest.mark.parametrize("kind", ABOUT)
def test_an_estimator_that_is_not_fitted_says_so(kind):
    with pytest.raises(NotFittedError):
        kind().predict([[0.0]])


@pytest.mark.thinned(4)
@pytest.mark.filterwarnings("ignore::covopt.errors.NotCertifiedWarning", "ignore::covopt.errors.TableWarning")
@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---------------------------------------------------------------------- the certificate
@pytest.mark.parametrize("estimator", ALL, ids=lambda e: type(e).__name__)
def test_fitted_attributes_carry_the_certificate(estimator):
    model = clone(estimator).fit(X1, Y1)
    assert model.solution_.status is covopt.Status.CERTIFIED
    assert 0 <= model.dual_gap_ <= model.tol and model.dual_gap_ == model.solution_.gap
    assert model.certificate_ is model.solution_.certificate and model.certificate_.gap <= model.tol
    assert model.network_ is model.solution_.network and model.n_iter_ == len(model.solution_.history)
    assert covopt.verify(model.solution_).ok
    assert model.n_features_in_ == 1 and not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("estimator", ALL, ids=lambda e: type(e).__name__)
def test_without_a_proof_they_warn(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.integers(0, 2, 60)
    model = clone(estimator).set_params(time_limit_s=1e-6, lam=1e-6) if estimator in FITS else None
    model = model or clone(estimator).set_params(time_limit_s=1e-6)
    text = (
        rf"{type(model).__name__} has no proof of optimality: the time limit was reached.*raise time_limit_s"
    )
    with pytest.warns(NotCertifiedWarning, match=text) as record:
        model.fit(X, y)
    assert record[0].filename == __file__
    assert model.dual_gap_ > model.tol
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.filterwarnings("ignore::covopt.errors.NotCertifiedWarning")
def test_a_hopeless_bound_gets_a_first_look_alone(monkeypatch):
    """After a local search estimators spend a fiftieth of the search of boxes, ``fit`` all of it."""
    X, y = make_random_plane(12, 4)
    efforts, conclude = [], run.Certifier.conclude

    def asked(*arguments, effort, **options):
        efforts.append(effort)
        return conclude(*arguments, effort=0.0, **options)

    def found_by_search(self, options):
        point = next(iter(Descent(self.problem).run()))
        return replace(point, status=covopt.Status.HEURISTIC), "column-generation with local search"

    monkeypatch.setattr(run.Certifier, "conclude", asked)
    monkeypatch.setattr(run.Run, "_point", found_by_search)
    model = ReLURegressor(lam=0.05).fit(X, y)
    assert model.solution_.status is covopt.Status.HEURISTIC
    assert efforts == [BRIEF]
    full = covopt.fit(X, y, lam=0.05)
    assert efforts[1:] == [1.0]
    assert full.objective == model.solution_.objective


# ---------------------------------------------------------------------- classification
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared-hinge"])
def test_two_classes(loss):
    model = ReLUClassifier(lam=0.01, loss=loss).fit(X1, ["out", "in", "out"])
    assert model.classes_.tolist() == ["in", "out"]
    assert model.predict(X1).tolist() == ["out", "in", "out"]
    scores = model.decision_function(X1)
    assert scores.shape == (3,) and ((scores > 0) == [True, False, True]).all()
    reference = covopt.fit(X1, [1, -1, 1], lam=0.01, loss=loss)
    assert model.solution_.objective == pytest.approx(reference.objective, rel=2e-6)
    assert hasattr(model, "predict_proba") == hasattr(model, "predict_log_proba") == (loss == "logistic")
    if loss == "hinge":
        with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as caught:
            model.predict_proba(X1)
        assert "loss='hinge' gives no probabilities" in str(caught.value.__cause__)


# ---------------------------------------------------------------------- weights of samples


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_merging_keeps_the_weighted_sums(seed, outputs):
    rng = np.random.default_rng(seed)
    X, Y = rng.integers(-1, 2, (20, 2)) * 1.0, rng.integers(0, 2, (20, outputs)) * 1.0
    Y = Y[:, 0] if outputs == 1 else Y
    weights = rng.integers(0, 3, 20) * 0.5
    x, y, w = merge_samples(X, Y, weights)
    assert (w > 0).all() and w.sum() == weights.sum()
    assert len(np.unique(np.column_stack([x, y]), axis=0)) == len(x)
    np.testing.assert_allclose(w @ np.column_stack([x, y]) ** 2, weights @ np.column_stack([X, Y]) ** 2)
    order = rng.permutation(20)
    for a, b in zip((x, y, w), merge_samples(X[order], Y[order], weights[order]), strict=True):
        np.testing.assert_array_equal(a, b)
    X, Y, none = merge_samples(X1[::-1], Y1, None)
    assert X.tolist() == X1[::-1].tolist() and Y is Y1 and none is None


# ----------------------- λ chosen along the path in every fold: against scikit-learn's own search.
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
    model = ReLUClassifierCV(n_lams=2, eps=0.05, cv=2, time_limit_s=0.3, output_bias="free")
    found = model.fit(X[few], y[few])
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
    X = normal(0, (30, 6))
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
