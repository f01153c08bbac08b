"""Where nothing prices exactly: only what was proved is reported, and what is returned encloses the optimum."""

from dataclasses import replace
from itertools import chain, islice, repeat

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_linnerud

import covopt
from covopt.checks.memory import NoRoom, memory_limited
from covopt.data import Data
from covopt.errors import BudgetError, MemoryLimitWarning, Status
from covopt.limits import TimeUp
from covopt.losses import make_loss
from covopt.oracles import cascade as box_pricing
from covopt.oracles import certified
from covopt.oracles.bounds import relaxed_dual_norm
from covopt.oracles.boxes.search import box_dual_norm
from covopt.oracles.cascade import SearchedThenProved, exact_oracle
from covopt.oracles.certified import DualNormBound, certified_dual_norm
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.sign_tree import sign_dual_norm
from covopt.problems.problem import Problem
from covopt.problems.reduction import reduce_fit
from covopt.solvers import bounds, improve
from covopt.solvers.both_layers import Network
from covopt.solvers.bounds import Bounds, relaxed_duals
from covopt.solvers.descent import Descent
from covopt.solvers.generation import generate
from covopt.solvers.improve import Improvement
from covopt.solvers.searching import HeuristicGeneration, search, searching
from tests.cases import drawn, normal
from tests.oracles.table import face_oracle


def instance(n: int, rank: int, seed: int, offset_cost: float = np.inf) -> Problem:
    generator, targets = drawn(seed, n)
    return Problem.through(generator.standard_normal((n, rank)), targets / np.abs(targets).max(), offset_cost)


def test_what_the_local_search_misses_is_found_by_boxes(monkeypatch):
    """A blind local search: it sees one neuron, and never the best one."""
    problem = instance(7, 3, 2)
    exact = generate(problem, face_oracle(problem.rows), tol=1e-8)
    oracle = SearchedThenProved(problem.rows, tol=1e-6, max_nodes=10**6)
    search = oracle.local.search

    def blind(dual, **options):
        found = search(dual, **{**options, "threshold": 0.0})
        worst = slice(len(found.values) - 1, None)
        return type(found)(found.neurons[worst], found.values[worst], abs(float(found.values[-1])), False)

    monkeypatch.setattr(oracle.local, "search", blind)
    point = HeuristicGeneration(problem, oracle, tol=1e-6, max_rounds=20).solve()
    assert point.lower_bound <= exact.upper_bound * (1 + 1e-9)
    assert point.upper_bound >= exact.lower_bound * (1 - 1e-9)


def test_without_boxes_signs_prove_or_no_bound_is_believed(monkeypatch):
    problem = instance(30, 6, 3)
    by_signs = search(problem, tol=1e-6, max_nodes=1)
    assert by_signs.status is Status.CERTIFIED and by_signs.gap <= 1e-6
    proved = box_dual_norm(problem.rows, by_signs.dual[:, 0], rtol=1e-7).upper_bound
    assert proved <= 1.0 + 1e-6
    monkeypatch.setattr(box_pricing, "sign_limit", lambda *_: 1)
    point = search(problem, tol=1e-6, max_nodes=1)
    assert point.status is Status.GAP
    assert 0 < point.lower_bound < point.upper_bound
    assert relaxed_dual_norm(problem.rows, point.dual) <= 1 + 1e-9


def test_the_time_may_be_up_during_a_proof(monkeypatch):
    """What was only believed is not certified then."""
    problem = instance(14, 4, 1)

    def late(self):
        raise TimeUp

    monkeypatch.setattr(HeuristicGeneration, "_is_decided", late)
    point = search(problem, tol=1e-6, max_nodes=1)
    assert point.status is not Status.CERTIFIED
    assert point.gap > 1e-6


@pytest.mark.parametrize(
    ("n", "d", "k"),
    [(16, 8, 1), (10, 5, 2), *(pytest.param(*size, marks=pytest.mark.slow)
                               for size in ((14, 10, 1), (18, 9, 1), (20, 12, 1), (15, 8, 2)))],
)  # fmt: skip
def test_small_tables_in_many_dimensions_are_certified(n, d, k):
    """Signs prove them in some hundred nodes; 4.5·10⁸ faces of the first took more time than there was.

    15 × 8 with two outputs stopped at a gap of .44, then a hair beyond the tolerance; then climbs missed a neuron.
    """
    X, Y = normal(0, (n, d), (n, k) if k > 1 else n)
    solution = covopt.min_norm(X, Y)
    assert solution.status is Status.CERTIFIED and len(solution.history) < 60
    assert covopt.verify(solution).ok
    if k == 1:
        oracle = exact_oracle(np.column_stack([X, np.ones(n)]), 0)
        found = oracle.price(solution.dual)
        assert found.exact and found.upper_bound <= 1.0 + 1e-6
        assert sign_dual_norm(oracle.rows, solution.dual).nodes < 2000


@pytest.mark.parametrize("n", [16, pytest.param(20, marks=pytest.mark.slow)])
def test_linnerud_is_certified(n):
    """Three outputs stopped with a lower bound that was the upper one less the slack of a search."""
    table = load_linnerud(return_X_y=True)
    X, Y = ((part[:n] - part.mean(axis=0)) / part.std(axis=0) for part in table)
    assert covopt.min_norm(X, Y, duplicates="mean", time_limit_s=120.0).status is Status.CERTIFIED


@pytest.mark.slow
def test_what_climbs_miss_is_found_by_boxes_and_what_boxes_miss_by_signs():
    """Raw iris stopped at a gap of 4 % after 520 rounds, 50 × 7 normal points at 28 %: both are a minute's work."""
    flowers = np.unique(np.column_stack(load_iris(return_X_y=True)), axis=0)
    noise, iris = (normal(0, (50, 7)), normal(1, 50)), (flowers[:, :4], flowers[:, 4])
    # at 1e-3 a belief that a neuron had corrected was within the tolerance, and ended the rounds without a proof
    for table, tol in ((iris, 1e-6), (iris, 1e-3), (noise, 1e-6)):
        assert covopt.min_norm(*table, tol=tol).status is Status.CERTIFIED


def test_more_columns_than_three_for_a_row_may_share_the_mass():
    """The heaviest 120 of some thousand of about one weight met no table: 105 rounds ended with a gap of 4e-4."""
    rows = np.random.default_rng(40).choice(np.unique(load_iris().data, axis=0), 40, replace=False)
    solution = covopt.min_norm(
        rows[:, :3], rows[:, 3], callback=lambda state: state.round > 60, duplicates="mean"
    )
    assert solution.status is Status.CERTIFIED


def test_steps_that_lead_nowhere_end_with_a_network_and_no_error():
    """A ratio far below zero was raised to its third power, and overflowed."""
    rng = np.random.default_rng(8)
    rng.integers(10, 24, 2)
    X = np.unique(rng.standard_normal((20, 9)), axis=0)
    problem = Problem.through(np.column_stack([X, np.ones(20)]), rng.standard_normal((20, 2)), 0.0)
    point = search(problem, tol=1e-6, random_state=0)
    assert problem.missed(*point.network) < 1e-9 and point.lower_bound <= point.upper_bound < 7.2


def test_a_belief_that_was_corrected_does_not_end_the_rounds_unproved(monkeypatch):
    problem = Problem.through(np.eye(3), np.array([3.0, 4.0, -6.0]))
    generation = searching(problem, tol=1e-3, max_nodes=1000)
    monkeypatch.setattr(generation, "_began", 0.0, raising=False)
    generation.point.upper_bound, generation.point.lower_bound = 1.0, 0.9999
    answers = [True, True, False]  # corrected, by less than the tolerance; corrected; no proof
    monkeypatch.setattr(generation, "_is_decided", lambda: answers.pop(0))
    assert generation.should_stop() and generation.failed and not answers


def test_proofs_that_fail_add_what_they_have_found_and_columns_refute_a_belief(monkeypatch):
    """Standardised iris was certified with 2 of 10 seeds within 30 s: climbs missed again what no round had added."""
    problem = instance(24, 5, 0)
    generation = searching(problem, tol=1e-4, max_rounds=200)
    first = generation.oracle.price(problem.targets)
    priced = chain([first], repeat(replace(first, neurons=first.neurons[:0], upper_bound=0.5)))
    monkeypatch.setattr(generation.oracle, "price", lambda *_, **__: next(priced))
    point = generation.solve()
    assert point.status is Status.CERTIFIED
    assert point.upper_bound == pytest.approx(search(problem, tol=1e-6).upper_bound, rel=1e-4)


def test_what_signs_could_not_prove_leaves_the_time_to_more_and_more_points(monkeypatch):
    problem, counts = instance(60, 11, 0), []

    def solved(problem, chosen, *options):
        counts.append(len(chosen))
        return np.eye(60, 1) * len(counts)

    monkeypatch.setattr(bounds, "few_points", solved)
    monkeypatch.setattr(bounds, "certified_dual_norm", lambda *_, **__: pytest.fail("proved again"))
    point = next(Improvement(problem, lambda: None, tol=1e-6, random_state=0).descent.run())
    Bounds(problem, replace(point), problem.targets, tol=1e-6, time_s=600.0, failed=True).raise_all()
    assert counts == [11, 22, 41, 51, 56, 58, 59, 60]


def test_a_proof_a_hair_beyond_the_tolerance_is_followed_by_more_rounds():
    """The belief was within 1e-6, its proof within 1.02e-6: the solve ended uncertified."""
    X, y = normal(0, (40, 3), 40)
    problem = Problem.through(np.column_stack([X, np.ones(40)]), y / np.abs(y).max())
    for tol in (1e-5, 1e-6):
        assert search(problem, tol=tol).status is Status.CERTIFIED


@pytest.mark.thinned(4)
@pytest.mark.parametrize("lam", ["0.1max", "0.001max"])
@pytest.mark.parametrize(("n", "d", "output_bias"), [(30, 3, "none"), (20, 4, "free"), (14, 5, "penalized")])
def test_fits_ask_boxes(n, d, output_bias, lam):
    X, y = normal(2, (n, d), n)
    fitted = covopt.fit(X, y, lam=lam, output_bias=output_bias)
    assert fitted.status is Status.CERTIFIED and fitted.solver == "column-generation with boxes"
    assert covopt.verify(fitted).ok
    above = covopt.fit(X, y, lam="1.01max", output_bias=output_bias)  # the first dual is optimal, and proved
    assert above.status is Status.CERTIFIED and len(above.network) == 0


# ------------------------------------------------------------- the loop beyond the budget of faces
def refused():
    raise BudgetError("too many")


def bracketed(problem, **options):
    """Return what the loop ends with where there is no exact oracle."""
    return Improvement(problem, refused, **{"tol": 1e-6, "random_state": 0} | options).run()


def lifted(seed: int, n: int, d: int, offset_cost: float) -> Problem:
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.standard_normal((n, d)), np.ones(n)])
    return Problem.through(rows / np.linalg.norm(rows, axis=1).max(), rng.uniform(-1, 1, n), offset_cost)


def of_classes(loss: str, n: int, d: int, classes: int = 2, lam: float = 1e-2, **options) -> Problem:
    rng = np.random.default_rng(4)
    X, labels = rng.standard_normal((n, d)), np.arange(n) % classes
    X[0] = 0.0 if options.get("zero") else X[0]
    bound = make_loss(loss)
    targets = bound.encode_targets(labels)
    data = Data.validate(X, targets, bias=0.0 if options.get("zero") else 1.0, interpolates=False)
    return reduce_fit(data, bound, lam, "none")[0]


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("offset_cost", "k"), [(np.inf, 1), (1.0, 2), (0.0, 1), (np.inf, 2), (1.0, 1), (0.0, 2)]
)
def test_bounds_enclose_the_exact_optimum_without_a_proof(k, offset_cost, monkeypatch):
    monkeypatch.setattr(box_pricing, "suits_signs", lambda *size: False)
    monkeypatch.setattr(
        bounds,
        "certified_dual_norm",
        lambda rows, dual, **_: DualNormBound(relaxed_dual_norm(rows, dual), False, ""),
    )
    problem = lifted(k, 7, 2, offset_cost)
    if k > 1:
        targets = np.random.default_rng(k).uniform(-1, 1, (7, k))
        problem = Problem.through(problem.rows, targets, offset_cost)
    oracle = exact_oracle(problem.rows, 0 if k == 1 else k)
    exact = generate(problem, oracle, tol=1e-6)
    seen = []
    found = bracketed(problem, callback=lambda state, point: bool(seen.append(state)))
    assert found.status is (Status.CERTIFIED if found.gap <= 1e-6 else Status.HEURISTIC)
    assert 0 < found.lower_bound <= exact.upper_bound * (1 + 1e-7)
    assert exact.lower_bound * (1 - 1e-9) <= found.upper_bound <= exact.upper_bound * 1.05
    assert oracle.price(problem.asked(found.dual)).upper_bound <= 1 + 1e-9
    assert problem.dual_value(found.dual) == pytest.approx(found.lower_bound, rel=1e-12)
    lower = [state.lower_bound for state in seen]
    assert lower[0] == 0.0 and lower == sorted(lower) and lower[-1] <= exact.upper_bound * (1 + 1e-7)
    if k == 1:
        assert search(problem, tol=1e-6, callback=lambda *_: True).status is Status.CALLBACK


def test_branch_and_bound_then_a_relaxation_beyond_the_budget(monkeypatch):
    rng = np.random.default_rng(1)
    for dual in (rng.standard_normal(15), rng.standard_normal((15, 2))):
        rows = rng.standard_normal((15, 3))
        exact, was_exact, _ = certified_dual_norm(rows, dual)
        signs, was_found, _ = certified_dual_norm(rows, dual, effort=2e-08)
        assert was_exact
        assert was_found
        assert signs == pytest.approx(exact, rel=1e-9)
        with monkeypatch.context() as patch:
            patch.setattr(certified, "sign_limit", lambda *size, **effort: 1)
            patch.setattr(certified, "STARTS", 1)
            relaxed = certified_dual_norm(rows, dual, effort=2e-08).value
        assert exact * (1 - 1e-12) <= relaxed <= 10 * exact
        few = np.where((np.arange(15) < 2).reshape(-1, *[1] * (dual.ndim - 1)), dual, 0.0)
        supported, flag, _ = certified_dual_norm(rows, few, effort=2e-08)
        assert flag
        assert supported == pytest.approx(certified_dual_norm(rows, few)[0], rel=1e-9)


def test_an_interrupt_in_a_pricing_ends_the_solve(monkeypatch):
    real = box_pricing.LocalSearchOracle.search
    calls = []

    def search(self, dual, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, dual, **options)

    monkeypatch.setattr(box_pricing.LocalSearchOracle, "search", search)
    found = bracketed(lifted(0, 12, 4, np.inf), tol=1e-9)
    assert found.status is Status.INTERRUPTED
    assert 0 < found.lower_bound <= found.upper_bound


def test_a_neuron_that_was_missed_lowers_what_is_believed():
    """Else rounds go on from a dual that their own columns exclude."""
    problem = of_classes("squared", 12, 3)
    oracle = SearchedThenProved(problem.rows, tol=1e-6, max_nodes=1, proves=False)
    generation = HeuristicGeneration(problem, oracle, tol=1e-6)
    dual = problem.project_dual(problem.constant_dual())
    found = oracle.price(dual[:, 0])
    generation.point.dual, value = problem.scale_dual(dual, 0.5 * found.upper_bound)  # half of it was met
    generation.point.lower_bound = value
    generation.correct(found.neurons)
    heights = np.abs(problem.atoms(found.neurons).T @ generation.point.dual)
    assert heights.max() <= 1.0 + 1e-9
    assert 0.0 < generation.point.lower_bound < value


def test_a_belief_above_a_network_is_refuted_by_it():
    """Of four classes of 56 rows rounds went on for minutes from a dual that was worth more than the network."""
    problem = of_classes("squared", 12, 3)
    oracle = SearchedThenProved(problem.rows, tol=1e-6, max_nodes=1)
    generation = HeuristicGeneration(problem, oracle, tol=1e-6)
    dual = problem.project_dual(problem.constant_dual())
    found = generation.price(dual, 0.0)
    too_high = replace(found, upper_bound=0.1 * found.upper_bound)
    right = problem.scale_dual(dual, found.upper_bound)
    generation.point.upper_bound = 1.5 * right[1]
    generation.offer_dual(dual, too_high)
    assert generation.point.lower_bound == generation.proved[1] < right[1]
    generation.offer_dual(dual, found)
    assert generation.point.lower_bound == right[1]


@pytest.mark.parametrize(
    ("n", "rank", "k", "closes"), [(178, 14, 2, True), (9000, 20, 2, False), (178, 14, 30, False)]
)
def test_the_optimal_dual_of_several_outputs_is_kept_where_a_fan_may_prove_it(n, rank, k, closes):
    """Wine of three classes (178 × 13) kept a gap of .7 %: only a dual easier to bound was asked about."""
    generator = np.random.default_rng(0)
    problem = Problem.through(generator.standard_normal((n, rank)), generator.standard_normal((n, k)))
    problem = replace(problem, loss=make_loss("squared"))
    _ = problem.loss.encode_targets(generator.standard_normal((n, k)))
    point = Descent(problem).point
    assert Bounds(problem, point, point.dual, tol=1e-6).closes is closes


def test_a_deadline_within_the_bounds_keeps_the_network(monkeypatch):
    """A search for a better dual that was cut short by the solver's deadline once gave an empty network."""

    def late(*_, **options):
        raise TimeUp

    monkeypatch.setattr(bounds, "certified_dual_norm", late)
    monkeypatch.setattr(box_pricing, "sign_limit", lambda *_: 1)
    problem = of_classes("squared", 56, 9, lam=0.03)
    point = bracketed(problem, tol=1e-3)
    assert point.status is Status.HEURISTIC and len(point.neurons) > 0
    met = LocalSearchOracle(problem.rows, random_state=0).search(point.dual[:, 0]).upper_bound
    assert 0.0 < point.lower_bound < point.upper_bound and met <= 1.0


def test_more_dimensions_than_boxes_are_for_say_so_in_one_sentence(monkeypatch):
    monkeypatch.setattr(bounds, "MOST_QUADRATIC_DIMENSIONS", 8)  # 64 take longer to reach
    monkeypatch.setattr(bounds, "suits_signs", lambda *size: False)
    monkeypatch.setattr(box_pricing, "sign_limit", lambda *_: 1)
    point = bracketed(of_classes("squared", 32, 9, lam=0.03), tol=1e-3)
    assert point.status is Status.HEURISTIC and 0.0 < point.lower_bound < point.upper_bound
    assert point.history[-1].note == (
        "boxes are for at most 64 dimensions (features, and one for the bias): the lower bound is a relaxation's"
    )
    assert point.history[-1].lower_bound == pytest.approx(point.lower_bound, rel=1e-9)


@pytest.mark.parametrize("stop", [TimeUp, KeyboardInterrupt])
def test_bounds_after_a_search_that_are_stopped_leave_its_network(monkeypatch, stop):
    """Boxes ended late with 65 on the iris table, the search after them had no time: 36900 along a line came back."""

    def given_up(self):
        self.failed = True
        return False

    def stopped(self, **_):
        self.point.dual, self.point.upper_bound = np.zeros_like(self.point.dual), np.inf  # half done
        raise stop

    monkeypatch.setattr(HeuristicGeneration, "_is_decided", given_up)
    monkeypatch.setattr(bounds.Bounds, "raise_all", stopped)
    X, y = normal(1, (12, 4), 12)
    solution = covopt.min_norm(X, y)
    assert solution.gap < 1e-5 and solution.solver == "column-generation with boxes"
    assert covopt.verify(solution).ok


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("loss", "classes", "offset_cost"),
    [("squared", 2, np.inf), ("hinge", 2, 1.0), ("softmax-cross-entropy", 3, 0.0)],
)
def test_a_dual_that_is_easier_to_bound(loss, classes, offset_cost):
    """Cutting planes of the relaxation raise the bound of the network's own dual, except at the corners of the hinge,
    where any subgradient may be the dual's; every bound holds."""
    problem = replace(of_classes(loss, 24, 9, classes, lam=0.02), offset_cost=offset_cost)
    *_, point = Descent(problem, 0).run(1, 1)
    values = []
    for dual, dual_norm in islice(relaxed_duals(problem, Network(*point.network), point.dual), 8):
        met = LocalSearchOracle(problem.rows, random_state=0, n_starts=64).search(problem.asked(dual))
        assert met.upper_bound <= dual_norm
        values.append(problem.scale_dual(dual, dual_norm)[1])
    assert max(values) <= point.upper_bound
    assert values[0] < max(values) or loss == "hinge"


def test_a_network_without_neurons_has_no_columns_for_a_relaxation_to_begin_with():
    """As 40 000 rows with a limit of one second: an IndexError."""
    problem = of_classes("squared", 24, 9, 2, lam=0.02)
    nothing = Network(np.zeros((0, 10)), np.zeros((0, 1)), np.zeros(1))
    duals = relaxed_duals(problem, nothing, problem.dual_of(np.zeros(problem.dual_shape)))
    first, second = (problem.scale_dual(*each)[1] for each in islice(duals, 2))
    assert 0.0 < first < second


def test_columns_of_a_relaxation_end_where_memory_does():
    problem = of_classes("squared", 24, 9, 2, lam=0.02)
    *_, point = Descent(problem, 0).run(1, 1)
    duals = relaxed_duals(problem, Network(*point.network), point.dual)
    with memory_limited(1e-6), pytest.warns(MemoryLimitWarning, match="the columns of a relaxation"):
        assert problem.scale_dual(*next(duals))[1] > 0.0
        with pytest.raises(NoRoom):
            next(duals)


@pytest.mark.parametrize("rows, rank, tol", [(72, 9, 1e-3), (63, 9, 1e-6), (72, 8, 1e-6)])
def test_columns_through_points_that_nothing_proves_end_early(monkeypatch, rows, rank, tol):
    seen = []

    def ends(problem, *, tol, **options):
        seen.append(tol)
        raise TimeUp

    monkeypatch.setattr(improve, "searching", ends)
    Improvement(instance(rows, rank, 0), lambda: None, tol=1e-6, proves=True).run()
    assert seen == [tol]
