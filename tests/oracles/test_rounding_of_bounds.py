"""Bounds by factorisations on hostile numbers, against the same formulas in fractions: rounding only raises them."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.adversary.neurons import best_neuron
from covopt.exact.definite import (
    definite_up,
    descent_share,
    product_error_up,
    quadratic_up,
    singular_values_between,
    spectrum_error_up,
    top_eigenvalue_up,
)
from covopt.exact.rank import FOUND
from covopt.exact.rounding import gamma
from covopt.oracles import lagrangian, one_sided
from covopt.oracles.boxes.sphere_form import Sign
from covopt.oracles.faces import FaceOracle
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.one_sided import from_above, from_below, quadratics, quartics
from covopt.oracles.sign_tree import bound_node, workspace
from tests.oracles.table import is_above, objects

KINDS = ("plain", "clusters", "sizes", "integers")


def hostile(rng, kind, n, r):
    """Rows of size about one whose products cancel, or that nearly depend on each other."""
    rows = rng.standard_normal((n, r))
    if kind == "clusters":
        rows = rows[rng.integers(0, 2, n)] + 10.0 ** rng.uniform(-16, -3) * rng.standard_normal((n, r))
    if kind == "sizes":
        rows *= 10.0 ** rng.uniform(-12, 0, r)
    if kind == "integers":
        rows = rng.integers(-2, 3, (n, r)).astype(float)
    return np.where(rows.any(axis=1)[:, None], rows, 1.0)


def is_definite(matrix):
    """Whether a symmetric matrix of fractions is positive semidefinite: LDLᵀ, nothing rounded."""
    left = [list(row) for row in matrix]
    for k in range(len(left)):
        if left[k][k] < 0 or (left[k][k] == 0 and any(left[i][k] for i in range(k + 1, len(left)))):
            return False
        for i in range(k + 1, len(left)):
            if left[k][k]:
                factor = left[i][k] / left[k][k]
                left[i] = [a - factor * b for a, b in zip(left[i], left[k], strict=True)]
    return True


def lifted(matrix, delta, sign=1):
    """sign · A + δ in fractions, the lower triangle counts."""
    return sign * objects(np.tril(matrix) + np.tril(matrix, -1).T) + delta * objects(np.eye(len(matrix)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [0, -300, 300])
def test_a_matrix_becomes_definite(kind, power):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = hostile(rng, kind, 4, 3)
        gram = rows @ rows.T  # of rank three, so that rounding decides
        matrix = np.ldexp(gram - (seed % 3) * np.eye(4) * 0.1, power)
        least = float(np.linalg.eigvalsh(matrix)[0])
        delta = definite_up(matrix)
        assert is_definite(lifted(matrix, Fraction(delta)))
        rounding = 1e-12 * np.trace(np.abs(matrix)) + np.ldexp(1e-12, power)
        assert delta <= 4.0 * max(0.0, -least) * (1 + 1e-9) + rounding
        top = float(np.linalg.eigvalsh(matrix)[-1])
        found = top_eigenvalue_up(matrix, top)
        assert is_definite(lifted(matrix, Fraction(found), -1))
        assert found <= top + 1e-12 * np.abs(matrix).sum()


def test_what_a_factorisation_is_rounded_by_is_paid():
    """Cholesky's runs through for matrices that are not definite, by a few units: the first shift leaves them so."""
    for a, b in np.random.default_rng(0).uniform([0.5, 0.3], [1.0, 0.7], (40, 2)):
        shift = gamma(12) * (a + b * b / a)
        for units in range(-8, 9):  # of A + sI, beside a singular one
            matrix = np.array([[a - shift, b], [b, b * b / a - shift + units * 2.0**-54]])
            assert is_definite(lifted(matrix, Fraction(definite_up(matrix))))


@pytest.mark.parametrize("off", [1e-6, -1e-6, 0.0])
def test_factors_of_singular_values_are_not_believed(monkeypatch, off):
    """Factors that are too long by as much as the values are too small, or values that are wrong."""
    matrix = np.diag([0.75, 0.25])
    long, scale = 1.0 + off, 1.0 / (1.0 + off)
    for wrong in ([0.75 * scale, 0.25 * scale], [0.75 - 1e-7, 0.25 + 1e-7]):
        svd = long * np.eye(2), np.array(wrong), np.eye(2)
        with monkeypatch.context() as patch:
            patch.setattr(np.linalg, "svd", lambda *_, found=svd, **__: found)
            low, high = singular_values_between(matrix)
        assert (low <= [0.75, 0.25]).all() and (high >= [0.75, 0.25]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_quadratic_on_the_sphere(kind):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows = hostile(rng, kind, 5, 3)
        matrix = (rows.T * rng.uniform(-1, 1, 5)) @ rows
        matrix = np.tril(matrix) + np.tril(matrix, -1).T
        linear = rng.uniform(-1, 1, 5) @ rows
        level = float(np.linalg.eigvalsh(matrix)[-1]) + 10.0 ** rng.uniform(-14, 1)
        best = 0.25 * float(linear @ np.linalg.solve(level * np.eye(3) - matrix, linear))
        height = max(best, 0.0) if seed % 2 else 0.0  # also one that is no bound at all
        found = Fraction(quadratic_up(matrix, linear, level, height))
        # wᵀMw + b·w ≤ ν + t for every split of it that makes the block matrix definite
        split = Fraction(level) + (found - Fraction(level) - Fraction(height)) / 2
        half = objects(linear)[:, None] / -2
        block = np.block([[lifted(matrix, split, -1), half], [half.T, found - split]])
        w = rng.standard_normal((4000, 3))
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        values = np.einsum("ij,jk,ik->i", w, matrix, w) + w @ linear
        assert values.max() <= float(found) + 1e-12 * np.abs(matrix).sum()
        assert is_definite(block)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_a_product(kind):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        first, second = hostile(rng, kind, 6, 3), hostile(rng, kind, 6, 2)
        off = objects(first).T @ objects(second) - objects(first.T @ second)
        square = (off**2).sum()
        assert Fraction(product_error_up(first, second)) ** 2 >= square


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_a_node_is_above_its_formula(kind):
    """ν + ¼ bᵀ(ν − Q)⁻¹b + ¼ Σ μτ with the multipliers that the node is left with; ‖b‖ where all is decided."""
    tight = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n, r = int(rng.integers(3, 9)), int(rng.integers(2, 4))
        rows = hostile(rng, kind, n, r)
        mu = rng.standard_normal(n) / n
        state = np.where(
            mu > 0,
            rng.choice([Sign.FREE, Sign.ON, Sign.OFF] if seed % 3 else [Sign.ON, Sign.OFF], n),
            Sign.CONCAVE,
        ).astype(np.int8)
        squares = (rows**2).sum(axis=1)
        coef, tau = np.where(mu > 0, 0.5 * mu, 0.0), np.sqrt(squares / r)
        bound, nu, _ = bound_node(
            rows, mu, state, coef, tau, 0.5, squares, 0.0, 12, descent_share(n, r), workspace(n, r)
        )
        exact = objects(rows)
        b = objects(coef) @ exact
        free = np.where(state == Sign.FREE, objects(mu), 0)
        if not free.any():
            square = b @ b
            assert Fraction(float(bound)) ** 2 >= square
            tight += float(bound) ** 2 <= float(square) * (1 + 1e-9) + 1e-20
            continue
        level, paid = Fraction(float(nu)), free @ objects(tau) / 4
        form = level * objects(np.eye(r)) - (exact.T * (free / objects(tau) / 4)) @ exact
        for top, holds in (
            (Fraction(float(bound)), True),
            (Fraction(float(bound)) * (1 - Fraction(1, 10**9)), False),
        ):
            # positive semidefinite where ``top`` is not below the formula
            definite = is_definite(np.block([[form, b[:, None] / 2], [b / 2, top - level - paid]]))
            assert definite or not holds
            tight += not (holds or definite)
    assert tight >= 20


def on_a_kink(rng, rows, dual):
    """Change one multiplier so that the gradient of a cell lies on the circle of another row, to rounding."""
    w = rng.standard_normal(3)
    active = np.flatnonzero(rows @ w > 0)
    if len(active) < 2:
        return dual
    i, j = active[0], int(rng.integers(len(rows)))
    weight = float(rows[i] @ rows[j])
    gradient = dual[active] @ rows[active] - dual[i] * rows[i]
    found = dual.copy()
    found[i] = -float(gradient @ rows[j]) / weight if weight else dual[i]
    return found


def awkward(rng, kind):
    """Six rows in three dimensions whose crossings rounding confuses, and a dual."""
    rows, dual = rng.standard_normal((6, 3)), rng.standard_normal(6)
    if kind == "close":
        rows[3:] = rows[:3] + 10.0 ** rng.uniform(-8, -4) * rng.standard_normal((3, 3))
    if kind == "lines":  # circles that nearly meet in one point
        rows[3:] = rng.standard_normal((3, 2)) @ rows[:2]
        rows[3:] += 10.0 ** rng.uniform(-18, -5) * rng.standard_normal((3, 3))
    if kind == "lattice":
        places = rng.choice(9, 6, replace=False)
        rows = np.column_stack([places // 3 / 7.3 - 0.1, places % 3 / 1.7 - 0.4, np.ones(6)])
    if kind == "peak":  # weak convex circles through the maximum of the others
        best = FaceOracle(rows[:3]).price(dual[:3])
        peak, side = best.neurons[0], np.sign(best.values[0])
        rows[3:] -= np.outer(rows[3:] @ peak, peak)
        rows[3:] += np.outer(10.0 ** rng.uniform(-17, -6) * rng.standard_normal(3), peak)
        dual[3:] = side * 10.0 ** rng.uniform(-16, -3, 3)
    if kind in ("close", "lines"):
        dual[3:] = -dual[:3] * (1 + 1e-3 * rng.standard_normal(3))
    return rows, dual if kind == "peak" else on_a_kink(rng, rows, dual)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", ["plain", "close", "cancels", "lines", "lattice", "peak"])
def test_the_faces_in_three_dimensions_hold_against_all_neurons(kind):
    """The proved bound against the exact best of all faces: never below it, and no box is needed to see it."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows, dual = awkward(rng, kind)
        oracle = FaceOracle(rows)
        hint = oracle.bound(dual)
        bound = oracle.proved_bound(dual, (1 + FOUND) * hint)
        if bound is None:  # rows too close to each other
            assert kind == "close"
            continue
        witness = best_neuron(rows, dual, rng, "variation")
        assert not witness.exceeds(bound), (seed, bound, witness.value)
        assert not witness.exceeds(hint), (seed, hint, witness.value)
        assert bound <= witness.value * (1 + (2 * FOUND if kind == "close" else 1e-12))


def cancelling(rng, n, r, k, size=1e8):
    """Rows in one half space whose sum of dual times row nearly vanishes, so that only rounding is left of it."""
    rows = np.abs(rng.standard_normal((n, r))) + 0.1
    dual = size * rng.standard_normal((n, k))
    for _ in range(3):
        dual -= rows @ np.linalg.solve(rows.T @ rows, rows.T @ dual)
    return rows, dual


def test_an_eigenvalue_is_no_bound_before_its_rounding_is_paid():
    """Of one row h = ‖Λ‖‖z‖ is the eigenvalue without multipliers, and rounding puts it below that."""
    rng, missed = np.random.default_rng(5), 0
    for _ in range(40):
        rows, dual = rng.standard_normal((1, 4)), rng.standard_normal((1, 3))
        form = lagrangian.LiftedForm(rows, dual)
        form.best = 0.0 * form.multipliers
        form.top = float(form.tops(*form.parts(form.best), 0.0)[0][-1])
        missed += not is_above(rows, dual, rows[0], form.value)
        assert is_above(rows, dual, rows[0], form.proved())
        assert form.proved() < (1.0 + 1e-10) * form.value
    assert missed > 8


@pytest.fixture
def form():
    rng = np.random.default_rng(0)
    made = lagrangian.LiftedForm(rng.standard_normal((6, 3)), rng.standard_normal((6, 2)))
    made.improve(3)
    return made


def test_every_multiplier_pays_for_the_rounding_of_its_slots(form):
    before, share = form.proved(), 1e-3
    form.slips = np.full(6, share)
    free, A, B = form.read(form.best)
    weights = 2.0 * A @ B.T
    weights[np.arange(6), np.arange(6) + 6] += np.abs(free)
    assert form.proved() ** 2 >= before**2 + (2.0 * share + share**2) * weights.sum()
    assert form.proved() ** 2 <= before**2 + 1.01 * (2.0 * share + share**2) * weights.sum()


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("lost", lambda form: form.lost + 1.0, lambda before: before + 1.0),
        ("stretch", lambda form: 2.0 * form.stretch, lambda before: 2.0 * before),
        ("allowance", lambda form: lambda *_: 1.0, lambda before: np.hypot(before, 1.0)),
        ("top_eigenvalue_up", lambda form: lambda _, top: 4.0 * top, lambda before: 2.0 * before),
    ],
)
def test_what_an_eigenvalue_is_paid_with_counts(form, monkeypatch, name, value, least):
    before = form.proved()
    monkeypatch.setattr(form if hasattr(form, name) else lagrangian, name, value(form))
    assert form.proved() >= least(before) * (1.0 - 1e-9)


def test_the_eigenvalue_bound_pays_relative_to_what_cancels():
    """Where Σ Λ_i z_i nearly vanishes, Dx is rounding alone, and what it misses of Λᵀp has to be paid."""
    rng, needed = np.random.default_rng(11), 0
    for _ in range(12):
        rows, dual = cancelling(rng, int(rng.integers(12, 41)), 3, 2)
        form = lagrangian.LiftedForm(rows, dual)
        form.improve(3)
        found = form.proved()
        for w in (*np.eye(3), np.ones(3), *np.abs(rng.standard_normal((5, 3)))):
            assert is_above(rows, dual, w, found)
            t = np.linalg.solve(form.root, w)
            x = np.concatenate([t, 0.5 * np.abs(rows @ w) / form.coefficients])
            reached, norm = float(np.linalg.norm(form.objective @ x)), float(np.linalg.norm(x))
            size = float(np.linalg.norm(w))
            assert is_above(rows, dual, w, (reached + form.lost * norm) / size * (1.0 + 1e-12))
            needed += not is_above(rows, dual, w, reached / size)
    assert needed > 8


@pytest.mark.parametrize("kind", KINDS)
def test_eigenvalues_are_as_far_off_as_measured(kind):
    """λ + δ is above and λ − δ below the spectrum, also where the decomposition is another matrix's."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = hostile(rng, kind, 4, 3)
        form = rows @ rows.T
        values, vectors = np.linalg.eigh(form)
        if seed % 2:
            values = values + 10.0 ** rng.uniform(-9, -3) * rng.standard_normal(4)
            vectors = vectors + 10.0 ** rng.uniform(-9, -5) * rng.standard_normal((4, 4))
        delta, turn = (float(x) for x in spectrum_error_up(form, values, vectors))
        exact, shift = objects(form), Fraction(delta) * objects(np.eye(4))
        assert is_definite(Fraction(float(values.max())) * objects(np.eye(4)) + shift - exact)
        assert is_definite(exact + shift - Fraction(float(values.min())) * objects(np.eye(4)))
        v = objects(vectors)
        assert ((v.T @ v - objects(np.eye(4))) ** 2).sum() <= Fraction(turn) ** 2
        if not seed % 2:
            assert delta <= 1e-12 * np.trace(form)
    assert np.isinf(spectrum_error_up(form, values, 2.0 * vectors)[0])
    # AV − VΛ is shorter than A − Λ where V is shorter than one
    assert spectrum_error_up(np.array([[2.0]]), np.ones(1), np.array([[1.0 - 4e-4]]))[0] >= 1.0


# ---- quartics of one output
@pytest.mark.parametrize("seed", range(20))
def test_quartics_lie_beyond_their_kinks(seed):
    rng = np.random.default_rng(seed)
    lengths = 10.0 ** rng.uniform(-3, 3, 30)
    touch, kink = lengths * rng.uniform(1e-3, 1.0, 30), rng.uniform(1e-3, 0.5, 30)
    bend = rng.uniform(0.1, 3.0, 30)
    quartics_of = *from_above(touch, lengths), from_below(bend, kink)
    for each in zip(*quartics_of, touch, lengths, kink, bend, strict=True):
        a, b, c, below, s, length, kappa, rise = map(Fraction, each)
        for t in (s, length, (s + length) / 2, s / 2, Fraction(0)):
            slack = a + b * t**2 - c * t**4 - t
            assert slack >= -Fraction(2, 10**14) * (a + b * length**2)
            assert t not in (s, length) or slack <= Fraction(2, 10**14) * (a + b * length**2)  # it touches
        at = Fraction(float(rise / (3 * below)) ** 0.5)
        for t in (at * Fraction(9, 10), at, at * Fraction(11, 10)):
            assert rise * t - below * t**3 <= kappa
        assert rise * at - below * at**3 >= kappa * (1 - Fraction(1, 10**9))


def test_quartics_of_noise_are_closer_than_quadratics_and_pay_for_rounding(monkeypatch):
    rng = np.random.default_rng(0)
    rows, mu = rng.standard_normal((500, 6)), rng.standard_normal(500)
    plain, _, moments = quadratics(rows, mu, 60, np.inf)
    bent, atom, fourth = quartics(rows, mu, 60, np.inf, moments)
    met = LocalSearchOracle(rows, n_starts=64, random_state=0).search(mu).upper_bound
    assert met <= bent < 0.85 * plain
    assert 0.9 * bent < mu @ atom < bent  # where it is about attained
    assert quartics(rows, mu, 60, np.inf, fourth)[0] < bent  # from where it ended
    monkeypatch.setattr(one_sided, "allowance", lambda *_: 7.0)
    assert quartics(rows, mu, 60, np.inf, moments)[0] == pytest.approx(bent + 7.0, abs=1e-7)
