from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest

import covopt
from covopt.data import Data
from covopt.datasets import make_random_plane
from covopt.errors import BudgetError, InputError
from covopt.network import ReLUNetwork
from covopt.plotting import (
    dual_values,
    plot_dual,
    plot_function_1d,
    plot_history,
    plot_solution,
    plot_surface_2d,
)
from covopt.plotting.function import MOST_KINKS
from covopt.status import Status

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def stand_in(d, n=20, neurons=10, *, bias=1.0, gap=1e-10, rounds=5):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    data = Data.validate(X, np.abs(X[:, 0]) if d == 1 and bias == 0 else y, bias=bias)  # f(c x) = c f(x)
    hidden = rng.standard_normal((neurons, data.lifted.shape[1]))
    network = ReLUNetwork.from_neurons(hidden, rng.standard_normal(neurons), bias=bias)
    history = [
        {"time_s": i / 10, "lower_bound": 9 - 0.5**i, "upper_bound": 9 + 0.5**i} for i in range(rounds)
    ]
    if rounds:
        del history[0]["upper_bound"]  # not known yet
    tight = SimpleNamespace(neurons=hidden, values=np.ones(neurons))
    return SimpleNamespace(
        data=data, network=network, dual=rng.standard_normal(n), history=history, cost=9.0, lower_bound=8.9,
        gap=gap, status=Status.CERTIFIED, potential="variation", loss=None, objective=9.0, scaling=None,
        tight_set=lambda refine=True: tight, certificate=SimpleNamespace(gauge=1.0), time_s=0.0,
    )  # fmt: skip


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("bias", "d"), [(0.0, 2), *((1.0, d) for d in (1, 2, 3, 6)), *((0.0, d) for d in (1, 3, 6))]
)
def test_every_dimension_has_its_panels(d, bias, tmp_path):
    figure = plot_solution(stand_in(d, bias=bias), tmp_path / "f.png")
    titles = [ax.get_title() for ax in figure.axes]
    assert any("dual function" in t for t in titles)
    assert any("rounds" in t for t in titles)
    assert any("10 neurons" in t for t in titles) == (d <= 2)
    assert all(ax.get_ylabel() for ax in figure.axes)
    assert (tmp_path / "f.png").stat().st_size > 10_000
    assert [p.name for p in tmp_path.iterdir()] == ["f.png"]


def test_function_is_drawn_through_its_kinks():
    network = ReLUNetwork.from_neurons(np.array([[1.0, -0.5], [-1.0, 0.25]]), np.array([2.0, -1.0]), bias=1.0)
    X = np.array([[-1.0], [1.0]])
    ax = plot_function_1d(network, X, network.predict(X))
    x, f = ax.lines[0].get_data()
    assert {0.5, 0.25} <= set(x)
    assert np.allclose(f, network.predict(x[:, None]))
    with pytest.raises(InputError, match="needs X with 1 column; received shape"):
        plot_function_1d(network, np.eye(2), [1, 2])


def kink_lines(ax):
    """Return the lines of kinks: from edge to edge, with a spur on the way."""
    return [line for line in ax.lines if len(line.get_xdata()) == 5]


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_kink_lines_are_where_neurons_vanish_and_inside_the_axes(bias):
    solution = stand_in(2, neurons=150, bias=bias)
    network, data = solution.network, solution.data
    ax = plot_surface_2d(network, data.X, data.Y)
    lines = kink_lines(ax)
    segments = np.array([line.get_xydata()[[0, -1]] for line in lines])
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    ends = segments.reshape(-1, 2)
    assert len(segments) == MOST_KINKS
    assert f"of the {MOST_KINKS} costliest" in ax.get_title()
    assert ends[:, 0].min() >= left - 1e-9
    assert ends[:, 0].max() <= right + 1e-9
    assert ends[:, 1].min() >= bottom - 1e-9
    assert ends[:, 1].max() <= top + 1e-9
    vanishing = (
        np.abs(network.lift(ends) @ network.hidden_weights.T).reshape(len(segments), 2, -1).max(axis=1)
    )
    assert vanishing.min(axis=1).max() < 1e-12
    assert len({line.get_linestyle() for line in lines}) == 2  # the sign is readable in black and white
    hidden = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 99.0]])
    network = ReLUNetwork.from_neurons(hidden, np.ones(4), bias=1.0)  # along an axis, or constant
    ax = plot_surface_2d(network, np.array([[-1.0, -1.0], [1.0, 1.0]]), [0.0, 1.0])
    assert len(kink_lines(ax)) == 2 and "2 without a kink here" in ax.get_title()


def test_the_dual_scales_neurons_to_the_sphere_and_a_tight_set_is_not_worth_another_solve():
    solution = stand_in(3)
    w = np.array([[3.0, 0.0, 0.0, 4.0]])
    expected = solution.dual @ np.maximum(solution.data.lifted @ (w[0] / 5), 0)
    assert dual_values(solution.dual, solution.data.lifted, w)[0] == pytest.approx(expected)

    def none_without(refine=True):
        assert not refine or solution.gap < 1e-8
        raise BudgetError

    for solution in (stand_in(3, n=100, gap=1e-6), stand_in(3)):
        solution.tight_set = none_without
        assert "tight" not in " ".join(plot_dual(solution).get_legend_handles_labels()[1])


def test_history_keeps_the_best_bounds_and_given_axes_are_used():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert plot_history(stand_in(2), ax) is ax and plot_dual(stand_in(2), plt.subplots()[1]) is not ax
    upper, lower = ax.lines[0].get_ydata(), ax.lines[1].get_ydata()
    assert (np.diff(lower) >= 0).all() and (np.diff(upper[1:]) <= 0).all() and np.isnan(upper[0])


def test_real_solutions_and_networks_without_neurons():
    solution = covopt.min_norm(*make_random_plane(10, 1))
    assert "certified" in solution.plot().get_suptitle()
    values = np.abs(dual_values(solution.dual, solution.data.lifted, solution.network.hidden_weights))
    assert values.max() <= 1 + 1e-9 and values.min() > 0.99
    plot_solution(stand_in(2, neurons=0, rounds=0))
    plot_solution(stand_in(1, neurons=0, rounds=0))
