"""Column generation on the whole bank: one solve for each problem, shared by all statements about it."""

from functools import cache

import numpy as np
import pytest

import covopt
from covopt.network import ReLUNetwork
from tests.bank.checks import check_kkt, check_one_neuron_per_cell, check_optimal
from tests.bank.problems import BY_NAME, CLOSED_FORMS, COMBINATIONS, PROBLEMS, references
from tests.nightly import thinned

TOL = 1e-7
NO_PROOF = ("label-noise", "label-noise-exact")


@cache
def solved(name):
    return BY_NAME[name].solve(tol=TOL)


every = pytest.mark.parametrize("name", BY_NAME)


def test_every_combination_has_a_reference_that_proves_itself():
    # a changed table or λ would leave values behind that no solver meets
    assert {name: stored["of"] for name, stored in references().items()} == {
        p.name: p.digest for p in COMBINATIONS
    }
    for problem in PROBLEMS:
        primal, dual = problem.reference
        assert dual <= primal * (1 + 1e-9) + 1e-12, problem.name
        assert primal - dual <= 1e-7 * problem.unit, problem.name
    kinds = {(p.loss, p.potential, p.targets.shape[1], p.output_bias) for p in PROBLEMS}
    # 14 losses with their outputs and 3 output biases; 6 with two kinds of label noise and 2 output biases
    assert len(kinds) == 14 * 3 + 6 * 2 * 2


@every
def test_optimal_and_equal_to_the_reference(name):
    check_optimal(BY_NAME[name], solved(name), TOL)


@every
def test_the_file_is_verified(name, tmp_path):
    solution = solved(name)
    solution.save(tmp_path / "solution.json")
    again = covopt.load(tmp_path / "solution.json")
    assert (again.cost, again.objective, again.lower_bound, again.gap) == (
        solution.cost, solution.objective, solution.lower_bound, solution.gap
    )  # fmt: skip
    np.testing.assert_array_equal(again.dual, solution.dual)
    np.testing.assert_array_equal(
        again.network.predict(BY_NAME[name].X), solution.network.predict(BY_NAME[name].X)
    )
    found = covopt.verify(again, BY_NAME[name].X, BY_NAME[name].Y)
    assert found.ok, found.summary()
    assert found.certificate.lower_bound == pytest.approx(solution.lower_bound, rel=1e-9)
    assert found.certificate.gap <= TOL * (1 + 1e-6)


@every
def test_exact_arithmetic_confirms_it(name):
    problem = BY_NAME[name]
    found = covopt.verify(solved(name), exact=True)
    assert found.ok, found.summary()
    details = {check.name: check.detail for check in found.checks}
    assert ("exact norm" in details) == (problem.potential == "variation")
    assert ("exact objective" if problem.loss else "exact interpolation") in details
    said = details["exact lower bound"]
    floating = problem.potential in NO_PROOF or problem.loss == "softmax-cross-entropy"
    assert said.startswith("NOT exact") == (floating or rank(problem) > 1)


def rank(problem):
    """Outputs that are left: targets of rank one are one output, classes never are."""
    return 1 if problem.targets.shape[1] == 1 else int(np.linalg.matrix_rank(problem.targets))


@pytest.mark.parametrize("problem", CLOSED_FORMS, ids=lambda problem: problem.name)
def test_closed_forms_to_nine_digits(problem):
    """The tightest tolerance: few neurons, no two of a sign in a cell, and uniqueness is as known."""
    solution = problem.solve(tol=1e-9)
    check_optimal(problem, solution, 1e-9)
    assert len(solution.network) <= len(problem.X)
    check_one_neuron_per_cell(
        problem.rows, solution.network.hidden_weights, solution.network.output_weights[:, 0]
    )
    # its zero target has λ = 0 in every dual: no way out of a face descends there, and nothing is claimed
    known = None if problem.name.endswith("identity-two-classes") else problem.unique
    if problem.unique is not None:
        assert solution.is_unique == known, solution.uniqueness.reason


@pytest.mark.parametrize("name", thinned([problem.name for problem in COMBINATIONS], 5))
def test_order_and_rotations_do_not_matter(name):
    problem, rng = BY_NAME[name], np.random.default_rng(1)
    order = rng.permutation(len(problem.X))
    turn = np.linalg.qr(rng.standard_normal((problem.X.shape[1],) * 2))[0]
    Y = problem.Y[order]
    if problem.loss in (None, "squared") and Y.ndim == 2:
        Y = Y @ np.linalg.qr(rng.standard_normal((Y.shape[1],) * 2))[0]
    elif problem.targets.shape[1] == 1 and problem.loss not in (None, "squared", "huber"):
        Y = 1 - Y  # the names of the classes
    elif Y.ndim == 1 and problem.loss is None:
        Y = -Y
    moved = type(problem)(
        name, problem.X[order] @ turn, Y, problem.bias, problem.output_bias, problem.loss, problem.potential,
        problem.lam,
    )  # fmt: skip
    assert moved.solve(tol=TOL).objective == pytest.approx(solved(name).objective, rel=2.5 * TOL)


MUTATIONS = {
    "heavier": lambda network, dual: (scaled(network, 1.003), dual),
    "lighter": lambda network, dual: (scaled(network, 0.997), dual),
    "dual too long": lambda network, dual: (network, 1.001 * dual),
    "dual too short": lambda network, dual: (network, 0.99 * dual),
    "offset": lambda network, dual: (shifted(network), dual),
}


def scaled(network, factor):
    return ReLUNetwork(
        network.hidden_weights, factor * network.output_weights, network.bias, network.output_bias, True
    )


def shifted(network):
    offset = network.output_bias.copy()
    offset[0] += 0.01
    return ReLUNetwork(network.hidden_weights, network.output_weights, network.bias, offset, True)


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
