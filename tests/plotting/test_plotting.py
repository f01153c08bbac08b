"""What pictures say is what the network does: solutions and stand-ins of every kind, and what is drawn of them."""

import itertools
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import covopt
from covopt.data import Data
from covopt.datasets import make_random_plane, make_smooth
from covopt.errors import BudgetError, Status
from covopt.losses.classification import codes_of
from covopt.network import ReLUNetwork
from covopt.plotting import (
    draw,
    dual_values,
    function_pictures,
    plot_dual,
    plot_function_1d,
    plot_history,
    plot_solution,
    plot_surface_2d,
)
from covopt.plotting.function import MOST_KINKS
from covopt.plotting.history import history_pictures
from covopt.plotting.predictions import chances_of, dependences, partial_dependence, predicted, scores
from tests.cases import drawn

plt.switch_backend("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def stand_in(d, n=20, neurons=10, *, bias=1.0, gap=1e-10, rounds=5):
    """What pictures ask of a solution, of random numbers."""
    rng, X, y = drawn(0, (n, d), n)
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


@cache
def classified(d, kinds=2, loss=None):
    X = make_smooth(12, max(d, 2))[0][:, :d]
    labels = np.array(["in", "out", "wide"])[np.digitize(np.abs(X[:, 0]), [0.6, 1.2][: kinds - 1])]
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(d)])
    loss = loss or ("logistic" if kinds == 2 else "softmax-cross-entropy")
    return covopt.fit(frame, pd.Series(labels, name="kind"), lam=3e-3, loss=loss, tol=1e-4)


@cache
def fitted():
    """Three inputs, two outputs, names that matplotlib would read otherwise."""
    X, y = make_smooth(12, 3)
    names = ["cost $x_$", "_hidden", "c"]
    targets = pd.DataFrame({"_u": y, "$v_ $" + "long" * 30: X[:, 2]})
    return covopt.fit(pd.DataFrame(X, columns=names), targets, lam=0.03)


@cache
def plane():
    return covopt.min_norm(*make_smooth(15))


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ---------------------------------------------------------------------- whole figures
def overlap(ax):
    """Whether two tick labels of an axis run into each other."""
    for axis in (ax.xaxis, ax.yaxis):
        labels = [label for label in axis.get_ticklabels() if label.get_text() and label.get_visible()]
        boxes = [label.get_window_extent() for label in labels]
        inside = [box for box in boxes if ax.bbox.expanded(1.2, 1.2).overlaps(box)]
        if any(a.overlaps(b) for a, b in itertools.pairwise(inside)):
            return True
    return False


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("bias", "d"), [(0.0, 2), *((1.0, d) for d in (1, 2, 3, 6)), *((0.0, d) for d in (1, 3, 6))]
)
def test_every_dimension_has_its_panels_and_ticks_do_not_overlap(d, bias, tmp_path):
    figure = plot_solution(stand_in(d, bias=bias), tmp_path / "f.png")
    titles = [ax.get_title() for ax in figure.axes]
    assert any("dual function" in t for t in titles)
    assert any("rounds" in t for t in titles)
    assert any("10 neurons" in t for t in titles) == (d <= 2)
    assert all(ax.get_ylabel() for ax in figure.axes)
    assert (tmp_path / "f.png").stat().st_size > 10_000
    assert [p.name for p in tmp_path.iterdir()] == ["f.png"]
    assert not any(overlap(ax) for ax in figure.axes)


@pytest.mark.parametrize("kind", ["large numbers", pytest.param("classes", marks=pytest.mark.slow)])
def test_figures_of_solutions(kind):
    X, y = make_smooth(12, 3)
    of_classes = kind == "classes"
    solution = classified(2) if of_classes else covopt.fit(1e5 * X[:, :1], 1e7 * y, lam=1e9, bias=1e5)
    figure = plot_solution(solution)
    figure.draw_without_rendering()
    assert not any(overlap(ax) for ax in figure.axes)
    assert figure.dpi == 150 and "certified" in figure.get_suptitle()


def test_networks_without_neurons_have_figures():
    for d in (1, 2):
        plot_solution(stand_in(d, neurons=0, rounds=0))
    none = covopt.fit(*make_smooth(8), lam="2max")
    assert [text.get_text() for text in plot_dual(none).texts] == ["the network has no neuron"]


@pytest.mark.parametrize("size", [1e300, pytest.param(1e-300, marks=pytest.mark.slow)])
def test_targets_that_matplotlib_cannot_square(size):
    X, y = make_smooth(8)
    labels = [ax.get_ylabel() for ax in plot_solution(covopt.min_norm(X, size * y)).axes]
    assert any(label.startswith("y / 2^") for label in labels)


# ---------------------------------------------------------------------- the function
def test_function_is_drawn_through_its_kinks():
    network = ReLUNetwork.from_neurons(np.array([[1.0, -0.5], [-1.0, 0.25]]), np.array([2.0, -1.0]), bias=1.0)
    X = np.array([[-1.0], [1.0]])
    x, f = plot_function_1d(network, X, network.predict(X)).lines[0].get_data()
    assert {0.5, 0.25} <= set(x) and np.allclose(f, network.predict(x[:, None]))


def kink_lines(ax):
    """Return the lines of kinks: from edge to edge, with a spur on the way."""
    return [line for line in ax.lines if len(line.get_xdata()) == 5]


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_kink_lines_are_where_neurons_vanish_and_inside_the_axes(bias):
    solution = stand_in(2, neurons=150, bias=bias)
    network, data = solution.network, solution.data
    ax = plot_surface_2d(network, data.X, data.Y)
    lines = kink_lines(ax)
    ends = np.array([line.get_xydata()[[0, -1]] for line in lines]).reshape(-1, 2)
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    assert len(lines) == MOST_KINKS and f"of the {MOST_KINKS} costliest" in ax.get_title()
    assert (ends >= low - 1e-9).all() and (ends <= high + 1e-9).all()
    reach = np.abs(network.lift(ends) @ network.hidden_weights.T).reshape(len(lines), 2, -1).max(axis=1)
    assert reach.min(axis=1).max() < 1e-12
    assert len({line.get_linestyle() for line in lines}) == 2  # the sign is readable in black and white
    hidden = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 99.0]])
    network = ReLUNetwork.from_neurons(hidden, np.ones(4), bias=1.0)  # along an axis, or constant
    ax = plot_surface_2d(network, np.array([[-1.0, -1.0], [1.0, 1.0]]), [0.0, 1.0])
    assert len(kink_lines(ax)) == 2 and "2 without a kink here" in ax.get_title()


def test_a_surface_has_a_legend_and_round_numbers_within_its_scale():
    X, y = make_smooth(15)
    bar = plot_surface_2d(plane().network, X, y, name="t").figure.axes[1]
    (low, high), ticks = bar.get_ylim(), bar.get_yticks()
    assert ((ticks >= low - 1e-12) & (ticks <= high + 1e-12)).all() and bar.get_ylabel() == "t"
    np.testing.assert_allclose(ticks * 2, np.round(ticks * 2), atol=1e-9)
    one = ReLUNetwork([[1.0, 0.2, 0.1]], [1.0])
    assert texts(plot_surface_2d(one, X, y)) == ["kink, positive weight", "data (same scale)"]


def test_every_output_is_drawn_with_its_name():
    X, y = make_smooth(10)
    for of, names in ((X, ["u", "v"]), (np.column_stack([y * j for j in range(1, 6)]), None)):
        Y = of if names is None else pd.DataFrame({"u": y, "v": -(y**2)})
        solution = covopt.fit(X, Y, lam=0.5, tol=1e-3)
        drawn = function_pictures(solution, resolution=9)
        if names:
            assert [picture.layers[0].name for picture in drawn] == names
        else:
            assert len(drawn) == 4 and "1 output is not drawn" in drawn[3].title
    line = plot_solution(covopt.fit(X[:, :1], pd.DataFrame({"u": y, "v": -(y**2)}), lam=0.1))
    assert texts(line.axes[0])[:2] == ["u", "v"]


# ---------------------------------------------------------------------- classes
@pytest.mark.parametrize("kinds", [2, 3])
def test_surfaces_of_classes_are_their_probabilities_with_a_line_at_one_half(kinds):
    solution = classified(2, kinds)
    pictures, first = function_pictures(solution, resolution=40), int(kinds == 2)  # of two classes the second
    names = ["in", "out", "wide"][:kinds]
    assert [picture.layers[0].name for picture in pictures] == [f"P({name})" for name in names[first:]]
    for k, picture in enumerate(pictures):
        below = picture.layers[0]
        points = np.column_stack([part.ravel() for part in np.meshgrid(below.first, below.second)])
        np.testing.assert_array_equal(below.values.ravel(), chances_of(solution, points)[:, first + k])
        ax = draw(picture)
        assert below.wall == 0.5 and set(names) <= set(texts(ax))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("f0", "f1") and "neurons" in ax.get_title()


def test_curves_of_classes_are_their_probabilities_with_the_data_below():
    solution = classified(1)
    (picture,) = function_pictures(solution)
    line = picture.layers[0]
    ax = draw(picture)
    assert ax.get_xlabel() == "f0" and picture.y == "probability" and {"in", "out"} <= set(texts(ax))
    np.testing.assert_array_equal(line.y > 0.5, solution.network.predict(line.x[:, None]) > 0)
    three = function_pictures(classified(1, 3))[0].layers
    assert [layer.name for layer in three[:3]] == ["P(in)", "P(out)", "P(wide)"]
    assert all((layer.y < 0).all() for layer in three[3:6])


def test_a_hinge_has_no_probabilities():
    solution = classified(2, loss="hinge")
    assert set(np.unique(chances_of(solution, solution.data.X))) == {0.0, 1.0}
    assert function_pictures(solution, resolution=9)[0].layers[0].name == "out (1: predicted)"
    assert function_pictures(classified(1, loss="hinge"))[0].y == "predicted"
    assert [draw(picture).get_ylabel() for picture in dependences(solution)] == ["mean of out (1: predicted)"]


def test_scores_count_what_is_right():
    solution = classified(3, 3)
    right = chances_of(solution, solution.data.X).argmax(axis=1) == codes_of(solution.data.Y)
    ax = draw(scores(solution))
    assert ax.get_title() == f"kind: {right.mean():.1%} of the data right"
    assert set(texts(ax)) <= {"in", "out", "wide"}
    drawn = function_pictures(solution)
    assert [picture.y for picture in drawn] == ["mean of P(in)", "mean of P(out)", "mean of P(wide)"]


# ---------------------------------------------------------------------- many inputs
def test_partial_dependence_is_a_mean():
    solution = fitted()
    X = solution.data.X
    grid, values = partial_dependence(solution, 1, resolution=5)
    for at, value in zip(grid, values[:, 0], strict=True):
        moved = X.copy()
        moved[:, 1] = at
        assert value == pytest.approx(solution.network.predict(moved)[:, 0].mean())
    ax = draw(predicted(solution))
    np.testing.assert_allclose(ax.lines[1].get_ydata(), solution.network.predict(X)[:, 0])
    moved = [np.ptp(partial_dependence(solution, j)[1][:, 1]) for j in range(3)]
    names = [["cost \\$x_\\$", " _hidden", "c"][j] for j in np.argsort(moved)[::-1]]
    ax = draw(dependences(solution)[1])
    assert [text.split(" (")[0].strip() for text in texts(ax)] == [name.strip() for name in names]
    assert len(ax.get_ylabel()) < 60
    wide = covopt.fit(make_smooth(12, 6)[0], make_smooth(12)[1], lam=0.1)
    assert "2 weaker inputs are not drawn" in draw(dependences(wide)[0]).get_title()


def test_names_are_drawn_as_they_are():
    ax = draw(dependences(fitted())[0])
    assert ax.get_ylabel() == "mean of _u" and any("_hidden" in text for text in texts(ax))
    two = draw(predicted(fitted()))
    assert texts(two)[0].strip() == "_u"
    two.figure.draw_without_rendering()  # mathematics between dollars would not be read
    one = draw(predicted(covopt.fit([[0.0], [1.0], [3.0]], pd.Series([1.0, 0.0, 2.0], name="t"), lam=0.1)))
    assert (one.get_xlabel(), one.get_ylabel()) == ("t in the data", "t by the network")


# ---------------------------------------------------------------------- the dual function
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
    solution = covopt.min_norm(*make_random_plane(10, 1))
    values = np.abs(dual_values(solution.dual, solution.data.lifted, solution.network.hidden_weights))
    assert values.max() <= 1 + 1e-9 and values.min() > 0.99


def test_the_dual_of_a_year_is_drawn_against_the_place_where_a_neuron_bends():
    year, y = 1990.0 + np.arange(12), np.sin(np.arange(12.0))
    solution = covopt.min_norm(pd.DataFrame({"year": year}), y)
    ax = plot_dual(solution)
    assert ax.get_xlabel() == "where the neuron bends (year)"
    low, high = ax.get_xlim()
    assert 1988 < low < high < 2003
    scaled = covopt.fit(pd.DataFrame({"year": year}), y, lam="0.01max", standardise=True)
    assert plot_dual(scaled).get_xlim() == pytest.approx((low, high))
    assert "of standardised columns" in plot_solution(scaled).get_suptitle()


def test_a_neuron_is_on_the_line_of_the_side_on_which_it_is_active():
    solution = covopt.fit(np.linspace(-1.0, 1.0, 12)[:, None], np.sin(np.arange(12.0)), lam="0.3max")
    lines = {line.get_label(): line.get_data() for line in plot_dual(solution).lines}
    values = dual_values(solution.dual, solution.data.lifted, solution.network.hidden_weights)
    for w, value in zip(solution.network.hidden_weights, values, strict=True):
        drawn = np.interp(-w[1] / w[0], *lines["active to the right" if w[0] > 0 else "active to the left"])
        assert drawn == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("kind", ["interpolation", "loss"])
def test_a_dual_is_drawn_as_its_bound_uses_it(kind):
    solution = plane() if kind == "interpolation" else classified(3, 3)
    ax = plot_dual(solution)
    drawn = ax.lines[-1].get_ydata()
    halved = covopt.Solution.from_dict(solution.to_dict())  # a dual norm is met up to a power of two
    halved.dual = solution.dual / 2
    halved.certificate = replace(solution.certificate, gauge=solution.certificate.gauge / 2)
    np.testing.assert_allclose(plot_dual(halved).lines[-1].get_ydata(), drawn, atol=1e-12)
    assert kind == "interpolation" or drawn.min() < 10.0 * solution.gap  # neurons are tight


# ---------------------------------------------------------------------- the bracket
def test_history_keeps_the_best_bounds_and_given_axes_are_used():
    _, ax = plt.subplots()
    assert plot_history(stand_in(2), ax) is ax and plot_dual(stand_in(2), plt.subplots()[1]) is not ax
    ax.set_xscale("log")  # ticks of one's own
    ax.set_yticks([1.0, 2.0])
    assert plot_history(stand_in(2), ax) is ax
    upper, lower = ax.lines[0].get_ydata(), ax.lines[1].get_ydata()
    assert (np.diff(lower[:-1]) >= 0).all() and (np.diff(upper[1:-1]) <= 0).all() and np.isnan(upper[0])
    assert lower[-1] == 8.9  # what is certified is the last


def test_brackets_end_at_the_certificate_and_are_not_drawn_as_rounding():
    solution = covopt.min_norm([[1.0]], [2.0])
    ax = plot_history(solution)
    low, high = ax.get_ylim()
    assert high - low > 0.05 * solution.cost
    ax.figure.draw_without_rendering()
    assert ax.yaxis.get_offset_text().get_text() == ""
    solution = plane()
    looser = covopt.Solution.from_dict(solution.to_dict())
    rounds = [r for r in solution.history if r["lower_bound"]]
    looser.history = [{**r, "lower_bound": 0.5 * r["lower_bound"]} for r in rounds]
    looser.time_s = solution.time_s + 1.0
    lower, gap = (picture.layers[-1].y for picture in history_pictures(looser))
    assert (lower[-1], gap[-1]) == (solution.lower_bound, solution.gap)
    assert lower[-2] < 0.6 * solution.lower_bound and len(lower) == len(looser.history) + 1
