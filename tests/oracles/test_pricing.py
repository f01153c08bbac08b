"""covopt.price: bounds above exactly evaluated neurons, for tables of every kind."""

import subprocess
import sys

import numpy as np
import pytest

import covopt


def test_scales_change_the_values_only():
    rng = np.random.default_rng(3)
    X, dual = rng.standard_normal((6, 2)), rng.standard_normal(6)
    plain = covopt.price(X, dual)
    huge = covopt.price(X * 2.0**700, dual * 2.0**-300)
    assert huge.upper_bound == plain.upper_bound * 2.0**400
    assert np.array_equal(huge.neurons, plain.neurons)


def test_nothing_to_price():
    answer = covopt.price([[1.0, 2.0]], [0.0])
    assert (answer.upper_bound, answer.exact, answer.values.tolist()) == (0.0, True, [0.0])
    assert covopt.price([[0.0]], [[1.0, 2.0]]).upper_bound == 0.0


@pytest.mark.slow
def test_ten_outputs_of_digits_are_bounded_in_little_memory():
    code = (
        "import resource, numpy as np, covopt; from sklearn.datasets import load_digits; "
        "X, label = load_digits(return_X_y=True); dual = 0.1 - np.eye(10)[label]; "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "found = covopt.price(X / 16.0, dual / len(X), max_nodes=1000); "
        "best = np.linalg.norm(np.maximum(X / 16.0 @ found.neurons[0], 0.0) @ dual) / len(X); "
        "assert abs(found.values[0] - best) < 1e-9 and best <= found.upper_bound <= 3.0 * best; "
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)"
    )
    pytest.importorskip("sklearn")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 400.0  # MiB; the relaxation of all outputs at once took 4.7 GB
