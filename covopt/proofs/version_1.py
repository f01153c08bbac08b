"""Proofs that earlier versions wrote: a tree of cuts; slopes and normals are chosen while it is checked."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.errors import SolutionFileError

FURTHEST = 2200


@dataclass(frozen=True, eq=False, repr=False)
class FirstProof:
    """A bound on h(λ) = max over unit w of |Σ λ_i max(x̃_i·w, 0)|, and what is needed to check it.

    Row |λ_i| x̃_i is replaced by ``factor[i] * V @ y[piece[i]]``; the pieces have weights ``signs``, and
    G(u) = linear·u + Σ_k signs_k max(y_k·u, 0) is at most ``H`` on the unit ball, which the boxes of ``tree`` show.

    Attributes
    ----------
    digest : str
        Of the table and the dual point that the proof is about, :meth:`covopt.proofs.problem.Problem.digest`.
    V : ndarray of shape (D, r)
    y : ndarray of shape (K, r)
    signs : ndarray of shape (K,) of −1, 0, 1
    linear : ndarray of shape (r,)
    piece : ndarray of shape (N,) of int
        −1 for a row that is left out (and paid for).
    factor : ndarray of shape (N,)
    exponent : int
        y, linear and H are in units of 2^exponent.
    H : float
    tree : bytes
        One byte per node, see :func:`covopt.proofs.checker.cover.read_tree`.
    lower_bound : float
        What the proof claims to prove.
    """

    digest: str
    V: np.ndarray
    y: np.ndarray
    signs: np.ndarray
    linear: np.ndarray
    piece: np.ndarray
    factor: np.ndarray
    exponent: int
    H: float
    tree: bytes
    lower_bound: float

    def __post_init__(self) -> None:
        """Check shapes and numbers."""
        rank, pieces = len(self.linear), len(self.y)
        shapes = (
            ("V", self.V, (len(self.V), rank)), ("y", self.y, (pieces, rank)), ("signs", self.signs, (pieces,)),
            ("piece", self.piece, (len(self.piece),)), ("factor", self.factor, (len(self.piece),)),
        )  # fmt: skip
        for name, array, shape in shapes:
            if array.shape != shape:
                raise SolutionFileError(f"the proof's {name} has shape {array.shape}; it must be {shape}")
        if rank > len(self.V) or pieces > len(self.piece):
            raise SolutionFileError(
                f"the proof has {rank} coordinates for {len(self.V)} inputs and {pieces} pieces for "
                f"{len(self.piece)} rows; more are of no use"
            )
        for name, array in (("V", self.V), ("y", self.y), ("linear", self.linear), ("factor", self.factor)):
            if not np.isfinite(array).all():
                raise SolutionFileError(f"the proof's {name} has a number that is not finite")
        if not (0 < self.H < np.inf and abs(self.lower_bound) < np.inf):
            raise SolutionFileError(
                f"the proof's H and lower_bound must be finite, H positive; they are {self.H:g}, {self.lower_bound:g}"
            )
        if not np.isin(self.signs, (-1, 0, 1)).all():
            raise SolutionFileError("the proof's signs must be +1, 0 or -1")
        if abs(self.exponent) > FURTHEST:
            raise SolutionFileError(
                f"the proof's exponent is {self.exponent}; doubles need no more than {FURTHEST}"
            )
        if ((self.piece < -1) | (self.piece >= pieces)).any():
            raise SolutionFileError(f"the proof's piece has an entry outside of -1 ... {pieces - 1}")

    def __repr__(self) -> str:
        return f"FirstProof(lower bound {self.lower_bound:.10g}, {len(self.tree)} boxes)"

    @classmethod
    def from_dict(cls, content: Any) -> FirstProof:
        """Read the content of a file of version 1; raise SolutionFileError where it is damaged."""
        try:
            rank = len(content["linear"])
            if not isinstance(content["tree"], str) or not isinstance(content["digest"], str):
                raise TypeError("tree and digest must be strings")
            matrices = {
                name: _numbers(content[name]).reshape(len(content[name]), rank) for name in ("V", "y")
            }
            return cls(
                digest=content["digest"], **matrices, signs=_integers(content["signs"]),
                linear=_numbers(content["linear"]), piece=_integers(content["piece"]),
                factor=_numbers(content["factor"]), exponent=int(_integers([content["exponent"]])[0]),
                H=_number(content["H"]),
                tree=base64.b64decode(content["tree"], validate=True), lower_bound=_number(content["lower_bound"]),
            )  # fmt: skip
        except SolutionFileError:
            raise
        except KeyError as error:
            raise SolutionFileError(f"the proof is damaged: {error} is missing") from error
        except (TypeError, ValueError, OverflowError, binascii.Error, RecursionError) as error:
            raise SolutionFileError(
                f"the proof is damaged: {str(error) or type(error).__name__:.120}"
            ) from error


def _numbers(values: Any) -> np.ndarray:
    array = np.array(values, dtype=object)
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in array.ravel().tolist()):
        raise TypeError("an array has an entry that is not a number")
    return array.astype(float)


def _integers(values: Any) -> np.ndarray:
    if not isinstance(values, list) or any(type(v) is not int or abs(v) > 1 << 40 for v in values):
        raise TypeError("signs and piece must be lists of integers")
    return np.array(values, dtype=np.int64)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number was expected, received {value!r:.40}")
    return float(value)
