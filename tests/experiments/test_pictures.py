import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import FancyArrowPatch

from covopt.errors import InputError
from covopt.plotting import plot_attraction_repulsion, plot_forces, plot_loss_against_width
from covopt.representations import RepresentationProblem, forces
from tests.experiments.trained import random_weights

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def some_forces(widths=(6, 5)):
    X = np.random.default_rng(0).standard_normal((8, 3))
    problem = RepresentationProblem(X, tikhonov=1e-2)
    return forces(problem, problem.to_representations(random_weights(problem, widths, 2, 0)))


@pytest.mark.parametrize("by", ["sample", "neuron"])
def test_points_and_arrows_are_the_projections(by):
    found = some_forces()
    ax = plot_forces(found, 2, by=by, labels=np.arange(8) % 3 if by == "sample" else None)
    z, attraction, repulsion = found.by_sample(2) if by == "sample" else found.by_neuron(2)
    points = np.concatenate([line.get_xydata() for line in ax.lines if line.get_marker() in "os^"])
    moved = z - z.mean(axis=0) if by == "sample" else z
    singular = np.linalg.svd(moved)[1]
    assert len(points) == len(z)
    assert np.allclose((points**2).sum(), (singular[:2] ** 2).sum())
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    # a neuron that is silent on every sample is not pushed
    assert len(arrows) == sum((np.abs(f).max(axis=1) > 0).sum() for f in (attraction, repulsion))
    assert len(z) < len(arrows) <= 2 * len(z)
    styles = {patch.get_linestyle() for patch in arrows}
    assert styles == {"-", "--"}  # told apart without colour
    names = ax.get_legend_handles_labels()[1]
    assert {"attraction", "repulsion"} <= set(names)
    assert ("rays" in names) == (by == "neuron")


def test_four_panels_and_what_is_said_of_the_inverse():
    figure = plot_attraction_repulsion(some_forces(), np.arange(8) % 2)
    assert [("samples" in ax.get_title(), ax.get_title()[:7]) for ax in figure.axes] == [
        (True, "$Z_{1}$"), (False, "$Z_{1}$"), (True, "$Z_{2}$"), (False, "$Z_{2}$"),
    ]  # fmt: skip
    assert "Tikhonov ε = 1.0e-02" in figure.get_suptitle()
    with pytest.raises(InputError, match="no hidden layer to draw"):
        plot_attraction_repulsion(some_forces(()))


def test_loss_against_width_draws_the_best_of_each_width_with_its_own_test_loss():
    table = pd.DataFrame(
        {
            "width": [(2, 2), (2, 2), (4, 4), (4, 4)],
            "train": [3.0, 2.0, 1.0, 1.5],
            "test": [0.1, 0.5, 0.7, 0.2],
            "lam": [0.1, 0.1, 0.1, 0.1],
        }
    )
    ax = plot_loss_against_width(table, by="lam", starts={0.1: 4.0})
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
    assert lines["train, λ = 0.1"] == [[2.0, 2.0], [4.0, 1.0]]
    assert lines["test, λ = 0.1"] == [[2.0, 0.5], [4.0, 0.7]]
    assert [text.get_text() for text in ax.texts] == ["4"]
    alone = plot_loss_against_width(table.assign(width=[2, 2, 4, 4]), test=None)
    assert next(line.get_label() for line in alone.lines) == "train"
