from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.network import DeepReLUNetwork, ReLUNetwork
from covopt.sparsify.reduction import caratheodory
from tests.cases import drawn


def covariances(network, X):
    z = network.lift(X) @ network.hidden_weights.T
    a = np.maximum(z, 0)
    return z @ z.T, a @ a.T + network.bias**2


def random_network(rng, m, d, k, *, bias=1.0, offset=False, counts=True):
    shift = rng.standard_normal(k) if offset else np.zeros(k)
    hidden, output = rng.standard_normal((m, d + (bias > 0))), rng.standard_normal((m, k))
    return ReLUNetwork(hidden, output, bias, shift, counts)


def assert_same(old, new, X, *, keeps_pair):
    outputs = old.predict(X)
    np.testing.assert_allclose(new.predict(X), outputs, atol=1e-9 * max(np.abs(outputs).max(), 1e-300))
    assert new.squared_norm <= old.squared_norm * (1 + 1e-9)
    if keeps_pair:
        for before, after in zip(covariances(old, X), covariances(new, X), strict=True):
            assert np.linalg.norm(after - before) <= 1e-9 * np.linalg.norm(before)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 4), st.integers(0, 60), st.integers(1, 4),
    st.sampled_from([0.0, 1.0, 0.3]), st.booleans(), st.booleans(), st.sampled_from(["covariances", "outputs"]),
)  # fmt: skip
def test_what_is_preserved(seed, n, d, m, k, bias, offset, counts, preserve):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (n, d)) * 1.0 if seed % 2 else rng.standard_normal((n, d))
    network = random_network(rng, m, d, k, bias=bias, offset=offset and bias > 0, counts=counts)
    network.hidden_weights[rng.random(m) < 0.2] = 0.0
    if m > 4:
        network.hidden_weights[1] = 3 * network.hidden_weights[0]
        network.hidden_weights[2] = -network.hidden_weights[0]
    small = network.reduce(X, preserve=preserve)
    assert_same(network, small, X, keeps_pair=preserve == "covariances")
    r = np.linalg.matrix_rank(network.lift(X))
    if preserve == "covariances":
        assert len(small) <= r * (r + 1) // 2 + n * (n + 1) // 2
    else:
        q = min(n, k)
        assert len(small) <= n * q - q * (q - 1) // 2
    assert small.counts_output_bias is counts
    assert (offset and bias > 0) or not counts or not small.output_bias.any()
    again = small.reduce(X, preserve=preserve)
    assert len(again) <= len(small)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 80))
def test_merge_on_a_line_is_proposition_15(seed, n, m):
    rng = np.random.default_rng(seed)
    X = np.unique(rng.integers(-6, 7, n))[:, None] * 1.0
    wide = random_network(rng, m, 1, 1)
    merged = wide.merge(X)
    assert len(merged) <= 4 * len(X) - 2
    assert_same(wide, merged, X, keeps_pair=False)
    into, out = np.linalg.norm(merged.hidden_weights, axis=1), np.abs(merged.output_weights[:, 0])
    np.testing.assert_allclose(into, out, rtol=1e-9)
    assert len(wide.reduce(X, preserve="outputs")) <= len(X)


# ---------------------------------------------------------------------- deep networks
def random_deep(rng, shape, *, biased=True, **options):
    weights = [rng.standard_normal((b, a)) / np.sqrt(a) for a, b in pairwise(shape)]
    biases = [rng.standard_normal(len(w)) if biased else None for w in weights]
    return DeepReLUNetwork(weights, biases, **options)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 5), st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sampled_from(["covariances", "outputs"]), st.sampled_from([0.0, 0.3, -0.6]), st.booleans(),
)  # fmt: skip
def test_any_depth(seed, n, widths, preserve, slope, counts):
    rng, X = drawn(seed, (n, 2))
    options = {"slope": slope, "bias": 0.5, "counts_output_bias": counts}
    wide = random_deep(rng, (2, *widths, 2), biased=bool(seed % 2), **options)
    small = wide.reduce(X, preserve=preserve)
    assert all(1 <= a <= b for a, b in zip(small.widths, wide.widths, strict=True))
    scale = max(np.abs(z).max() for z in wide.representations(X))
    np.testing.assert_allclose(small.predict(X), wide.predict(X), atol=1e-9 * scale)
    assert small.squared_norm <= wide.squared_norm * (1 + 1e-9)
    assert [b is None for b in small.biases] == [b is None for b in wide.biases]
    assert options == {name: getattr(small, name) for name in options}


@pytest.mark.parametrize("seed", range(3))
def test_caratheodory_keeps_outputs_to_rounding_where_atoms_are_nearly_dependent(seed):
    rng = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(rng.standard_normal((60, 200)), full_matrices=False)
    atoms, weights = (left * np.geomspace(1.0, 1e-12, 60)) @ right, rng.uniform(0.0, 1000.0, 200)
    fewer = caratheodory(atoms, weights)
    drift = np.abs(atoms @ (fewer - weights)).max()
    assert np.count_nonzero(fewer) <= 60 and drift <= 1e-14 * np.abs(atoms @ weights).max()
