"""Any network is an adversary: its own outputs are a table that it interpolates, at its norm."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.data import Data
from covopt.depth.layers import Layout
from covopt.depth.lower import closed_bounds

seeds = st.integers(0, 2**32 - 1)


def balanced(layout, theta):
    """Return the same function at nearly the least norm that rescaling neurons gives."""
    layers = [w.copy() for w in layout.split(theta)]
    for _ in range(30):
        for ell in range(layout.depth - 1):
            width = layout.widths[ell + 1]
            into, out = (
                np.linalg.norm(layers[ell], axis=1),
                np.linalg.norm(layers[ell + 1][:, :width], axis=0),
            )
            factor = np.sqrt(np.maximum(out, 1e-12) / np.maximum(into, 1e-12))
            layers[ell] *= factor[:, None]
            layers[ell + 1][:, :width] /= factor
    return np.concatenate([w.ravel() for w in layers])


@given(seeds, st.integers(3, 6), st.sampled_from([0.0, 1.0]), st.sampled_from(["none", "penalized", "free"]))
@settings(max_examples=50, deadline=None)
def test_closed_bounds_are_below_the_network_that_made_the_table(seed, depth, bias, output_bias):
    rng = np.random.default_rng(seed)
    output_bias = output_bias if bias > 0 else "none"
    n, d, k = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    layout = Layout((d, *rng.integers(1, 4, depth - 1).tolist(), k), bias, output_bias)
    theta = rng.standard_normal(layout.size) * rng.choice([0.0, 1.0], layout.size, p=[0.3, 0.7])
    theta = balanced(layout, theta)
    X = rng.standard_normal((n, d))
    Y = layout.forward(theta, X)[1][-1]
    norm = float((layout.charged * theta**2).sum())
    data = Data(X, Y, bias, tuple("abc"[:d]), tuple("yz"[:k]))
    for bound in closed_bounds(data, depth, output_bias):
        assert bound.value <= norm * (1 + 1e-9), bound.title
