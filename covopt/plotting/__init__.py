"""Pictures of a solution: the function, its neurons, the dual function, the bracket over time.

Every function takes and returns a matplotlib Axes and is readable in greyscale: neurons with positive output
weight are drawn solid (filled), negative ones dashed (open), and their width grows with their cost.
"""

from covopt.plotting.classes import plot_probabilities_1d, plot_regions_2d, plot_scores
from covopt.plotting.dual import dual_values, plot_dual
from covopt.plotting.function import plot_function_1d, plot_surface_2d
from covopt.plotting.history import plot_history
from covopt.plotting.solution import (
    check_figure_path,
    plot_partial_dependence,
    plot_predicted,
    plot_slice,
    plot_solution,
    save_figure,
)

__all__ = [
    "check_figure_path",
    "dual_values",
    "plot_dual",
    "plot_function_1d",
    "plot_history",
    "plot_partial_dependence",
    "plot_predicted",
    "plot_probabilities_1d",
    "plot_regions_2d",
    "plot_scores",
    "plot_slice",
    "plot_solution",
    "plot_surface_2d",
    "save_figure",
]
