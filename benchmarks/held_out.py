"""Held-out quality on twenty tables: the choice of a default λ, and covopt compared with scikit-learn's models.

    python -m benchmarks.held_out shares      # R² or accuracy by the share of λ_max, by descent in five folds
    python -m benchmarks.held_out models      # covopt, λ by cross-validation, and linear, kernel, forest, …

Columns are standardised on the training rows. The last lines of ``shares`` give the loss of each share relative to
the best one: the mean, the median and the ninth decile over the tables.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn import datasets, ensemble
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_validate
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from covopt import ReLUClassifierCV, ReLURegressorCV
from covopt.api.selection import held_out
from covopt.api.task import Task

SHARES = (0.3, 0.2, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002, 0.001)
Table = tuple[str, np.ndarray, np.ndarray, bool]


def tables() -> Iterator[Table]:
    """Yield name, inputs, targets, and whether the targets are classes."""
    X, y = datasets.load_diabetes(return_X_y=True)
    yield "diabetes", X, y, False
    yield "diabetes, bmi and s5", X[:, [2, 8]], y, False
    X, y = datasets.load_breast_cancer(return_X_y=True)
    yield "cancer", X, y, True
    yield "cancer, ten means", X[:, :10], y, True
    yield "radius of cancer", X[:, 4:10], X[:, 0], False
    X, y = datasets.load_wine(return_X_y=True)
    yield "wine", X, y, True
    yield "wine, five columns", X[:, :5], y, True
    yield "alcohol of wine", X[:, 1:], X[:, 0], False
    X, y = datasets.load_iris(return_X_y=True)
    yield "iris", X, y, True
    yield "petal width of iris", X[:, :3], X[:, 3], False
    X, y = datasets.load_digits(return_X_y=True)
    for first, second in ((0, 1), (3, 8)):
        pair = (y == first) | (y == second)
        yield f"digits {first} and {second}", X[pair], y[pair], True
    yield "digits, 600", X[:600], y[:600], True
    for name, noise in (("1", 1.0), ("2", 100.0), ("3", 0.1)):
        X, y = getattr(datasets, f"make_friedman{name}")(300, noise=noise, random_state=0)
        yield f"friedman {name}", X, y, False
    yield "moons", *datasets.make_moons(300, noise=0.25, random_state=0), True
    yield "circles", *datasets.make_circles(300, noise=0.15, factor=0.5, random_state=0), True
    yield (
        "made classes", *datasets.make_classification(400, 20, n_informative=5, flip_y=0.05, random_state=0), True
    )  # fmt: skip
    X, y = datasets.make_regression(200, 15, n_informative=6, noise=30.0, random_state=0)
    yield "made linear", X, y, False


def by_share() -> None:
    """Print the held-out quality of every share of λ_max, and its loss relative to the best."""
    lost = []
    print(f"{'table':<22}" + "".join(f"{share:>8g}" for share in SHARES))
    for name, X, y, of_classes in tables():
        count = len(np.unique(y))
        loss = ("logistic" if count == 2 else "softmax-cross-entropy") if of_classes else "squared"
        task = Task(X, y, loss, 1.0, "none", None, "variation", "auto", 1e-6, 0, standardised=True)
        seen = held_out(task, task.largest(5.0) * np.array(SHARES))
        quality = seen.qualities.mean(axis=1)
        lost.append(quality.max() - quality)
        print(f"{name:<22}" + "".join(f"{value:8.3f}" for value in quality), flush=True)
    lost = [np.mean(lost, axis=0), *np.quantile(lost, [0.5, 0.9], axis=0)]
    for name, values in zip(("mean", "median", "ninth decile"), lost, strict=True):
        print(f"{'lost, ' + name:<22}" + "".join(f"{value:8.4f}" for value in values))


def models(of_classes: bool) -> dict[str, object]:
    """Return the models by name; each chooses its own parameters."""
    grid = {"C": [0.1, 1.0, 10.0, 100.0]}
    options = {"n_lams": 10, "eps": 2e-3, "cv": 3, "time_limit_s": 3.0, "random_state": 0}
    if of_classes:
        return {
            "covopt": ReLUClassifierCV(scoring="neg_log_loss", **options),
            "linear": LogisticRegressionCV(cv=3, max_iter=2000),
            "kernel": GridSearchCV(SVC(), grid, cv=3),
            "forest": ensemble.RandomForestClassifier(random_state=0),
            "boosting": ensemble.GradientBoostingClassifier(random_state=0),
            "MLP": MLPClassifier(max_iter=1000, random_state=0),
        }

    def scaled(model: object) -> TransformedTargetRegressor:
        return TransformedTargetRegressor(model, transformer=StandardScaler())

    return {
        "covopt": ReLURegressorCV(output_bias="free", **options),
        "linear": RidgeCV(np.geomspace(1e-3, 1e3, 13)),
        "kernel": scaled(GridSearchCV(SVR(), grid, cv=3)),
        "forest": ensemble.RandomForestRegressor(random_state=0),
        "boosting": ensemble.GradientBoostingRegressor(random_state=0),
        "MLP": scaled(MLPRegressor(max_iter=2000, random_state=0)),
    }


def by_model(folds: int) -> None:
    """Print the held-out quality of each model, and its seconds."""
    close = total = 0
    for name, X, y, of_classes in tables():
        split = (StratifiedKFold if of_classes else KFold)(folds, shuffle=True, random_state=0)
        scoring = "accuracy" if of_classes else "r2"
        found = {
            each: cross_validate(make_pipeline(StandardScaler(), model), X, y, cv=split, scoring=scoring)
            for each, model in models(of_classes).items()
        }
        means = {each: run["test_score"].mean() for each, run in found.items()}
        if not total:
            print(f"{'table':<22}" + "".join(f"{each:>10}" for each in means) + f"{'seconds of covopt':>20}")
        cells = "".join(f"{value:10.3f}" for value in means.values())
        print(f"{name:<22}{cells}{found['covopt']['fit_time'].sum():20.1f}", flush=True)
        total, close = total + 1, close + (means["covopt"] >= max(means["linear"], means["kernel"]) - 0.01)
    print(f"covopt is within .01 of the better of linear and kernel on {close} of {total} tables")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["shares", "models"])
    parser.add_argument("--folds", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.what == "shares":
        by_share()
    else:
        by_model(asked.folds)
