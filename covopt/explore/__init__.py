"""An interactive HTML page of a solution, or of a path with a slider, with hover texts and a table of the neurons.

The page works offline: it contains plotly's JavaScript (extra ``[explore]``).
"""

from covopt.explore.page import page_html, write_page

__all__ = ["page_html", "write_page"]
