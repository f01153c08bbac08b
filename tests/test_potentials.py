from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.errors import BudgetError, InputError
from covopt.potentials import LabelNoise, VariationNorm
from covopt.status import Status

NAMES = ("label-noise", "label-noise-exact")
LINE = np.array([[0.0], [1.0], [2.0]])


def lift(X, bias=1.0):
    X = np.asarray(X, dtype=float)
    return np.column_stack([X, np.full(len(X), bias)]) if bias else X


def all_patterns(X, y, name, *, bias=1.0, free=False, patterns=None):
    """One second-order cone program over the closed cones of all sign patterns, faces of lower dimension included."""
    import cvxpy as cp

    rows = lift(X, bias)
    n, dim = rows.shape
    fitted, cost, constraints = 0, 0, []
    for pattern in product((0, 1), repeat=n) if patterns is None else patterns:
        s = np.array(pattern, dtype=float)
        if not s.any():
            continue
        factor = (
            np.sqrt(s @ np.square(np.linalg.norm(rows, axis=1)) / n) if name == "label-noise-exact" else 1.0
        )
        for sign in (1.0, -1.0):
            w = cp.Variable(dim)
            constraints += [cp.multiply(2 * s - 1, rows @ w) >= 0]
            fitted = fitted + sign * cp.multiply(s, rows @ w)
            cost = cost + factor * cp.norm2(cp.multiply(s, rows @ w)) / np.sqrt(n)
    if free:
        fitted = fitted + cp.Variable()
    program = cp.Problem(cp.Minimize(cost), [*constraints, fitted == y])
    program.solve(solver="CLARABEL")
    return program.value


# ---------------------------------------------------------------------- the weights themselves
def test_the_printed_weight_is_eq_13_and_the_exact_one_minimises_eq_12():
    rng = np.random.default_rng(0)
    rows, neurons = rng.standard_normal((9, 3)), rng.standard_normal((20, 3))
    heights = np.maximum(neurons @ rows.T, 0)
    np.testing.assert_allclose(
        LabelNoise().weigh(rows, neurons), np.sqrt((heights**2).mean(axis=1)), rtol=1e-13
    )
    exact = LabelNoise(exact=True).weigh(rows, neurons)
    scales = np.exp(np.linspace(-8, 8, 20001))[:, None]
    size = ((heights > 0) * np.square(rows).sum(axis=1)).mean(axis=1)
    contribution = scales**2 * (heights**2).mean(axis=1) + size / scales**2  # of (tw, 1/t)
    np.testing.assert_allclose(2 * exact, contribution.min(axis=0), rtol=1e-6)


def test_weights_are_homogeneous_and_survive_extreme_units():
    rng = np.random.default_rng(1)
    rows, neurons = rng.standard_normal((9, 3)), rng.standard_normal((5, 3))
    for potential in (VariationNorm(), LabelNoise(), LabelNoise(exact=True)):
        once = potential.weigh(rows, neurons)
        np.testing.assert_allclose(potential.weigh(rows, 3 * neurons), 3 * once, rtol=1e-13)
        np.testing.assert_allclose(potential.weigh(rows, 1e-170 * neurons), 1e-170 * once, rtol=1e-12)


def test_rows_on_the_hinge_are_not_active_and_the_exact_weight_jumps_up_beside_them():
    exact = LabelNoise(exact=True)
    rows = lift(LINE)
    on, beside = exact.weigh(rows, np.array([[1.0, 0.0], [1.0, 1e-6]]))
    assert on == pytest.approx(np.sqrt(35) / 3)
    assert beside == pytest.approx(np.sqrt(5 / 3 * 8 / 3), rel=1e-5)  # row 0 has |x̃|² = 1


@pytest.mark.parametrize("exact", [False, True])
def test_the_printed_weight_is_convex_and_the_exact_one_where_the_active_rows_agree(exact):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((6, 3))
    potential = LabelNoise(exact)
    a, b = rng.standard_normal((4000, 3)), rng.standard_normal((4000, 3))
    middle, ends = potential.weigh(rows, a + b), potential.weigh(rows, a) + potential.weigh(rows, b)
    same = ((a @ rows.T > 0) == (b @ rows.T > 0)).all(axis=1)
    assert same.sum() > 50
    assert (middle <= ends * (1 + 1e-12))[same].all()
    assert (middle <= ends * (1 + 1e-12)).all() != exact


def test_undetermined_counts_the_dimensions_of_equal_activations():
    rows = lift([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    neurons = np.array(
        [
            [1.0, 0.2, 0.3],  # sees all four: determined
            [1.0, -5.0, 0.0],  # sees (1, 0) and (2, 0), its hinge on (0, 0): w = (1, t, 0), t ≤ 0
            [1.0, -5.0, -0.5],  # the same without a row on the hinge
            [1.0, -5.0, -1.5],  # sees one row
            [-1.0, 0.0, 0.0],  # sees none, three rows on the hinge or behind it
        ]
    )
    assert LabelNoise().undetermined(rows, neurons).tolist() == [0, 1, 1, 2, 3]
    assert VariationNorm().undetermined(rows, neurons).tolist() == [0] * 5
    # rows ±(1, 0) on the hinge hold the first coordinate, no inequality does that alone
    fixed = LabelNoise().undetermined(np.array([[1.0, 0], [-1.0, 0], [0, 1.0]]), np.array([[0.0, -1.0]]))
    assert fixed.tolist() == [1]


# ---------------------------------------------------------------------- closed forms
def test_one_atom_is_best_where_the_targets_are_one():
    solution = covopt.min_norm(LINE, [0, 1, 2], potential="label-noise")
    assert solution.cost == pytest.approx(np.sqrt(5 / 3), rel=1e-9)  # ‖y‖/√N, by the triangle inequality
    assert len(solution.network) == 1


def test_with_chi_positive_the_papers_infimum_is_attained():
    solution = covopt.min_norm(LINE, [0, 1, 2], potential="label-noise-exact")
    assert 2 * solution.cost == pytest.approx(2 / 3 * np.sqrt(35), rel=1e-9)
    assert solution.status is Status.CERTIFIED
    assert len(solution.network) == 1
    w = solution.network.hidden_weights[0]
    assert w[1] == pytest.approx(0, abs=1e-9 * w[0])  # the hinge is at 0: row 0 does not count


@pytest.mark.parametrize("name", NAMES)
def test_orthogonal_rows(name):
    """X = I: atoms are all nonnegative vectors. Printed: (‖y₊‖ + ‖y₋‖)/√N; exact: a neuron for each row, Σ|y_i|/N."""
    y = np.array([3.0, 4.0, -5.0, 12.0])
    solution = covopt.min_norm(np.eye(4), y, bias=0, potential=name)
    expected = (13 + 5) / 2 if name == "label-noise" else 24 / 4
    assert solution.cost == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_free_output_bias_costs_nothing(name):
    solution = covopt.min_norm(LINE, [7, 7, 7], potential=name, output_bias="free")
    assert solution.cost == pytest.approx(0, abs=1e-9)
    assert solution.network.predict([[5.0]]) == pytest.approx([7.0])


@pytest.mark.parametrize("name", NAMES)
def test_zero_targets_and_opposite_points(name):
    assert covopt.min_norm(LINE, [0, 0, 0], potential=name).cost == 0
    # X = (1, −1): a neuron per ray, activations 2 and 3 of one row in two
    solution = covopt.min_norm([[1.0], [-1.0]], [2, 3], bias=0, potential=name)
    assert solution.cost == pytest.approx(5 / np.sqrt(2) if name == "label-noise" else 2.5, rel=1e-9)


# ---------------------------------------------------------------------- against one cone program


@pytest.mark.parametrize("name", NAMES)
def test_same_optimum_as_the_program_over_all_cells(name):
    """With a bias every face has the active rows of a cell: shift the hinge a little."""
    rng = np.random.default_rng(11)
    X, y = rng.standard_normal((12, 2)), rng.standard_normal(12)
    cells = covopt.enumerate_cells(X, bias=1.0).patterns
    solution = covopt.min_norm(X, y, potential=name)
    assert solution.cost == pytest.approx(all_patterns(X, y, name, patterns=cells), rel=1e-5)


def test_the_minimisers_differ():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((8, 1)), rng.standard_normal(8)
    printed, exact, norm = (covopt.min_norm(X, y, potential=p) for p in (*NAMES, "variation"))
    rows = lift(X)

    def cost(solution, potential):
        network = solution.network
        return float(np.abs(network.output_weights[:, 0]) @ potential.weigh(rows, network.hidden_weights))

    for mine, potential in (
        (printed, LabelNoise()),
        (exact, LabelNoise(exact=True)),
        (norm, VariationNorm()),
    ):
        for other in (printed, exact, norm):
            if other is not mine:
                assert cost(other, potential) > cost(mine, potential) * (1 + 1e-4)


# ---------------------------------------------------------------------- invariances
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_printed_potential_is_invariant_under_affine_maps(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((6, 2)), rng.standard_normal(6)
    turned = X @ (rng.standard_normal((2, 2)) + 2 * np.eye(2)) + 10 * rng.standard_normal(2)
    bias = float(rng.choice([0.5, 1.0, 3.0]))
    first = covopt.min_norm(X, y, potential="label-noise").cost
    assert covopt.min_norm(turned, y, potential="label-noise", bias=bias).cost == pytest.approx(
        first, rel=2e-6
    )


def test_the_exact_potential_turns_but_does_not_move():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    first = covopt.min_norm(X, y, potential="label-noise-exact").cost
    assert covopt.min_norm(X @ turn, y, potential="label-noise-exact").cost == pytest.approx(first, rel=2e-6)
    assert covopt.min_norm(X + 5, y, potential="label-noise-exact").cost > 2 * first


def test_points_far_from_the_origin():
    rng = np.random.default_rng(14)
    X, y = rng.standard_normal((8, 2)), rng.standard_normal(8)
    near = covopt.min_norm(X, y, potential="label-noise")
    far = covopt.min_norm(X + np.array([3e3, -1e3]), y, potential="label-noise", tol=1e-4)
    assert far.status is Status.CERTIFIED
    assert far.cost == pytest.approx(near.cost, rel=2e-4)
    assert far.lower_bound <= near.cost * (1 + 1e-9)
    assert covopt.verify(far).ok
    exact = covopt.min_norm(X + np.array([3e3, -1e3]), y, potential="label-noise-exact", tol=1e-3)
    assert exact.status is Status.CERTIFIED


# ---------------------------------------------------------------------- certificates, files, messages
@pytest.fixture(scope="module", params=NAMES)
def solved(request):
    rng = np.random.default_rng(7)
    return covopt.min_norm(rng.standard_normal((8, 2)), rng.standard_normal(8), potential=request.param)


def test_a_solution_survives_its_file_and_is_verified(solved, tmp_path):
    solved.save(tmp_path / "s.json")
    again = covopt.load(tmp_path / "s.json")
    assert again.potential == solved.potential
    assert again.cost == solved.cost
    verification = covopt.verify(tmp_path / "s.json", exact=True)
    assert verification.ok, verification.summary()
    np.testing.assert_array_equal(again.undetermined, solved.undetermined)


@pytest.mark.parametrize("mutation", ["dual", "weight", "cost", "bound", "potential", "unknown"])
def test_a_changed_certificate_is_refused(solved, mutation):
    content = solved.to_dict()
    if mutation == "dual":
        content["dual"][0] += 0.1 * max(map(abs, content["dual"]))
    elif mutation == "weight":
        content["network"]["output_weights"][0][0] *= 1.01
    elif mutation == "cost":
        content["cost"] *= 0.999
    elif mutation == "bound":
        content["lower_bound"] *= 1.001
    elif mutation == "potential":
        content["problem"]["potential"] = NAMES[solved.potential == NAMES[0]]
    else:
        content["problem"]["potential"] = "another"
    assert not covopt.verify(type(solved).from_dict(content)).ok


def test_undetermined_parameters_are_said(solved):
    free = solved.undetermined
    assert len(free) == len(solved.network)
    moved = solved.network.hidden_weights.copy()
    rows = solved.data.lifted
    for j in np.flatnonzero(free):
        active = rows @ moved[j] > 1e-9 * np.linalg.norm(moved[j])
        assert np.linalg.matrix_rank(rows[active]) < rows.shape[1]
    assert "undetermined" in solved.summary()
    assert (f"{(free > 0).sum()} of {len(free)} neurons" in solved.summary()) == bool(free.any())


def test_what_is_made_for_the_norm_says_so(solved):
    assert solved.is_unique is None
    for ask in (solved.tight_set, solved.sparsest):
        with pytest.raises(InputError, match="computed for potential='variation'"):
            ask()


@pytest.mark.parametrize("name", NAMES)
def test_messages(name):
    with pytest.raises(InputError, match=r"is for one output, but Y has 2 columns"):
        covopt.min_norm(LINE, np.ones((3, 2)), potential=name)
    with pytest.raises(InputError, match="takes output_bias 'none' or 'free', received 'penalized'"):
        covopt.min_norm(LINE, [0, 1, 2], potential=name, output_bias="penalized")
    with pytest.raises(InputError, match=r'is for potential="variation"'):
        covopt.min_norm(LINE, [0, 1, 2], potential=name, solver="conic:CLARABEL")
    with pytest.raises(BudgetError, match="label-noise oracle"):
        rng = np.random.default_rng(0)
        covopt.min_norm(rng.standard_normal((400, 6)), rng.standard_normal(400), potential=name)
    with pytest.raises(InputError, match="label-noise cost is of the size"):
        covopt.min_norm(1e152 * LINE, [1e152, 2e152, 0], potential="label-noise-exact", bias=1e152)


def test_a_callback_stops_with_a_valid_bracket():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((12, 2)), rng.standard_normal(12)
    seen = []

    def watch(state):
        seen.append(state)
        return len(seen) == 2

    stopped = covopt.min_norm(X, y, potential="label-noise", callback=watch, tol=1e-9)
    best = covopt.min_norm(X, y, potential="label-noise")
    assert stopped.status is Status.CALLBACK
    assert stopped.lower_bound <= best.cost * (1 + 1e-9)
    assert stopped.cost >= best.lower_bound * (1 - 1e-9)
    assert seen[-1].upper_bound >= seen[-1].lower_bound * (1 - 1e-9)


# ---------------------------------------------------------------------- with a loss
def all_patterns_fit(X, y, name, lam, loss, *, free=False, weights=None):
    import cvxpy as cp

    rows = lift(X)
    n, dim = rows.shape
    q = np.full(n, 1 / n) if weights is None else np.asarray(weights) / np.sum(weights)
    fitted, cost, constraints = 0, 0, []
    for pattern in product((0, 1), repeat=n):
        s = np.array(pattern, dtype=float)
        if not s.any():
            continue
        factor = (
            np.sqrt((q * s) @ np.square(np.linalg.norm(rows, axis=1))) if name == "label-noise-exact" else 1.0
        )
        for sign in (1.0, -1.0):
            w = cp.Variable(dim)
            constraints += [cp.multiply(2 * s - 1, rows @ w) >= 0]
            fitted = fitted + sign * cp.multiply(s, rows @ w)
            cost = cost + factor * cp.norm2(cp.multiply(s * np.sqrt(q), rows @ w))
    fitted = fitted + (cp.Variable() if free else 0)
    each = cp.square(fitted - y) if loss == "squared" else cp.logistic(-cp.multiply(y, fitted))
    program = cp.Problem(cp.Minimize(q @ each + lam * cost), constraints)
    program.solve(solver="CLARABEL")
    return program.value


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("loss", "free", "weighted"), [("squared", False, True), ("logistic", True, False)])
def test_fit_has_the_optimum_of_the_program_over_all_patterns(name, loss, free, weighted):
    rng = np.random.default_rng(21)
    X = rng.integers(-2, 3, size=(6, 2)).astype(float)
    y = rng.standard_normal(6) if loss == "squared" else np.array([1.0, -1, 1, 1, -1, -1])
    weights = np.array([1.0, 2, 1, 3, 1, 1]) if weighted else None
    solution = covopt.fit(
        X,
        y,
        lam=0.02,
        loss=loss,
        potential=name,
        output_bias="free" if free else "none",
        sample_weight=weights,
    )
    assert solution.status is Status.CERTIFIED
    expected = all_patterns_fit(X, y, name, 0.02, loss, free=free, weights=weights)
    assert solution.objective == pytest.approx(expected, rel=1e-5)
    assert solution.objective == pytest.approx(solution.loss_value + 0.02 * solution.cost, rel=1e-12)
    verification = covopt.verify(solution)
    assert verification.ok, verification.summary()


@pytest.mark.parametrize("name", NAMES)
def test_the_path_begins_at_lambda_max_and_ends_at_the_interpolant(name):
    rng = np.random.default_rng(22)
    X, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    top = covopt.lambda_max(X, y, potential=name)
    assert len(covopt.fit(X, y, lam=1.001 * top, potential=name).network) == 0
    assert len(covopt.fit(X, y, lam=0.99 * top, potential=name).network) > 0
    path = covopt.path(X, y, lams=[0.5 * top, 1e-2 * top, 1e-6 * top], potential=name)
    assert all(s.status is Status.CERTIFIED for s in path)
    costs = [s.cost for s in path]
    assert costs == sorted(costs)
    assert costs[-1] == pytest.approx(covopt.min_norm(X, y, potential=name).cost, rel=1e-4)


def test_a_warm_start_may_have_another_potential():
    rng = np.random.default_rng(23)
    X, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    cold = [covopt.fit(X, y, lam=0.01, potential=p) for p in (*NAMES, "variation")]
    for solution in cold:
        for start in cold:
            warm = covopt.fit(X, y, lam=0.01, potential=solution.potential, start=start)
            assert warm.status is Status.CERTIFIED
            assert warm.objective == pytest.approx(solution.objective, rel=2e-6)


def test_a_sample_without_weight_does_not_count():
    rng = np.random.default_rng(24)
    X, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    for name in NAMES:
        left_out = covopt.fit(X, y, lam=0.01, potential=name, sample_weight=[1, 1, 1, 1, 1, 1, 0])
        dropped = covopt.fit(X[:6], y[:6], lam=0.01, potential=name)
        assert left_out.objective == pytest.approx(dropped.objective, rel=2e-6)
        assert covopt.verify(left_out).ok


def test_a_fitted_solution_survives_its_file_and_is_not_taken_for_another_potential(tmp_path):
    rng = np.random.default_rng(25)
    X, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    solution = covopt.fit(X, y, lam=0.01, potential="label-noise-exact")
    solution.save(tmp_path / "s.json")
    assert covopt.verify(tmp_path / "s.json").ok
    content = solution.to_dict()
    content["problem"]["potential"] = "label-noise"
    assert not covopt.verify(type(solution).from_dict(content)).ok
    content["problem"]["output_bias"] = "penalized"
    assert not covopt.verify(type(solution).from_dict(content)).ok


def test_the_command_line_takes_a_potential(tmp_path):
    from typer.testing import CliRunner

    from covopt.cli import app

    table = tmp_path / "t.csv"
    table.write_text("x,y\n0,0\n1,1\n2,2\n")
    for command in (["solve"], ["fit", "--lam", "0.01"]):
        saved = tmp_path / f"{command[0]}.json"
        done = CliRunner().invoke(
            app,
            [
                command[0],
                str(table),
                "--target",
                "y",
                *command[1:],
                "--potential",
                "label-noise",
                "--out",
                str(saved),
            ],
        )
        assert done.exit_code == 0, done.output
        assert "undetermined" in done.output
        assert covopt.load(saved).potential == "label-noise"
        assert CliRunner().invoke(app, ["verify", str(saved)]).exit_code == 0
    refused = CliRunner().invoke(app, ["solve", str(table), "--target", "y", "--potential", "noise"])
    assert refused.exit_code == 2
    assert "'noise' is not one of 'variation', 'label-noise', 'label-noise-exact'" in refused.output
