"""One list of oracles and bounds, one list of rows, what holds for each pair; faces in three dimensions."""

import subprocess
import sys

import numpy as np
import pytest

from benchmarks.adversary.neurons import best_neuron
from covopt.errors import BudgetError
from covopt.exact.rounding import up
from covopt.oracles.base import Oracle
from covopt.oracles.bounds import relaxed_dual_norm
from covopt.oracles.boxes.quadratic_search import quadratic_dual_norm
from covopt.oracles.boxes.search import BoxOracle, box_dual_norm
from covopt.oracles.certified import certified_dual_norm, in_integers
from covopt.oracles.faces import FaceOracle, count_faces
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.one_sided import Moments, quartics
from covopt.oracles.sign_tree import sign_dual_norm
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.proofs.checker.faces import square_above
from tests.cases import drawn
from tests.oracles.table import AWKWARD, CLEAR, DUALS, Table, check, fan, full_rank, question


def signs(**options):
    return lambda rows, dual: sign_dual_norm(rows, dual, **options).upper_bound


def by_quartics(rows, dual):
    """Quartics of one output and of its opposite, in two dimensions at least, without moments to begin with."""
    rows = np.pad(rows, ((0, 0), (0, int(rows.shape[1] == 1))))
    start = Moments(np.zeros(rows.shape[1]), np.eye(rows.shape[1]) / rows.shape[1])
    return max(quartics(rows, mu, 40, np.inf, start)[0] for mu in (dual, -dual))


# oracle, dimensions, whether it takes several outputs, how far its bound may lie above the maximum
ORACLES = {
    "faces": (FaceOracle, (1, 2, 3), False, 1e-9),
    "table": (Table, (1, 2, 3, 4), True, 1e-9),
    "boxes": (BoxOracle, (1, 2, 3, 4), False, 2e-9),
    "local": (lambda rows: LocalSearchOracle(rows, random_state=0, n_starts=64), (2, 3, 4), True, 0.6),
}
BOUNDS = {
    "eigenvalues": (relaxed_dual_norm, (1, 2, 3, 4), True, 0.6),
    "quartics": (by_quartics, (2, 3, 4), False, 10.0),
    "one round": (lambda rows, dual: relaxed_dual_norm(rows, dual, n_rounds=1), (2, 4), True, 2.0),
    "boxes": (lambda rows, dual: box_dual_norm(rows, dual, max_nodes=100_000).upper_bound, (1, 2, 3), False, 2e-9),
    "signs": (signs(), (1, 2, 3, 4), False, 1e-9),
    "few signs": (signs(max_nodes=5), (2, 4), False, 2.0),
    "no time": (signs(goes_on=lambda _: False), (3,), False, 2.0),
    "few boxes": (lambda rows, dual: box_dual_norm(rows, dual, max_nodes=30).upper_bound, (2, 3), False, 2.0),
    "quadratics": (lambda rows, dual: quadratic_dual_norm(rows, dual, rtol=1e-2, max_nodes=3000).upper_bound,
                   (2, 3, 4), False, 1.1e-2),
    "fan": (fan, (3,), True, 1.1e-2),
    "integers": (lambda rows, dual: up(up(float(square_above(rows, dual)) ** 0.5)), (1, 2, 3), True, 1e-9),
    "certificates": (lambda rows, dual: certified_dual_norm(rows, dual).value, (1, 2, 3, 4), True, 1e-6),
}  # fmt: skip
RANGE = ("huge", "tiny", "wide")  # of which bounds speak that bring rows to size one themselves
SAFE, MOST = ("few boxes", "certificates"), [name for name in BOUNDS if name != "boxes"]


def asked(entries, several):
    for name, (ask, dimensions, vector, slack) in entries.items():
        if vector or not several:
            yield name, ask, dimensions, slack


CASES = [(kind, k, seed) for seed in range(4) for kind in (*CLEAR, *AWKWARD) for k in (1, 2)]


@pytest.mark.parametrize(
    ("kind", "k", "seed"), [pytest.param(*case, marks=[pytest.mark.slow] * (case[2] > 0)) for case in CASES]
)
def test_bounds_are_above_the_best_neuron_and_near_it(kind, k, seed):
    """In integers; where rows are awkward some oracle may give up, and then says nothing or a bound."""
    clear, made = kind in CLEAR, 0
    for turn, dual_kind in list(enumerate(DUALS))[(len(kind) + k) % 2 if seed == 0 else 0 :: 2 - (seed > 0)]:
        rng = np.random.default_rng([seed, turn])
        r = (turn + seed + k + len(kind)) % (5 - k) + 1
        rows = (CLEAR if clear else AWKWARD)[kind](rng, r + 2 + seed, r)
        rows = rows[rows.any(axis=1)]
        dual = question(rng, rows, dual_kind, k) * (1e-10 if kind == "huge" else 1.0)
        if not full_rank(rows) or not np.isfinite(dual).all():
            continue
        made += 1
        witness, sharp = best_neuron(rows, dual, rng), []
        with np.errstate(over="ignore", invalid="ignore"):  # rows may be huge
            largest = np.abs(dual).reshape(len(rows), -1).max(axis=1)
            noise = 1e-12 * float(np.linalg.norm(rows, axis=1) @ largest)
        for name, ask, dimensions, slack in asked(ORACLES, k > 1):
            if clear and r in dimensions and witness.value > noise:
                found = ask(rows).price(dual)
                assert not witness.exceeds(found.upper_bound + noise), (name, dual_kind, r)
                check(rows, dual, found, slack)
                if found.exact:
                    sharp.append(found.upper_bound)
                    near = slack + 0.01 * (k > 1)  # of several outputs the witness is near the best one
                    assert found.upper_bound <= witness.value * (1 + near) + noise, (name, dual_kind, r)
        for name, ask, dimensions, slack in asked(BOUNDS, k > 1):
            if r in dimensions and (clear or name in (SAFE if kind in RANGE else MOST)):
                bound = float(ask(rows, dual))
                assert not witness.exceeds(bound), (name, dual_kind, r)
                if clear and slack <= 1e-6:
                    sharp.append(bound)
                if clear and dual_kind != "cancels":
                    assert bound <= witness.value * (1 + slack + 0.4 * (k > 1)) + noise, (name, dual_kind, r)
        assert not sharp or max(sharp) <= min(sharp) * (1 + 2e-6) + 2 * noise, (dual_kind, r)
    assert made


LINES = np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 1.0], [0.0, 3.0]])
CLOSED_FORMS = [
    ([[2.0], [-1.0]], [1.5, -4.0], 4.0),
    (np.eye(3), [3.0, 4.0, 12.0], 13.0),
    ([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [1.0, -1.0, 0.0], 1.0),
    ([[1.0, 1.0]], [[3.0, 4.0]], np.sqrt(50.0)),
    # orthogonal rows and weights that are not negative: all rows are active where it is largest
    (np.eye(3), dual := [[3.0, 0.0], [0.0, 4.0], [3.0, 1.0]], np.linalg.norm(dual, 2)),
    *((rows, np.zeros(shape), 0.0) for rows, shape in ((np.ones((2, 3)), 2), (np.eye(3), (3, 2)))),
    (np.zeros((2, 3)), np.ones(2), 0.0),
    (LINES[:2], [2.0, -1.0], 0.0),  # what cancels leaves nothing
    (LINES, [2.0, -1.0, 3.0, -1.0], 0.0),
]


@pytest.mark.parametrize(("rows", "dual", "h"), CLOSED_FORMS)
@pytest.mark.parametrize("name", BOUNDS)
def test_closed_forms(name, rows, dual, h):
    (ask, _, several, slack), rows, dual = BOUNDS[name], np.array(rows), np.array(dual)
    if dual.ndim == 1 or several:
        bound = float(ask(rows, dual))
        assert h * (1 - 1e-15) <= bound
        assert bound <= h * (1 + slack) + 1e-13 or (slack > 0.1 and dual.any())


SHARP = [name for name, (*_, slack) in ORACLES.items() if slack < 0.1]
EXACT = [*((name, 1) for name in SHARP), ("table", 2)]


@pytest.mark.parametrize(("name", "k"), EXACT)
def test_what_does_not_matter(name, k):
    """Order, a turn, the sign, units, the lengths of rows, rows twice, rows that the dual leaves out."""
    rng = np.random.default_rng(4)
    rows, slack = rng.standard_normal((8, 3)), 2 * ORACLES[name][3] + 1e-10
    dual = question(rng, rows, "normal", k).reshape(8, -1)
    price = lambda rows, dual: ORACLES[name][0](rows).price(dual if k > 1 else dual[:, 0])  # noqa: E731
    value, order = price(rows, dual).upper_bound, rng.permutation(8)
    stretch = np.exp(rng.standard_normal((8, 1)))
    changes = [
        (rows[order], dual[order], 1.0), (rows @ np.linalg.qr(rng.standard_normal((3, 3)))[0], dual, 1.0),
        (rows, -dual, 1.0), (2.0**-140 * rows, 2.0**200 * dual, 2.0**60), (rows * stretch, dual / stretch, 1.0),
        (np.r_[rows, rows], np.r_[0.25 * dual, 0.75 * dual], 1.0),
        (np.r_[rows, rng.standard_normal((3, 3))], np.r_[dual, np.zeros((3, k))], 1.0),
    ]  # fmt: skip
    for number, (other_rows, other_dual, factor) in enumerate(changes):
        found = price(other_rows, other_dual)
        assert found.upper_bound == pytest.approx(factor * value, rel=slack), number
        assert np.abs(found.values[0]) == pytest.approx(factor * value, rel=slack), number
    other = price(rows, dual[order]).upper_bound
    assert price(rows, dual + dual[order]).upper_bound <= 2.0 * max(value, other)


@pytest.mark.parametrize(("name", "k"), EXACT)
def test_a_threshold_leaves_out_only_what_is_below(name, k):
    rng, rows = drawn(5, (14, 3))
    dual, make = question(rng, rows, "normal", k), ORACLES[name][0]
    every = make(rows).price(dual)
    top = abs(every.values[0])
    for share in (0.7, 0.999, 10.0):
        some = make(rows).price(dual, threshold=share * top)
        assert len(some.values) and (len(some.values) == 1 or (np.abs(some.values) >= share * top).all())
        assert some.upper_bound >= top * (1 - 1e-12)
        assert share > 1 or name == "boxes" or some.upper_bound == pytest.approx(every.upper_bound, rel=1e-8)
        assert share > 1 or abs(some.values[0]) == pytest.approx(top, rel=1e-8)
    few = make(rows).price(dual, max_neurons=2)
    assert len(few.values) <= 2 and abs(few.values[0]) == pytest.approx(top, rel=1e-9)
    nothing = make(rows).price(0.0 * dual)
    assert nothing.upper_bound == 0.0 and not nothing.values.any()


@pytest.mark.slow
def test_ten_outputs_of_digits_are_bounded_in_little_memory():
    code = (
        "import resource, numpy as np, covopt; from sklearn.datasets import load_digits; "
        "X, label = load_digits(return_X_y=True); dual = 0.1 - np.eye(10)[label]; "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "found = covopt.price(X / 16.0, dual / len(X), max_nodes=1000); "
        "best = np.linalg.norm(np.maximum(X / 16.0 @ found.neurons[0], 0.0) @ dual) / len(X); "
        "assert abs(found.values[0] - best) < 1e-9 and best <= found.upper_bound <= 3.5 * best; "
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 400.0  # MiB; the relaxation of all outputs at once took 4.7 GB


# ---- the exact oracle in three dimensions: the walk beside boxes, all its maxima, rows that meet.
EPS = np.finfo(float).eps


KINDS = {
    **CLEAR,
    "grid": lambda rng, n, r: np.unique(np.c_[rng.integers(0, 4, (n, r - 1)), np.ones(n)], axis=0),
    "years and incomes": lambda rng, n, r: np.c_[
        rng.integers(1990, 2024, n), np.round(rng.lognormal(10, 1, n)), np.ones(n)
    ],
}


def nearest(neurons, found):
    """How far each neuron is from one that was found."""
    return np.abs(neurons[:, None] - found).max(axis=2).min(axis=1)


@pytest.mark.parametrize("kind", ["normal", "grid", "opposite"])
def test_complete_returns_every_local_maximum_of_the_sphere(kind):
    rng = np.random.default_rng(1)
    rows = KINDS[kind](rng, 12, 3)
    dual = rng.standard_normal(len(rows))
    found = FaceOracle(rows).price(dual, complete=True)
    peaks = LocalSearchOracle(rows, n_starts=400, random_state=0).price(dual).neurons
    assert len(peaks) >= 2
    assert nearest(peaks, found.neurons).max() < 1e-8


def test_a_maximum_on_an_arc_that_falls_on_its_end():
    rows = np.array([[-1.0, 0, 1], [-1, 1, 1], [0, -1, 1], [0, 0, 1], [1, 1, 1]]) / np.sqrt(3)
    # the peak (1, 1, 0)/√2 of the circle w₃ = 0 lies on the circle of row 1 as well
    dual = np.array([1.82114761, -1.1331169, 0.62834214, -2.54111771, 1.22474487])
    found = FaceOracle(rows).price(dual, complete=True)
    expected = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    assert np.abs(found.neurons - expected).max(axis=1).min() < 1e-9


def test_complete_is_not_cut_at_a_few_per_circle():
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.standard_normal((60, 2)), np.ones(60)])
    dual = question(rng, rows, "cancels", 1)
    oracle = FaceOracle(rows)
    few, every = oracle.price(dual), oracle.price(dual, complete=True)
    assert len(every.neurons) >= len(few.neurons)
    assert nearest(few.neurons, every.neurons).max() < 1e-9
    # of cancelling duals F(w) = F(−w), so peaks come in pairs
    high = every.neurons[np.abs(every.values) > 0.5 * abs(every.values[0])]
    assert nearest(-high, every.neurons).max() < 1e-7


def test_one_thread_and_two_agree_to_the_bit():
    rng = np.random.default_rng(0)
    rows, dual = KINDS["years and incomes"](rng, 260, 3), rng.standard_normal(260)  # enough for threads
    one, two = (FaceOracle(rows, n_threads=n).price(dual) for n in (1, 2))
    np.testing.assert_array_equal(one.neurons, two.neurons)
    np.testing.assert_array_equal(one.values, two.values)
    assert one.upper_bound == two.upper_bound


def test_budget_is_refused_before_anything_is_computed():
    rows = np.random.default_rng(0).standard_normal((50, 3))
    faces = count_faces(50, 3)
    assert faces >= 2 * 49 * 50  # the arcs alone
    with pytest.raises(BudgetError, match="50 rows in dimension 3"):
        FaceOracle(rows, budget=faces - 1)
    oracle: Oracle = FaceOracle(rows, budget=faces)
    assert oracle.price(np.ones(50)).exact


@pytest.mark.parametrize("oracle", [FaceOracle, VectorFaceOracle])
def test_fewer_lines_than_columns_are_no_arrangement_of_faces(oracle):
    lines = np.random.default_rng(0).standard_normal((2, 3))
    with pytest.raises(BudgetError, match="on 2 lines in dimension 3"):
        oracle(np.concatenate([lines, 2.0 * lines, -0.5 * lines]))


def in_other_units(seed):
    """All crossings of a circle in one point, to rounding: the two arcs between are as long as an arc can be."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((int(rng.integers(3, 6)), 3))
    rows[:, 1] *= 10.0 ** rng.uniform(-19, -14)
    if seed % 3 == 0:
        rows[0] = [0.0, 1.0, 0.0]
    elif seed % 3 == 1:
        rows[:, 2] = 1.0
    return rows, rng.standard_normal(len(rows))


# merged into one line, multipliers of rows a few ulps apart cancel; the rows do not
ULPS = [(np.array([[1.0, 1.0], [1.0 + n * EPS, 1.0]]), np.array([-1.0, 1.0]) / EPS) for n in (1, 2, 3, 8, 64)]


@pytest.mark.parametrize(("rows", "dual"), [*ULPS, *map(in_other_units, range(12))])
def test_rows_that_rounding_hardly_tells_apart_hide_no_neuron(rows, dual):
    witness = best_neuron(rows, dual, np.random.default_rng(0))
    assert not witness.exceeds(FaceOracle(rows).price(dual).upper_bound)
    assert not witness.exceeds(certified_dual_norm(rows, dual).value)
    exact = in_integers(rows, dual).value
    assert not witness.exceeds(exact) and (exact <= witness.value * (1 + 1e-12) or len(rows) > 2)
