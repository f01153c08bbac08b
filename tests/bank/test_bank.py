"""Column generation on the whole bank: one solve for each problem, shared by all statements about it."""

from dataclasses import replace

import numpy as np
import pytest

import covopt
from tests.bank.checks import TOL, check_kkt, check_one_neuron_per_cell, check_optimal
from tests.bank.checks import solved as solution_of
from tests.bank.problems import BY_NAME, CLOSED_FORMS, COMBINATIONS, PROBLEMS

NO_PROOF = ("label-noise", "label-noise-exact")


def solved(name):
    return solution_of(BY_NAME[name])


# the plane backwards: where every other instance is left out, those of the line stand in for them
PLANE = [name for name in BY_NAME if name.startswith("plane/")]
every = pytest.mark.parametrize("name", [*(name for name in BY_NAME if name not in PLANE), *PLANE[::-1]])


def test_every_combination_is_there():
    kinds = {(p.loss, p.potential, p.targets.shape[1], p.output_bias) for p in PROBLEMS}
    # 14 losses with their outputs and 3 output biases; 6 with two kinds of label noise and 2 output biases
    assert len(kinds) == 14 * 3 + 6 * 2 * 2


@pytest.mark.thinned(5)
@every
def test_optimal(name):
    check_optimal(BY_NAME[name], solved(name), TOL)


@pytest.mark.thinned(5)
@every
def test_the_file_is_verified(name, tmp_path):
    solution = solved(name)
    solution.save(tmp_path / "solution.json")
    again = covopt.load(tmp_path / "solution.json")
    assert (again.cost, again.objective, again.lower_bound, again.gap) == (
        solution.cost, solution.objective, solution.lower_bound, solution.gap
    )  # fmt: skip
    np.testing.assert_array_equal(again.dual, solution.dual)
    X, Y = BY_NAME[name].X, BY_NAME[name].Y
    np.testing.assert_array_equal(again.network.predict(X), solution.network.predict(X))
    found = covopt.verify(again, X, Y)
    assert found.ok, found.summary()
    assert found.certificate.lower_bound == pytest.approx(solution.lower_bound, rel=1e-9)
    assert found.certificate.gap <= TOL * (1 + 1e-6)
    assert found.certificate.cost == solution.cost and found.to_dict()["ok"] is True
    assert found.summary().endswith("verified")


@pytest.mark.thinned(5)
@every
def test_exact_arithmetic_confirms_it(name):
    problem = BY_NAME[name]
    found = covopt.verify(solved(name), exact=True)
    assert found.ok, found.summary()
    details = {check.name: check.detail for check in found.checks}
    assert ("exact norm" in details) == (problem.potential == "variation")
    assert ("exact objective" if problem.loss else "exact interpolation") in details
    said = details["exact lower bound"]
    floating = problem.potential in NO_PROOF or problem.loss in ("logistic", "softmax-cross-entropy")
    assert said.startswith("NOT exact") == (floating or rank(problem) > 1)
    if problem.loss is None:
        missed = details["exact interpolation"]
        assert missed == "through (X, Y) exactly" or ("not bounded" in missed) == (problem.bias == 0)
        if not said.startswith("NOT exact"):
            assert ("≤ R₂(X, Y) ≤" in details["exact bracket"]) == ("not bounded" not in missed)


def rank(problem):
    """Outputs that are left: targets of rank one are one output, classes never are."""
    return 1 if problem.targets.shape[1] == 1 else int(np.linalg.matrix_rank(problem.targets))


@pytest.mark.parametrize("problem", CLOSED_FORMS, ids=lambda problem: problem.name)
def test_closed_forms_to_nine_digits(problem):
    """The tightest tolerance: few neurons, no two of a sign in a cell, and uniqueness is as known."""
    solution = problem.solve(tol=1e-9)
    check_optimal(problem, solution, 1e-9)
    network = solution.network
    assert len(network) <= len(problem.X)
    check_one_neuron_per_cell(problem.rows, network.hidden_weights, network.output_weights[:, 0])
    # its zero target has λ = 0 in every dual: no way out of a face descends there, and nothing is claimed
    known = None if problem.name.endswith("identity-two-classes") else problem.unique
    if problem.unique is not None:
        assert solution.is_unique == known, solution.uniqueness.reason


def turned(problem, rng):
    """Return the rows in another order and turned, targets turned too, classes with their names exchanged.

    A column more may take a part of the bias, unless the output bias is paid by its size.
    """
    order = rng.permutation(len(problem.X))
    Y = problem.Y[order]
    if problem.loss in (None, "squared") and Y.ndim == 2:
        Y = Y @ np.linalg.qr(rng.standard_normal((Y.shape[1],) * 2))[0]
    elif problem.targets.shape[1] == 1 and problem.loss not in (None, "squared", "huber"):
        Y = 1 - Y
    elif Y.ndim == 1 and problem.loss is None:
        Y = -Y
    share, rest = (0.0, 1.0) if problem.output_bias == "penalized" else (0.6, 0.8)
    X = np.column_stack([problem.X[order], np.full(len(Y), share * problem.bias)])
    turn = np.linalg.qr(rng.standard_normal((X.shape[1],) * 2))[0]
    return replace(problem, X=X @ turn, Y=Y, bias=rest * problem.bias), 1.0


def repeated(problem, rng):
    """Return every row twice: the same means, and for interpolation the same points."""
    return replace(problem, X=np.repeat(problem.X, 2, axis=0), Y=np.repeat(problem.Y, 2, axis=0)), 1.0


def in_other_units(problem, rng):
    """Return inputs and bias in another unit, targets of an interpolation too; λ makes up for it."""
    unit, size = 10.0 ** rng.uniform(-8, 8, 2)
    # of what a unit of the outputs costs: label noise sees activations alone, or the length of the rows as well
    scale = {"variation": unit, "label-noise": 1.0, "label-noise-exact": 1.0 / unit}[problem.potential]
    changes = {"X": unit * problem.X, "bias": unit * problem.bias}
    if problem.loss is None:
        return replace(problem, Y=size * problem.Y, **changes), size / scale
    return replace(problem, lam=scale * problem.lam, **changes), 1.0


def with_a_point_of_its_own(problem, rng):
    """Return one more row, which the optimal network meets already."""
    point = rng.standard_normal((1, problem.X.shape[1]))
    there = solved(problem.name).network.predict(point).reshape(1, *problem.Y.shape[1:])
    return replace(problem, X=np.concatenate([problem.X, point]), Y=np.concatenate([problem.Y, there])), 1.0


INVARIANCES = {
    turned: COMBINATIONS,
    repeated: COMBINATIONS,
    # ‖B‖²/β² has another unit than the neurons
    in_other_units: [p for p in COMBINATIONS if p.output_bias != "penalized"],
    with_a_point_of_its_own: [
        p for p in COMBINATIONS if p.loss is None and p.potential == "variation" and p.bias
    ],
}


@pytest.mark.thinned(23)
@pytest.mark.parametrize(
    ("change", "name"), [(change, p.name) for change, problems in INVARIANCES.items() for p in problems]
)
def test_what_does_not_matter(change, name):
    moved, factor = change(BY_NAME[name], np.random.default_rng(len(name)))
    known = solved(name).objective
    assert moved.solve(tol=TOL).objective == pytest.approx(factor * known, rel=2.5 * TOL, abs=1e-300)


MUTATIONS = {
    "heavier": lambda network, dual: (replace(network, output_weights=1.003 * network.output_weights), dual),
    "lighter": lambda network, dual: (replace(network, output_weights=0.997 * network.output_weights), dual),
    "dual too long": lambda network, dual: (network, 1.001 * dual),
    "dual too short": lambda network, dual: (network, 0.99 * dual),
    "offset": lambda network, dual: (shifted(network), dual),
}


def shifted(network):
    offset = network.output_bias.copy()
    offset[0] += 0.01
    return replace(network, output_bias=offset)


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize(
    "name",
    [
        "plane/interpolation/variation/1/free", "plane/interpolation/variation/3/penalized",
        "plane/squared/variation/2/none", "line/logistic/variation/1/penalized", "line/hinge/label-noise/1/free",
        "plane/huber/label-noise-exact/1/none", "plane/softmax-cross-entropy/variation/3/free",
    ],
)  # fmt: skip
def test_the_checks_refuse_what_is_not_optimal(name, mutation):
    solution = solved(name)
    with pytest.raises(AssertionError):
        check_kkt(BY_NAME[name], *MUTATIONS[mutation](solution.network, solution.dual), 2 * TOL)
