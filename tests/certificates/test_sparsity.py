import numpy as np

from covopt.certificates.tight import TightSet
from covopt.certificates.uniqueness import sparsest_support
from covopt.problems.problem import Problem

RING = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
QUADRANTS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]) / np.sqrt(2)


def solve(
    targets, values=(1, 1, 1, 1), offset_cost=np.inf, rows=RING, neurons=QUADRANTS, offset=0.0, excess=0.0
):
    problem = Problem.through(rows, np.asarray(targets, float), offset_cost)
    tight = TightSet(neurons, np.array(values, float), np.sign(np.array(values, float)))
    return problem, sparsest_support(problem, tight, np.array([offset]), 10.0, excess=excess)


def test_the_fewest_of_a_dependent_set():
    # two opposite quadrants have the outputs of the other two
    targets = np.maximum(RING @ QUADRANTS.T, 0) @ np.full(4, 0.5)
    problem, found = solve(targets)
    assert len(found.neurons) == 2
    assert (found.lower_bound, found.proven) == (2, True)
    np.testing.assert_allclose((problem.atoms(found.neurons) @ found.weights)[:, 0], targets, atol=1e-7)


def test_masses_keep_the_sign_of_their_column():
    targets = np.maximum(RING @ QUADRANTS.T, 0) @ np.array([1.0, 0, 0, -1.0])
    _, found = solve(targets, values=(1, 1, 1, -1))
    assert sorted(np.sign(found.weights[:, 0])) == [-1, 1]
    assert solve(targets, values=(1, 1, 1, 1))[1] is None  # cannot be done with positive masses


def test_a_free_offset_takes_a_neuron_away():
    rows = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    neurons = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    problem, found = solve([4.0, 5.0, 6.0], (1, -1), 0.0, rows, neurons)
    assert len(found.neurons) == 1
    np.testing.assert_allclose(
        problem.fitted(found.neurons, found.weights, found.offset)[:, 0], [4, 5, 6], atol=1e-6
    )


def test_a_penalised_offset_stays_where_it_is():
    rows = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    neurons = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    _, found = solve([4.0, 5.0, 6.0], (1, -1), 1.0, rows, neurons, offset=4.0)
    assert found.offset == 4.0
    assert len(found.neurons) == 1


def test_a_penalised_offset_moves_within_its_error():
    # the neuron alone misses by an offset of 1e-4: held at 0, the second one has to make up for it
    rows = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    neurons = np.array([[1.0, 1.0], [0.0, 1.0]]) / np.sqrt([[2], [1]])
    targets = np.array([0.0, 1.0, 2.0])
    _, found = solve(targets - 1e-4, (1, -1), 1.0, rows, neurons, offset=0.0)
    assert (len(found.neurons), found.lower_bound) == (2, 2)
    _, found = solve(targets - 1e-4, (1, -1), 1.0, rows, neurons, offset=0.0, excess=1e-8)
    assert (len(found.neurons), found.lower_bound) == (1, 1)
    assert abs(found.offset + 1e-4) <= 2e-8
