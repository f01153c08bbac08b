"""A network that a certificate says cannot exist: the error, and the file that reproduces it."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from covopt.errors import CertificateContradictedError, CovoptError, SolutionFileError
from covopt.files import read_json, write_json
from covopt.files.formats import check_format
from covopt.files.layouts import CONTRADICTION
from covopt.files.schema import check_content, numbers
from covopt.network import ReLUNetwork
from covopt.solution import Solution
from covopt.training.floor import Fact, facts

FORMAT = "covopt-contradiction"
SCHEMA = 1  # files of before 0.2 state none
DEFAULT_NAME = "covopt-contradiction.json"


@dataclass(frozen=True, eq=False)
class Contradiction:
    """A solution and a network of which one is wrong.

    Attributes
    ----------
    solution : Solution
    network : ReLUNetwork
    interpolates : bool
        Whether the network is held against what is claimed of networks through the points.
    facts : tuple of Fact
        What the certificate claims about the network, computed again.
    """

    solution: Solution
    network: ReLUNetwork
    interpolates: bool
    facts: tuple[Fact, ...]

    def broken_facts(self) -> list[Fact]:
        """Those that the network does not respect; none when there is no contradiction after all."""
        return [fact for fact in self.facts if not fact.holds]

    def claims(self) -> list[tuple[str, bool, str]]:
        """Return every fact as name, whether it holds, and its numbers, as :func:`covopt.verify` lists them."""
        return [
            (
                "network",
                fact.holds,
                f"{fact.claim}: the network has {fact.value:.12g}, claimed {fact.floor:.12g}",
            )
            for fact in self.facts
        ]

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Contradiction:
        """Read parsed JSON.

        Raises
        ------
        SolutionFileError
            When it is something else, of a newer schema, or damaged.
        """
        check_format(content, FORMAT)
        try:
            check_content(content, CONTRADICTION)
            weights = content["network"]
            network = ReLUNetwork(
                numbers("hidden_weights", weights["hidden_weights"]).reshape(
                    len(weights["hidden_weights"]), -1
                ),
                numbers("output_weights", weights["output_weights"]).reshape(
                    len(weights["output_weights"]), -1
                ),
                float(weights["bias"]),
                numbers("output_bias", weights["output_bias"]),
                bool(weights["counts_output_bias"]),
            )
            solution, interpolates = Solution.from_dict(content["solution"]), bool(content["interpolates"])
            return cls(
                solution, network, interpolates, tuple(facts(solution, network, interpolates=interpolates))
            )
        except (CovoptError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise SolutionFileError(f"the file of a contradiction is damaged: {error}") from error


def report(
    solution: Solution,
    network: ReLUNetwork,
    broken: Fact,
    *,
    interpolates: bool,
    about: dict[str, Any],
    path: str | os.PathLike[str] | None = None,
) -> CertificateContradictedError:
    """Write everything down and return the error to raise.

    Parameters
    ----------
    solution : Solution
    network : ReLUNetwork
    broken : Fact
    interpolates : bool
        As :func:`covopt.training.floor.facts` was asked.
    about : dict
        How the network came about: width, seed, schedule and so on.
    path : path-like, optional
        ``covopt-contradiction.json`` by default; in the folder for temporary files where that cannot be written.
    """
    content = {
        "format": FORMAT,
        "schema": SCHEMA,
        "fact": asdict(broken),
        "interpolates": interpolates,
        "training": {name: _plain(value) for name, value in about.items()},
        "network": {
            "hidden_weights": network.hidden_weights.tolist(),
            "output_weights": network.output_weights.tolist(),
            "output_bias": network.output_bias.tolist(),
            "bias": network.bias,
            "counts_output_bias": network.counts_output_bias,
        },
        "solution": solution.to_dict(),
    }
    place = Path(DEFAULT_NAME if path is None else path)
    try:
        write_json(place, content)
    except OSError:
        place = Path(tempfile.mkdtemp(prefix="covopt-")) / DEFAULT_NAME
        write_json(place, content)
    origin = ", ".join(f"{name} {about[name]}" for name in ("width", "seed") if name in about)
    return CertificateContradictedError(
        f"a trained network ({origin}) is below the certificate: {broken.claim} is claimed, but the network has "
        f"{broken.value:.12g} < {broken.floor:.12g}, by more than rounding ({broken.margin:.1e}); problem, dual and "
        f"weights are in {place}, and covopt.training.recheck({str(place)!r}) compares again. Please report it.",
        place,
    )


def recheck(path: str | os.PathLike[str]) -> list[Fact]:
    """Read the file of a contradiction and compare again: the facts that its network does not respect.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    list of Fact
        Empty when the network respects the certificate after all.

    Raises
    ------
    SolutionFileError
        When the file is missing or not one of a contradiction.
    """
    content = read_json(path)
    try:
        return Contradiction.from_dict(content).broken_facts()
    except SolutionFileError as error:
        raise SolutionFileError(f"{os.fspath(path)}: {error}") from error


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
