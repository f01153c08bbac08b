"""Tables of numbers: read, checked, merged; labels, rays and row spaces."""

from covopt.data.samples import Data, row_space

__all__ = ["Data", "row_space"]
