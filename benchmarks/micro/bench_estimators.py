"""What the scikit-learn estimators make of many columns: processor seconds, status and gap, by rows and λ.

    python benchmarks/micro/bench_estimators.py [--check]

``--check`` runs ``check_estimator`` of the regressor, a minute or more.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.utils.estimator_checks import check_estimator

import covopt

SIZES = ((20, 5), (50, 10), (100, 5), (150, 4), (200, 10))
LAMBDAS = ("0.1max", "0.03max", 1e-3)


def main() -> None:
    """Print one line for each fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    covopt.ReLURegressor(time_limit_s=5.0).fit(
        np.random.default_rng(1).standard_normal((40, 10)), np.arange(40.0)
    )
    print("rows  columns  λ        seconds  status     gap      neurons  R²")
    for n, d in SIZES:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d))
        y = X[:, 0] + 0.3 * rng.standard_normal(n)
        for lam in LAMBDAS:
            began = time.process_time()
            model = covopt.ReLURegressor(lam).fit(X, y)
            found, seconds = model.solution_, time.process_time() - began
            print(
                f"{n:4d}  {d:7d}  {lam!s:8} {seconds:7.2f}  {found.status.code:9}  {found.gap:.1e}  "
                f"{len(found.network):7d}  {model.score(X, y):.2f}",
                flush=True,
            )
    if asked.check:
        for model in (covopt.ReLURegressor(), covopt.ReLURegressor("0.1max")):
            began = time.process_time()
            check_estimator(model)
            print(f"check_estimator({model!r}): {time.process_time() - began:.0f} s")


if __name__ == "__main__":
    main()
