"""One HTML page to look around in: a solution, or all of a path, with a slider, hover and a table of the neurons.

The page needs no network and no server: plotly's JavaScript (extra ``[explore]``) is within it.
"""

from covopt.explore.page import page_html, write_page

__all__ = ["page_html", "write_page"]
