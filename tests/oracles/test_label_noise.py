"""Label-noise oracles and certified bounds: against brute force on all faces, and neurons valued in integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.adversary.exactly import whole
from benchmarks.adversary.neurons import best_neuron
from covopt.certificates.dual_norms import LabelNoiseDualNorm
from covopt.data import Data
from covopt.oracles import label_noise, label_noise_faces
from covopt.oracles.face_lattice import build_lattice
from covopt.oracles.label_noise import LabelNoiseOracle
from covopt.oracles.lattice_proof import prove_lattice, sines_of_flats
from covopt.potentials import LabelNoise
from covopt.problems.label_noise import reduce_label_noise
from tests.bank.arrangement import Arrangement
from tests.cases import drawn
from tests.oracles.table import AWKWARD, CLEAR

both = pytest.mark.parametrize("potential", (LabelNoise(), LabelNoise(exact=True)), ids=lambda p: p.name)


def degenerate(seed):
    """Integer points: collinear ones, opposite ones without bias, zero rows, repeated rows."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 3))
    bias = bool(rng.integers(0, 2)) or d == 1
    while True:
        rows = rng.integers(-2, 3, size=(int(rng.integers(3, 8)), d)).astype(float)
        rows = np.column_stack([rows, np.ones(len(rows))]) if bias else rows
        if np.linalg.matrix_rank(rows) == rows.shape[1]:
            return rows, rng.integers(-3, 4, size=len(rows)).astype(float)


def check(rows, dual, potential, oracle=None):
    """The oracle's bound is the maximum over all faces, one of its neurons attains it, all are local maxima."""
    answer = (oracle or LabelNoiseOracle(rows, potential)).price(dual)
    truth = Arrangement(rows).dual_norm(dual, potential.name)
    assert truth * (1 - 1e-12) <= answer.upper_bound <= truth * (1 + 1e-9) + 1e-12
    assert abs(answer.values[0]) == pytest.approx(truth, rel=1e-9, abs=1e-12)
    return answer


@both
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_exact_on_degenerate_rows(potential, seed):
    check(*degenerate(seed), potential)


@both
@pytest.mark.parametrize(("n", "rank"), [(6, 1), (9, 2), (8, 3), (7, 4)])
def test_exact_on_random_rows_with_neurons_that_are_local_maxima(potential, n, rank):
    rng, rows, dual = drawn(n * rank, (n, rank), n)
    oracle = LabelNoiseOracle(rows, potential)
    answer = check(rows, dual, potential, oracle)
    np.testing.assert_allclose(potential.weigh(rows, answer.neurons), 1.0, rtol=1e-12)
    reached = np.maximum(answer.neurons @ rows.T, 0) @ dual
    np.testing.assert_allclose(reached, answer.values, rtol=1e-9, atol=1e-12)
    for neuron, value in zip(answer.neurons, answer.values, strict=True):
        near = neuron + 1e-5 * np.linalg.norm(neuron) * rng.standard_normal((2000, rank))
        reached = (np.maximum(near @ rows.T, 0) @ dual) / potential.weigh(rows, near)
        assert (np.sign(value) * reached).max() <= abs(value) * (1 + 1e-7)
    again = oracle.price(dual, threshold=np.inf)  # with what the first call left behind
    assert len(again.values) == 1
    assert again.upper_bound == pytest.approx(answer.upper_bound, rel=1e-12)
    assert abs(again.values[0]) == pytest.approx(answer.upper_bound, rel=1e-9)


@both
def test_repeated_rows_are_weights(potential):
    rng = np.random.default_rng(3)
    rows, dual, counts = rng.standard_normal((6, 2)), rng.standard_normal(6), [1, 2, 1, 3, 1, 1]
    first = LabelNoiseOracle(rows, potential, sample_weight=np.array(counts) / 9).price(dual)
    repeated = LabelNoiseOracle(np.repeat(rows, counts, axis=0), potential, kept=np.cumsum([0, *counts[:-1]]))
    assert first.upper_bound == pytest.approx(repeated.price(dual).upper_bound, rel=1e-9)


TABLES = CLEAR | AWKWARD


@pytest.mark.thinned(3)
@both
@pytest.mark.parametrize("kind", [kind for kind in TABLES if kind not in ("wide", "huge", "tiny")])
def test_no_bound_is_below_the_best_neuron_in_integers(kind, potential):
    decided = 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = TABLES[kind](rng, 5, 2)
        dual = rng.standard_normal(len(X))
        data = Data.validate(X, dual, bias=10.0 ** rng.uniform(-6, 2) if seed else 1.0)
        task = reduce_label_noise(data, "none", potential)[1]
        dual_norm = LabelNoiseDualNorm(task)
        full = np.where(np.isin(np.arange(len(X)), dual_norm.keep), dual, 0.0)
        found = dual_norm.bound(full[dual_norm.keep, None], effort=0.2)
        witness = best_neuron(data.lifted, full, rng, potential.name)
        assert not witness.exceeds(found.value)
        assert np.isfinite(task.oracle().price(full[dual_norm.keep]).upper_bound)
        if found.exact:
            decided += 1
            assert found.value <= witness.value * (1 + 1e-6)
    assert decided or kind in AWKWARD


def test_allowances_are_needed(monkeypatch):
    """The test above can fail: without γ and without the misses of rows and flats some bound is too low."""
    monkeypatch.setattr(label_noise_faces, "gamma", lambda n: 0.0)
    monkeypatch.setattr(label_noise_faces, "SLIP", 0.0)
    monkeypatch.setattr(
        label_noise_faces, "sines_of_flats", lambda _, level, __: (np.zeros(len(level.bases)), True)
    )
    monkeypatch.setattr(label_noise, "gamma", lambda n: 0.0)
    monkeypatch.setattr(label_noise, "misses_up", lambda rows, *_: np.zeros(len(rows)))

    def is_too_low(seed):
        rng = np.random.default_rng(seed)
        rows, dual = np.column_stack([rng.standard_normal((5, 2)), np.ones(5)]), rng.standard_normal(5)
        bound = LabelNoiseOracle(rows, LabelNoise()).price(dual).upper_bound
        return best_neuron(rows, dual, np.random.default_rng(0), "label-noise").exceeds(bound)

    assert any(map(is_too_low, range(12)))


def test_the_bound_by_lengths_pays_for_its_roots_and_quotients():
    """Of one row |⟨λ, a⟩|/ω is |λ|/(q|x̃|) for the exact potential."""
    for dual, q, length in np.random.default_rng(0).uniform(0.5, 1.0, (100, 3)):
        found = label_noise.by_length_up(*np.array([[dual], [q], [length]]))
        assert Fraction(found) * Fraction(q) * Fraction(length) >= Fraction(dual)


def test_flats_of_nearly_dependent_rows_may_be_far_off():
    rng = np.random.default_rng(3)
    for power in range(-14, -2, 2):
        rows = rng.standard_normal((4, 3))
        rows[1] = rows[0] + 10.0**power * rng.standard_normal(3)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        lattice = build_lattice(rows)
        rays = lattice.levels[0]
        misses, _ = sines_of_flats(rows, rays, np.zeros(4))
        for flat, normals in enumerate(rays.normals):
            w = np.cross(*whole(rows[normals])[0]).astype(float)
            w /= np.linalg.norm(w)
            off = np.linalg.norm(w - rays.bases[flat] @ (rays.bases[flat].T @ w))
            assert misses[flat] >= off - 4e-16
        assert misses.max() < 1e-13 / 10.0**power or power < -7


def test_a_lattice_of_other_rows_is_no_proof():
    rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.5, 0.5, 1.0], [1.0, 1.0, 1.0], [0.25, 0.75, 1.0]])
    turned = rows @ np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    lattice, unsure = build_lattice(turned), np.full(5, 1e-15)
    # dependent by rounding, for all these rows tell
    assert not prove_lattice(turned, lattice, unsure=unsure).proved
    assert prove_lattice(turned, lattice, unsure=unsure, given=rows).proved
    assert not prove_lattice(turned, lattice, unsure=np.full(5, 0.05), given=rows).proved
    bent = rows.copy()
    bent[2, 0] = np.nextafter(0.5, 1.0)  # three points on a line no more
    assert not prove_lattice(turned, lattice, unsure=unsure, given=bent).proved
    assert LabelNoiseOracle(rows, LabelNoise()).is_proved(rows)
    assert not LabelNoiseOracle(rows, LabelNoise()).is_proved(bent)
    twice = np.concatenate([rows, 3.0 * rows[:1]])
    assert LabelNoiseOracle(twice, LabelNoise()).is_proved(twice)
    beside = twice.copy()
    beside[5, 0] = np.nextafter(3.0, 4.0)  # parallel no more
    assert not LabelNoiseOracle(twice, LabelNoise()).is_proved(beside)
