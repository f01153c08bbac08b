"""Rounds on the way to a solution, for pictures: in memory as they were, in files to six digits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from covopt.files.layouts import NETWORK
from covopt.files.schema import check_content, numbers
from covopt.network import ReLUNetwork

DIGITS = 6  # in files: enough for a picture


class Snapshot(NamedTuple):
    """What a solve had after one of its rounds; nothing is claimed of it.

    Attributes
    ----------
    round : int
        Its place in the history.
    network : ReLUNetwork
        The best one so far, without neurons where there was none yet.
    dual : ndarray of shape (N,) or (N, k)
    """

    round: int
    network: ReLUNetwork
    dual: np.ndarray


def to_entries(snapshots: list[Snapshot]) -> list[dict[str, Any]]:
    """Return snapshots as JSON types; a network that is that of the entry before is null.

    Parameters
    ----------
    snapshots : list of Snapshot
    """
    found: list[dict[str, Any]] = []
    before: dict[str, Any] | None = None
    for each in snapshots:
        network = {name: _short(getattr(each.network, name)) for name in NETWORK}
        found.append(
            {
                "round": each.round,
                "network": None if network == before else network,
                "dual": _short(each.dual),
            }
        )
        before = network
    return found


def from_entries(entries: list[dict[str, Any]], like: ReLUNetwork, dual: np.ndarray) -> list[Snapshot]:
    """Return the snapshots of a file.

    Parameters
    ----------
    entries : list of dict
    like : ReLUNetwork
        The solution's, whose inputs, outputs, bias and scaling they share.
    dual : ndarray
        The solution's, whose shape theirs have.

    Raises
    ------
    ValueError
        Where they do not fit the solution.
    """
    found: list[Snapshot] = []
    for entry in entries:
        if type(entry.get("round")) is not int:
            raise ValueError("a snapshot has no 'round'")
        if entry.get("network") is None:
            if not found:
                raise ValueError("the first snapshot has no network")
            network = found[-1].network
        else:
            check_content(entry["network"], NETWORK, "a snapshot's network")
            hidden, outputs, offset = (numbers(name, entry["network"][name]) for name in NETWORK)
            network = replace(
                like, hidden_weights=hidden.reshape(-1, like.hidden_weights.shape[1]),
                output_weights=outputs.reshape(-1, like.output_weights.shape[1]),
                output_bias=offset.reshape(like.output_bias.shape),
            )  # fmt: skip
            if len(network.hidden_weights) != len(network.output_weights):
                raise ValueError("lengths of the arrays of a snapshot do not fit together")
        found.append(
            Snapshot(entry["round"], network, numbers("dual", entry.get("dual")).reshape(dual.shape))
        )
    return found


def _short(array: np.ndarray) -> Any:
    flat = [float(f"{value:.{DIGITS}g}") for value in np.asarray(array, dtype=float).ravel()]
    return np.array(flat).reshape(np.shape(array)).tolist()
