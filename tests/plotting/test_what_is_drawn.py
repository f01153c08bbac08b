"""Names, outputs, classes, boundaries and ticks: what the pictures say is what the network does."""

import itertools
from functools import cache

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import covopt
from covopt.data.labels import codes_of
from covopt.datasets import make_smooth
from covopt.network import ReLUNetwork
from covopt.plotting import (
    plot_dual,
    plot_history,
    plot_partial_dependence,
    plot_predicted,
    plot_probabilities_1d,
    plot_regions_2d,
    plot_scores,
    plot_slice,
    plot_solution,
    plot_surface_2d,
)
from covopt.plotting.classes import chances_of
from covopt.plotting.dual import along_kinks, dual_values, scaled_dual
from covopt.plotting.function import kinks_of
from covopt.plotting.pictures import marked_of
from covopt.plotting.solution import function_pictures, partial_dependence

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@cache
def classified(d, kinds=2, loss=None):
    X, _ = make_smooth(16, max(d, 2))
    X = X[:, :d]
    size = np.abs(X[:, 0])
    labels = np.array(["in", "out", "wide"])[np.digitize(size, [0.6, 1.2][: kinds - 1])]
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(d)])
    loss = loss or ("logistic" if kinds == 2 else "softmax-cross-entropy")
    return covopt.fit(frame, pd.Series(labels, name="kind"), lam=3e-3, loss=loss)


def pictures(solution):
    """What plot_solution draws of the function, on a coarse grid."""
    return function_pictures(solution, marked_of(solution.network), resolution=9)


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def overlap(ax):
    """Whether two tick labels of an axis run into each other."""
    for axis in (ax.xaxis, ax.yaxis):
        labels = [label for label in axis.get_ticklabels() if label.get_text() and label.get_visible()]
        boxes = [label.get_window_extent() for label in labels]
        inside = [box for box in boxes if ax.bbox.expanded(1.2, 1.2).overlaps(box)]
        if any(a.overlaps(b) for a, b in itertools.pairwise(inside)):
            return True
    return False


@pytest.mark.parametrize("kinds", [2, 3])
def test_regions_are_the_predictions(kinds):
    solution = classified(2, kinds)
    ax = plot_regions_2d(solution, resolution=40)
    assert texts(ax) == ["in", "out", "wide"][:kinds]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("f0", "f1")
    assert ax.get_title().startswith("kind predicted")
    shown = np.asarray(ax.collections[0].get_array()).reshape(40, 40)
    first, second = (np.linspace(*limits, 40) for limits in (ax.get_xlim(), ax.get_ylim()))
    grid = np.column_stack([part.ravel() for part in np.meshgrid(first, second)])
    outputs = solution.network.predict(grid)
    codes = (outputs > 0).astype(int) if kinds == 2 else outputs.argmax(axis=1)
    assert (shown.ravel() == codes).mean() > 0.999


def test_boundaries_lie_between_the_classes():
    solution = classified(1)
    ax = plot_probabilities_1d(solution)
    walls = [
        line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2 and line.get_ydata()[1] == 1
    ]
    assert len(walls) >= 2
    for at in walls:
        below, above = solution.network.predict(np.array([[at - 0.01], [at + 0.01]]))
        assert below * above < 0
    assert "P(out)" in texts(ax)
    assert ax.get_xlabel() == "f0"
    three = plot_probabilities_1d(classified(1, 3))
    assert [t for t in texts(three) if t.startswith("P(")] == ["P(in)", "P(out)", "P(wide)"]


def test_a_hinge_has_no_probabilities():
    solution = classified(2, loss="hinge")
    assert set(np.unique(chances_of(solution, solution.data.X))) == {0.0, 1.0}
    assert "how sure" not in plot_regions_2d(solution, resolution=20).get_title()
    assert plot_probabilities_1d(classified(1, loss="hinge")).get_ylabel() == "predicted"
    assert "share predicted out" in plot_partial_dependence(classified(3, loss="hinge")).get_ylabel()


def test_scores_count_what_is_right():
    solution = classified(3, 3)
    right = chances_of(solution, solution.data.X).argmax(axis=1) == codes_of(solution.data.Y)
    ax = plot_scores(solution)
    assert ax.get_title() == f"kind: {right.mean():.1%} of the data right"
    assert texts(ax)[0].startswith("in: ")
    assert plot_partial_dependence(solution).get_ylabel() == "mean P(in)"


def test_partial_dependence_is_a_mean():
    X, y = make_smooth(12, 3)
    solution = covopt.fit(pd.DataFrame(X, columns=list("abc")), pd.Series(y, name="t"), lam=1e-2)
    grid, values = partial_dependence(solution, 1, resolution=5)
    for at, value in zip(grid, values[:, 0], strict=True):
        moved = X.copy()
        moved[:, 1] = at
        assert value == pytest.approx(solution.network.predict(moved).mean())
    ax = plot_partial_dependence(solution)
    assert ax.get_ylabel() == "mean of t"
    assert {text.partition(" ")[0] for text in texts(ax)} == {"a", "b", "c"}
    ax = plot_predicted(solution)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), solution.network.predict(X))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("t in the data", "t by the network")
    wide = covopt.fit(make_smooth(12, 6)[0], y, lam=0.1)
    assert "2 that move it less are not drawn" in plot_partial_dependence(wide).get_title()


def test_every_output_is_drawn_with_its_name():
    X, y = make_smooth(10)
    Y = pd.DataFrame({"u": y, "v": -(y**2)})
    plane = pictures(covopt.min_norm(pd.DataFrame(X, columns=["a", "b"]), Y, tol=1e-3))
    assert [picture.layers[0].name for picture in plane] == ["u", "v"]
    line = plot_solution(covopt.min_norm(X[:, :1], Y, tol=1e-3))
    assert texts(line.axes[0])[:2] == ["u", "v"]
    wide = pictures(covopt.fit(X, np.column_stack([y * j for j in range(1, 6)]), lam=0.5, tol=1e-3))
    assert len(wide) == 4 and "1 output is not drawn" in wide[3].title


@pytest.mark.parametrize("d", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ticks_do_not_overlap(d):
    X, y = make_smooth(12, 3)
    solution = covopt.fit(1e5 * X[:, :1], 1e7 * y, lam=1e9, bias=1e5) if d == 1 else classified(d)
    figure = plot_solution(solution)
    figure.draw_without_rendering()
    assert not any(overlap(ax) for ax in figure.axes)
    assert figure.dpi == 150


def test_the_dual_of_a_year_is_drawn_along_its_kinks():
    year, y = 1990.0 + np.arange(12), np.sin(np.arange(12.0))
    solution = covopt.min_norm(pd.DataFrame({"year": year}), y)
    ax = plot_dual(solution)
    assert ax.get_xlabel() == "where the neuron bends (year)"
    low, high = ax.get_xlim()
    assert low > 1988
    assert high < 2003
    data, hidden = solution.data, solution.network.hidden_weights
    places, right = kinks_of(hidden, 1.0), hidden[:, 0] > 0
    expected = dual_values(solution.dual, data.lifted, hidden)
    np.testing.assert_allclose(along_kinks(solution, places, right), expected, atol=1e-6)
    few = covopt.fit([[-1.0], [0.0], [2.0], [3.0]], [1.0, -1.0, 3.0, 0.0], lam=0.1)
    both = np.array([[1.0, 0.5], [-1.0, -0.5], [1.0, -1.5], [-1.0, 1.5]])  # each way from two places
    values = along_kinks(few, kinks_of(both, 1.0), both[:, 0] > 0)
    np.testing.assert_allclose(values, dual_values(scaled_dual(few), few.data.lifted, both), atol=1e-9)
    assert min(abs(values[0] - values[1]), abs(values[2] - values[3])) > 0.05
    scaled = covopt.fit(pd.DataFrame({"year": year}), y, lam="0.01max", standardise=True)
    assert plot_dual(scaled).get_xlim() == pytest.approx((low, high))


def test_names_are_drawn_as_they_are():
    X, y = make_smooth(10, 3)
    inputs = pd.DataFrame(X, columns=["cost $x_$", "_hidden", "c"])
    solution = covopt.fit(inputs, pd.DataFrame({"_u": y, "$v_ $" + "long" * 30: -y}), lam=0.1)
    assert plot_partial_dependence(solution).get_ylabel() == "mean of _u"
    assert any("_hidden" in text for text in texts(plot_partial_dependence(solution)))
    assert len(plot_slice(solution, output=1, resolution=5).figure.axes[1].get_ylabel()) < 50
    two = plot_predicted(solution)
    assert texts(two)[0].strip() == "_u"
    two.figure.draw_without_rendering()  # mathematics between dollars would not be read


def test_a_slice_is_the_network_at_the_medians():
    X, y = make_smooth(12, 3)
    frame = pd.DataFrame(X, columns=list("abc"))
    solution = covopt.fit(frame, pd.DataFrame({"u": y, "v": X[:, 2]}), lam=0.03)
    ax = plot_slice(solution, output=1, resolution=9)
    moved = [np.ptp(partial_dependence(solution, j)[1][:, 1]) for j in range(3)]
    order = np.argsort(moved)[::-1]
    assert (ax.get_xlabel(), ax.get_ylabel()) == tuple("abc"[j] for j in order[:2])
    assert ax.get_title().startswith(f"a slice: {'abc'[order[2]]} = ")
    assert ax.figure.axes[1].get_ylabel() == "v"
    classes = classified(3, 3)
    regions = plot_slice(classes, resolution=20)
    assert regions.get_title().startswith("kind predicted: ")
    assert set(texts(regions)) <= {"in", "out", "wide"}
    assert [picture.y for picture in pictures(classes)[:3]] == ["mean P(in)", "mean P(out)", "mean P(wide)"]


def test_a_surface_has_a_legend_and_round_numbers_within_its_scale():
    X, y = make_smooth(15)
    solution = covopt.min_norm(X, y)
    bar = plot_surface_2d(solution.network, X, y, name="t").figure.axes[1]
    low, high = bar.get_ylim()
    ticks = bar.get_yticks()
    assert ((ticks >= low - 1e-12) & (ticks <= high + 1e-12)).all() and bar.get_ylabel() == "t"
    np.testing.assert_allclose(ticks * 2, np.round(ticks * 2), atol=1e-9)
    one = ReLUNetwork([[1.0, 0.2, 0.1]], [1.0])
    assert texts(plot_surface_2d(one, X, y)) == ["kink, positive weight", "data (same scale)"]


@pytest.mark.parametrize("size", [1e300, pytest.param(1e-300, marks=pytest.mark.slow)])
def test_targets_that_matplotlib_cannot_square(size):
    X, y = make_smooth(8)
    labels = [ax.get_ylabel() for ax in plot_solution(covopt.min_norm(X, size * y)).axes]
    assert any(label.startswith("y / 2^") for label in labels)


def test_brackets_end_at_the_certificate_and_are_not_drawn_as_rounding():
    solution = covopt.min_norm([[1.0]], [2.0])
    ax = plot_history(solution)
    low, high = ax.get_ylim()
    assert high - low > 0.05 * solution.cost
    ax.figure.draw_without_rendering()
    assert ax.yaxis.get_offset_text().get_text() == "" and "relative gap (right axis)" in texts(ax)
    assert ax.figure.axes[1].lines[0].get_marker() == "_"
    solution = covopt.min_norm(*make_smooth(8))
    looser = covopt.Solution.from_dict(solution.to_dict())
    looser.history = [
        {**r, "lower_bound": 0.5 * r["lower_bound"]} for r in solution.history if r["lower_bound"]
    ]
    looser.time_s = solution.time_s + 1.0
    lower, gap = (plot_history(looser).figure.axes[k].lines[1 - k].get_ydata() for k in (0, 1))
    assert (lower[-1], gap[-1]) == (solution.lower_bound, solution.gap)
    assert lower[-2] < 0.6 * solution.lower_bound and len(lower) == len(looser.history) + 1


@pytest.mark.parametrize("kind", ["interpolation", "loss"])
def test_a_dual_is_drawn_as_its_bound_uses_it(kind):
    solution = covopt.min_norm(*make_smooth(8)) if kind == "interpolation" else classified(3)
    ax = plot_dual(solution)
    drawn, (low, high) = ax.lines[-1].get_ydata(), ax.get_ylim()
    assert high / low > 99  # powers of ten
    halved = covopt.Solution.from_dict(solution.to_dict())  # a gauge is met up to a power of two
    halved.dual, halved.certificate = solution.dual / 2, solution.certificate.of_scaled_dual(1)
    np.testing.assert_allclose(plot_dual(halved).lines[-1].get_ydata(), drawn, atol=1e-12)
    assert kind == "interpolation" or drawn.min() < 1e-5
    none = covopt.fit(*make_smooth(8), lam="2max")
    assert [text.get_text() for text in plot_dual(none).texts] == ["the network has no neuron"]
