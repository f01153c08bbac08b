import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.representations import neuron_rays


@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.0, 2.0))
def test_planted_rays_are_found(seed, n_rays, spread):
    rng = np.random.default_rng(seed)
    axes = np.eye(8)[rng.permutation(8)[:n_rays]]
    labels = np.concatenate([np.arange(n_rays), rng.integers(0, n_rays, 20)])
    sizes = rng.uniform(0.5, 3.0, len(labels))
    noise = rng.standard_normal((len(labels), 8))
    noise -= (noise * axes[labels]).sum(axis=1, keepdims=True) * axes[labels]
    noise *= np.tan(np.deg2rad(spread)) / np.linalg.norm(noise, axis=1, keepdims=True)
    neurons = sizes[:, None] * (axes[labels] + noise)
    found = neuron_rays(np.vstack([neurons, np.zeros((3, 8))]).T)
    assert len(found) == n_rays
    assert (found.share, found.n_live) == (1.0, len(labels))
    assert found.mass_share == pytest.approx(1.0)
    assert (found.labels[-3:] == -2).all()
    assert np.isnan(found.angles_deg[-3:]).all()
    assert found.angles_deg[:-3].max() <= 2 * spread + 1e-5
    for ray in range(n_rays):
        assert len({int(x) for x in found.labels[:-3][labels == ray]}) == 1


def test_a_given_number_of_rays_takes_the_heaviest():
    Z = np.array([[3.0, 3.0, 0.0, 1.0], [0.0, 0.01, 2.0, -1.0]])
    found = neuron_rays(Z, n_rays=2)
    assert found.labels.tolist() == [0, 0, 1, -1]
    assert (found.share, round(found.mass_share, 3)) == (0.75, 0.917)
    assert found.angles_deg[3] == pytest.approx(45.0, abs=0.1)
    empty = neuron_rays(np.zeros((3, 2)))
    assert (len(empty), empty.share, empty.mass_share, empty.n_live) == (0, 1.0, 1.0, 0)
