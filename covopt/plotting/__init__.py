"""Figures of a solution: the function, its neurons, the dual function, the bracket over time.

``plot_solution`` draws all panels that apply to the data; :func:`draw` draws one of :func:`function_pictures` on
given axes. Figures are readable in greyscale: neurons with positive output weight are drawn solid (filled), negative
ones dashed (open), and their width grows with their cost.
"""

from covopt.plotting.dual import dual_values, plot_dual
from covopt.plotting.figures import check_figure_path, function_pictures, plot_solution, save_figure
from covopt.plotting.function import plot_function_1d, plot_surface_2d
from covopt.plotting.history import plot_history
from covopt.plotting.pictures import draw

__all__ = [
    "check_figure_path",
    "draw",
    "dual_values",
    "function_pictures",
    "plot_dual",
    "plot_function_1d",
    "plot_history",
    "plot_solution",
    "plot_surface_2d",
    "save_figure",
]
