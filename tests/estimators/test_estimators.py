"""The estimators: scikit-learn's own checks, the certificate they carry, and their place in pipelines."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import covopt
from covopt import MinNormReLURegressor, ReLUClassifier, ReLUClassifierCV, ReLURegressor, ReLURegressorCV
from covopt.api import run
from covopt.errors import NotCertifiedWarning
from covopt.estimators.base import BRIEF, merge_samples
from covopt.losses import Huber
from covopt.solvers.descent import Descent

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
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 4)), rng.standard_normal(12)
    efforts, conclude = [], run.conclude

    def asked(*arguments, effort, **options):
        efforts.append(effort)
        return conclude(*arguments, effort=0.0, **options)

    def found_by_search(self, options):
        point = next(iter(Descent(self.problem).run()))
        return replace(point, status=covopt.Status.HEURISTIC), "column-generation with local search"

    monkeypatch.setattr(run, "conclude", asked)
    monkeypatch.setattr(run.Run, "_point", found_by_search)
    model = ReLURegressor(lam=0.05).fit(X, y)
    assert model.solution_.status is covopt.Status.HEURISTIC
    assert efforts == [BRIEF]
    full = covopt.fit(X, y, lam=0.05)
    assert efforts[1:] == [1.0]
    assert full.objective == model.solution_.objective


def test_min_norm_regressor_is_min_norm():
    X = np.random.default_rng(1).standard_normal((12, 2))
    y = np.sin(X[:, 0])
    options = {"bias": 0.5, "output_bias": "penalized", "tol": 1e-7, "random_state": 3}
    model = MinNormReLURegressor(**options).fit(X, y)
    solution = covopt.min_norm(X, y, **options)
    assert (model.solution_.cost, model.solution_.lower_bound) == (solution.cost, solution.lower_bound)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-9)
    assert model.score(X, y) == pytest.approx(1.0)


def test_regressor_is_fit_with_the_mean_of_the_losses():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((10, 1)), rng.standard_normal((10, 2))
    model = ReLURegressor(lam=0.02, output_bias="free").fit(X, Y)
    by_hand = np.mean(((model.predict(X) - Y) ** 2).sum(axis=1)) + 0.02 * model.network_.squared_norm
    assert model.solution_.objective == pytest.approx(by_hand, rel=1e-12)
    other = covopt.fit(X, Y, lam=0.02, output_bias="free")
    assert model.solution_.objective == pytest.approx(other.objective, rel=2e-6)


def test_huber_takes_its_threshold_from_delta_or_a_loss():
    y = np.array([0.0, 1.0, 20.0])
    square = ReLURegressor(lam=0.05).fit(X1, y)
    tight = ReLURegressor(lam=0.05, loss="huber", delta=0.1).fit(X1, y)
    given_loss = ReLURegressor(lam=0.05, loss=Huber(0.1)).fit(X1, y)
    np.testing.assert_allclose(tight.predict(X1), given_loss.predict(X1))
    assert abs(tight.predict(X1)[2] - 20) > abs(square.predict(X1)[2] - 20)


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


def test_probabilities_are_those_of_the_losses():
    two = ReLUClassifier(lam=0.01).fit(X1, [5, 7, 5])
    np.testing.assert_allclose(two.predict_proba(X1)[:, 1], 1 / (1 + np.exp(-two.decision_function(X1))))
    three = ReLUClassifier(lam=0.01).fit(X1, [5, 7, 6])
    scores = np.exp(three.decision_function(X1))
    np.testing.assert_allclose(three.predict_proba(X1), scores / scores.sum(axis=1, keepdims=True))
    for model in (two, three):
        assert model.predict_proba(X1).sum(axis=1) == pytest.approx(1.0)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X1)), model.predict_proba(X1))
        best = model.classes_[model.predict_proba(X1).argmax(axis=1)]
        assert model.predict(X1).tolist() == best.tolist()
    assert np.isfinite(ReLUClassifier(lam=1e-4).fit(X1, [0, 1, 0]).predict_log_proba([[1e6]])).all()
    again = pickle.loads(pickle.dumps(two))
    np.testing.assert_array_equal(again.predict_proba(X1), two.predict_proba(X1))
    assert again.dual_gap_ == two.dual_gap_ and again.certificate_ == two.certificate_


def test_iris_with_three_classes_is_certified():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), ReLUClassifier(lam=0.01)).fit(X[::3, 2:], y[::3])
    assert model[-1].dual_gap_ <= 1e-6 and model.score(X[:, 2:], y) > 0.93


# ---------------------------------------------------------------------- weights of samples
def test_weights_are_repetitions():
    rng = np.random.default_rng(5)
    X, y, weights = rng.standard_normal((9, 2)), rng.standard_normal(9), rng.integers(0, 4, 9)
    one = ReLURegressor(lam=0.02).fit(X, y, sample_weight=weights)
    two = ReLURegressor(lam=0.02).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    direct = covopt.fit(X, y, lam=0.02, sample_weight=weights)
    assert one.solution_.objective == pytest.approx(direct.objective, rel=2e-6)


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


# ---------------------------------------------------------------------- company
def test_grid_search_over_a_pipeline():
    rng = np.random.default_rng(6)
    X = rng.uniform(-2, 2, (24, 1)) * 50
    y = np.abs(X[:, 0]) / 50 + 0.1 * rng.standard_normal(24)
    pipeline = make_pipeline(StandardScaler(), ReLURegressor())
    grid = {"reluregressor__lam": [1e-3, 1e-2, 10.0], "reluregressor__output_bias": ["none", "free"]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_["reluregressor__lam"] < 10 and search.best_score_ > 0.8
    assert search.best_estimator_[-1].dual_gap_ <= 1e-6


# ---------------------------------------------------------------------- λ, shapes, names, seeds
def test_shares_of_the_largest_lambda_and_targets_without_one():
    top = covopt.lambda_max(X1, Y1)
    assert ReLURegressor("0.1max").fit(X1, Y1).solution_.lam == pytest.approx(0.1 * top)
    assert not ReLURegressor(lam=1.01 * top).fit(X1, Y1).predict(X1).any()
    assert ReLURegressor(lam=0.9 * top).fit(X1, Y1).predict(X1).any()
    assert ReLUClassifier(lam=100.0).fit(X1, ["a", "b", "a"]).predict_proba(X1) == pytest.approx(0.5)
    assert not ReLURegressor().fit(X1, np.zeros(3)).predict(X1).any()
    constant = ReLURegressor(output_bias="free").fit(X1, np.full(3, 2.0))
    np.testing.assert_allclose(constant.predict(X1), 2.0)


def test_shapes_names_seeds_and_repeated_points():
    for estimator in (MinNormReLURegressor(), ReLURegressor()):
        for targets in (Y1, Y1[:, None], np.column_stack([Y1, -Y1])):
            assert clone(estimator).fit(X1, targets).predict(X1).shape == targets.shape
    frame = pd.DataFrame({"height": [-1.0, 0.0, 1.0], "width": [0.0, 2.0, 1.0]})
    model = MinNormReLURegressor().fit(frame, Y1)
    assert model.solution_.data.feature_names == ("height", "width") == tuple(model.feature_names_in_)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(frame.to_numpy())
    for seed in (None, 0, np.random.RandomState(0)):
        assert MinNormReLURegressor(random_state=seed).fit(X1, Y1).solution_.cost == pytest.approx(4.0)
    mean = MinNormReLURegressor(duplicates="mean").fit([[0.0], [0.0], [1.0]], Y1)
    assert mean.predict([[0.0]]) == pytest.approx(0.5) and "merged" in mean.solution_.data.notes[0]
