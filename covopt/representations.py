"""The first reformulation of FL22, by its public name; see :mod:`covopt.experiments.representations`."""

from covopt.experiments.representations import *  # noqa: F403
from covopt.experiments.representations import __all__  # noqa: F401
