from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.network import DeepReLUNetwork, ReLUNetwork
from covopt.sparsify.layer import HiddenLayer, cells, merge_in_cells, merge_planar
from covopt.sparsify.reduction import caratheodory


def covariances(network, X):
    z = network.lift(X) @ network.hidden_weights.T
    a = np.maximum(z, 0)
    return z @ z.T, a @ a.T + network.bias**2


def pair(layer):
    z = layer.preactivations
    a = layer.activate(z)
    return z @ z.T, a @ a.T


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


def test_a_free_output_bias_takes_the_means_and_a_neuron():
    rng = np.random.default_rng(8)
    X, free = rng.standard_normal((6, 2)), random_network(rng, 60, 2, 1, offset=True, counts=False)
    assert len(free.reduce(X, preserve="outputs")) <= 5


def test_a_network_that_cannot_be_reduced_stays_itself():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6, 3))
    network = random_network(rng, 4, 3, 2)
    same = network.reduce(X)
    np.testing.assert_array_equal(same.hidden_weights, network.hidden_weights)
    np.testing.assert_array_equal(same.output_weights, network.output_weights)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_units_of_the_weights_do_not_matter(scale):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((5, 2))
    network = random_network(rng, 100, 2, 1)
    scaled = ReLUNetwork(network.hidden_weights * scale, network.output_weights / scale, 1.0)
    reference, small = network.reduce(X, preserve="outputs"), scaled.reduce(X, preserve="outputs")
    assert len(reference) == len(small) <= 5
    assert small.squared_norm == pytest.approx(reference.squared_norm, rel=1e-9)


def test_caratheodory_does_not_depend_on_the_units_of_a_column():
    rng = np.random.default_rng(0)
    atoms, weights = rng.random((3, 12)), rng.random(12)
    units = 10.0 ** rng.integers(-9, 10, 12)
    assert np.count_nonzero(caratheodory(atoms * units, weights / units)) <= 3


def test_feature_learning_example_cannot_go_below_its_cp_rank():
    # FL22 Prop 14 with Y = B_4: four neurons, one per edge of a square, however the optimum is split
    edges = np.array([[1.0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]])
    share = np.random.default_rng(6).dirichlet(np.ones(15), size=4).ravel()[:, None] ** 0.5
    split = ReLUNetwork(np.repeat(edges, 15, axis=0) * share, np.repeat(edges, 15, axis=0) * share, 0.0)
    for preserve in ("covariances", "outputs"):
        small = split.reduce(np.eye(4), preserve=preserve)
        assert len(small) == 4
        assert small.squared_norm == pytest.approx(4.0**2)
    np.testing.assert_allclose(split.predict(np.eye(4)), edges.T @ edges, atol=1e-12)


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


def test_opposite_signs_in_a_cell_stay_apart_without_vectors():
    X = [[1.0], [2.0]]
    net = ReLUNetwork(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0], [-1.0]]))
    assert len(net.merge(X)) == 2


def test_singular_vectors_merge_a_cell_with_vector_outputs():
    rng = np.random.default_rng(6)
    inputs = np.array([1.0, 0, 0, 0, 0]) + 1e-3 * rng.random((3, 5))  # the cell is almost a half space
    incoming = rng.standard_normal((40, 5))
    incoming[:, 0] = np.abs(incoming[:, 0]) + 0.1
    layer = HiddenLayer(inputs, incoming, rng.standard_normal((40, 2)))
    merged = merge_in_cells(layer)
    assert len(merged) == 2
    np.testing.assert_allclose(merged.outputs, layer.outputs, rtol=1e-12)
    assert merged.squared_norm == pytest.approx(
        2 * np.linalg.svd(layer.incoming.T @ layer.outgoing, compute_uv=False).sum()
    )


def test_singular_vectors_outside_the_cell_are_not_taken():
    # X = I: the cell is the quadrant; Y = [[2, 1], [1, 2]] needs both singular vectors (1, 1) and (1, −1)
    layer = HiddenLayer(np.eye(2), np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2))
    merged = merge_in_cells(layer)
    assert len(merged) == 2
    np.testing.assert_allclose(merged.outputs, layer.outputs, atol=1e-14)


def test_planar_cells_keep_two_neurons_and_the_pair():
    rng = np.random.default_rng(7)
    X = np.column_stack([np.sort(rng.standard_normal(5)), np.ones(5)])
    layer = HiddenLayer(X, rng.standard_normal((200, 2)), rng.standard_normal((200, 4)))
    merged = merge_planar(layer)
    assert len(merged) <= 4 * 5
    for old, new in zip(pair(layer), pair(merged), strict=True):
        np.testing.assert_allclose(new, old, atol=1e-12 * np.abs(old).max())
    np.testing.assert_allclose(merged.outputs, layer.outputs, atol=1e-12 * np.abs(layer.outputs).max())
    assert merged.squared_norm < layer.squared_norm


def test_kinks_on_points_join_a_cell_next_to_them():
    X = np.column_stack([[-1.0, 0.0, 1.0], np.ones(3)])
    groups = cells(HiddenLayer(X, np.array([[1.0, 0.0], [1.0, 0.5], [-1.0, 0.0]]), np.ones((3, 1))))
    assert sorted(map(len, groups)) == [1, 2]


def test_silent_neurons():
    X = [[1.0], [2.0]]
    net = ReLUNetwork(np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), np.array([[1.0], [1.0], [1.0]]))
    assert len(net.reduce(X)) == 2, "a neuron that is silent on the data counts in K"
    least = net.reduce(X, preserve="outputs")
    assert len(least) == 1
    np.testing.assert_allclose(least.predict(X), [1.0, 2.0])
    dead = ReLUNetwork(-np.ones((3, 2)), np.ones((3, 1)))
    assert len(dead.reduce(X, preserve="outputs")) == 0
    assert dead.reduce(X, preserve="outputs").predict(X).tolist() == [0.0, 0.0]


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 40), st.integers(1, 12))
def test_same_outputs_no_higher_cost_few_columns(seed, n, m, rank):
    rng = np.random.default_rng(seed)
    atoms = np.maximum(rng.standard_normal((n, min(rank, n))) @ rng.standard_normal((min(rank, n), m)), 0)
    weights = rng.standard_normal(m) * (rng.random(m) < 0.9)
    fewer = caratheodory(atoms, weights)
    size = np.abs(atoms).sum() * max(1.0, np.abs(weights).max())
    np.testing.assert_allclose(atoms @ fewer, atoms @ weights, atol=1e-10 * max(size, 1.0))
    assert np.abs(fewer).sum() <= np.abs(weights).sum() * (1 + 1e-9) + 1e-12
    assert (fewer * weights >= 0).all(), "signs stay"
    assert np.count_nonzero(fewer) <= n
    assert np.count_nonzero(fewer) <= np.linalg.matrix_rank(atoms, tol=1e-9) + np.count_nonzero(
        np.abs(atoms).max(axis=0) == 0
    )


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
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    options = {"slope": slope, "bias": 0.5, "counts_output_bias": counts}
    wide = random_deep(rng, (2, *widths, 2), biased=bool(seed % 2), **options)
    small = wide.reduce(X, preserve=preserve)
    assert all(1 <= a <= b for a, b in zip(small.widths, wide.widths, strict=True))
    scale = max(np.abs(z).max() for z in wide.representations(X))
    np.testing.assert_allclose(small.predict(X), wide.predict(X), atol=1e-9 * scale)
    assert small.squared_norm <= wide.squared_norm * (1 + 1e-9)
    assert [b is None for b in small.biases] == [b is None for b in wide.biases]
    assert options == {name: getattr(small, name) for name in options}


def test_sweeps_are_repeated_while_they_pay():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((6, 2))
    wide = random_deep(rng, (2, 60, 60, 60, 1))
    small = wide.reduce(X, preserve="outputs")
    again = small.reduce(X, preserve="outputs")
    assert again.squared_norm >= 0.95 * small.squared_norm
    np.testing.assert_allclose(again.predict(X), wide.predict(X), atol=1e-9 * np.abs(wide.predict(X)).max())


def test_two_layers_agree_with_the_shallow_network():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5, 2))
    shallow = ReLUNetwork(
        rng.standard_normal((90, 3)), rng.standard_normal((90, 2)), 1.0, np.array([1.0, 2.0])
    )
    deep = DeepReLUNetwork(
        [shallow.hidden_weights[:, :2], shallow.output_weights.T],
        [shallow.hidden_weights[:, 2], shallow.output_bias],
    )
    np.testing.assert_allclose(deep.predict(X), shallow.predict(X), atol=1e-12)
    assert deep.squared_norm == pytest.approx(shallow.squared_norm)
    for preserve in ("covariances", "outputs"):
        a, b = deep.reduce(X, preserve=preserve), shallow.reduce(X, preserve=preserve)
        assert a.widths == (len(b),)
        assert a.squared_norm == pytest.approx(b.squared_norm)


def test_a_silent_layer_keeps_one_neuron():
    net = DeepReLUNetwork([-np.ones((3, 1)), np.ones((2, 3))], [None, np.array([1.0, 2.0])])
    small = net.reduce([[1.0], [2.0]], preserve="outputs")
    assert small.widths == (1,)
    np.testing.assert_allclose(small.predict([[1.0], [2.0]]), [[1.0, 2.0], [1.0, 2.0]])
