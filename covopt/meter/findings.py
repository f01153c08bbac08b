"""What is wrong with a network, in words that somebody can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covopt.checks.wording import counted
from covopt.losses import Interpolation
from covopt.meter.ladder import top
from covopt.oracles.base import heights
from covopt.sparsify.merging import drop_silent

if TYPE_CHECKING:
    from covopt.meter.report import Gap

TWINS = 1e-3  # angle within which two neurons are one
SAID = 1e-3  # relative fall of the objective that is worth a sentence
MANY = 4000  # neurons from which on twins are not looked for
SHOWN = 6  # coordinates of a direction


def describe(report: Gap) -> list[str]:
    """Return a sentence for each thing that is wrong, most of it first.

    Parameters
    ----------
    report : Gap
    """
    given = report.networks["as given"]
    layer = top(given, report.X)
    width = len(layer)
    silent = width - len(drop_silent(layer, keep_negative=False))
    found = []
    if silent:
        found.append(
            f"{silent} of {counted(width, 'neuron')} are silent on every row: they only cost weight decay"
        )
    pairs = twins(np.asarray(layer.incoming))
    if pairs:
        found.append(
            f"{counted(pairs, 'pair')} of neurons point the same way: one neuron does the work of both"
        )
    into, out = np.linalg.norm(layer.incoming, axis=1), np.linalg.norm(layer.outgoing, axis=1)
    mass = into * out
    live = mass > SAID * mass.max(initial=0.0)
    ratio = np.exp(np.abs(np.log(into[live] / out[live])))
    if len(ratio) and report.fall("balanced") > SAID:
        found.append(
            f"weights are not balanced: input and output weights of a neuron differ in length "
            f"{ratio.max():.3g} times; scale them, the function stays"
        )
    if report.fall("refitted") > SAID:
        found.append(
            "the output weights have not converged: train on, or solve for them alone (a convex problem)"
        )
    missing = missing_neuron(report)
    if missing is not None:
        place, height = missing
        at = ", ".join(f"{x:.3g}" for x in place[:SHOWN]) + (", …" if len(place) > SHOWN else "")
        found.append(
            f"a neuron is missing at ({at}): the dual exceeds 1 by {100.0 * (height - 1.0):.3g} % there"
        )
    return found


def twins(hidden: np.ndarray) -> int:
    """Count neighbouring neurons of one direction.

    Examples
    --------
    >>> twins(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
    1
    """
    lengths = np.linalg.norm(hidden, axis=1)
    units = hidden[lengths > 0] / lengths[lengths > 0, None]
    if not 1 < len(units) <= MANY:
        return 0
    near = units @ units.T > np.cos(TWINS)
    return int(len(units) - len({tuple(np.flatnonzero(row)[:1]) for row in near}))


def missing_neuron(report: Gap) -> tuple[np.ndarray, float] | None:
    """Return the direction of the best network's neuron that the residual of the refitted one asks for most."""
    best, loss = report.best, report.best.loss
    if loss is None or isinstance(loss, Interpolation) or report.is_deep or not len(best.network):
        return None
    hidden = best.network.hidden_weights
    units = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
    reached = np.linalg.norm(heights(best.data.lifted, report.refit_dual, units), axis=1)
    worst = int((reached >= (1.0 - 1e-9) * reached.max()).argmax())  # of equals the first
    return (units[worst], float(reached[worst])) if reached[worst] > 1.0 + SAID else None
