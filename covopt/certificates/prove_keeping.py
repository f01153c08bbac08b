"""What a run of ``prove`` keeps: the best proof so far, and the parts of the check of the next one that are done.

The checkpoint is the file of a proof, of the best bound that has been proved, so that ``covopt verify --proof`` reads
it; beside that it has what the run goes on from. That proof is checked before it is returned. Of the parts of a check
that an earlier run did, kept under a hash of the proof that they belong to, some are drawn and done again, as those
of workers of a cluster are; the others are not. ``verify`` checks all of a proof, whoever made it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from covopt.checks.kept import KeptFile
from covopt.errors import InputError, SolutionFileError
from covopt.limits import TimeUp, limited
from covopt.parallel.rechecks import ONE_IN
from covopt.proofs import Proof
from covopt.proofs.parts import Spread

RESUME = "resume"
VERSION = 1
Answer = tuple[Fraction, Fraction, int, int]  # of a part: what it proves, the last H, boxes, extra cuts


class BestProof:
    """The proof with the largest bound.

    Attributes
    ----------
    best : Proof or None
        Of those that this run made.
    earlier : Proof or None
        What an earlier run left; what it claims is to be checked before it is returned.
    boxes : int
        That the search under way may look at; 0 where there is none.
    """

    def __init__(self) -> None:
        self.best: Proof | None = None
        self.earlier: Proof | None = None
        self.boxes = 0

    @property
    def claims_more(self) -> bool:
        """Whether what an earlier run left claims more than what this one made."""
        earlier = self.earlier
        return earlier is not None and (self.best is None or earlier.lower_bound > self.best.lower_bound)

    def found(self, proof: Proof) -> None:
        """Remember a proof where it is the best so far."""
        if self.best is None or proof.lower_bound > self.best.lower_bound:
            self.best = proof


class ProofKeeper(BestProof):
    """The checkpoint of a run of ``prove``.

    Parameters
    ----------
    file : KeptFile
    digest : str
        Of the table and the dual point, as proofs have it.
    first : callable
        Makes a small proof, so that the file is one from the start.

    Raises
    ------
    InputError
        Where the file is about something else.
    SolutionFileError
        Where it is no proof, or damaged.
    """

    def __init__(self, file: KeptFile, digest: str, first: Callable[[], Proof]):
        super().__init__()
        self._file, self._digest, self._first = file, digest, first
        self._checked: dict[str, list[Answer]] = {}
        if file.content is not None:
            with file.named():
                self._read(file.content)

    def _read(self, content: Any) -> None:
        from covopt import __version__

        found = Proof.from_dict(content)
        if found.digest != self._digest:
            raise InputError(
                f"the checkpoint {self._file.path} is about another table, question or dual point; give the same "
                "solution, or another file."
            )
        self.earlier, state = found, content.get(RESUME)
        if not isinstance(state, dict) or state.get("covopt") != __version__:
            return  # of another version: its proof is as good as ever
        try:
            inner = state["state"]
            if state["version"] != VERSION or state["digest"] != digest_of(inner):
                raise ValueError("its contents do not fit its digest")
            self.boxes = int(inner["boxes"])
            self._checked = {
                key: [(_fraction(a), _fraction(b), int(seen), int(spent)) for a, b, seen, spent in answers]
                for key, answers in inner["checked"].items()
            }
        except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
            raise SolutionFileError(f"the checkpoint {self._file.path} is damaged: {error}") from error

    def checking(self, key: str, spread: Spread | None) -> Spread:
        """Return what calls a function with each of several tuples of arguments, but for those that are done.

        Parameters
        ----------
        key : str
            Of the proof that is checked.
        spread : callable or None
            Gives work away; with None it is done here.
        """

        def kept(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Answer]:
            every = list(tasks)
            answers = self._checked.get(key, [])[: len(every)]
            self._check_again(work, every, answers)
            self._checked = {key: answers}
            rest = every[len(answers) :]
            for answer in (work(*task) for task in rest) if spread is None else spread(work, rest):
                answers.append(answer)
                self.offer()
            return answers

        return kept

    def _check_again(
        self, work: Callable[..., Any], tasks: list[tuple[Any, ...]], answers: list[Answer]
    ) -> None:
        """Check some of the parts that an earlier run did once more, drawn anew each time."""
        number = min(len(answers), 1 + len(answers) // ONE_IN)
        for place in random.SystemRandom().sample(range(len(answers)), number):
            if tuple(work(*tasks[place])) != answers[place]:
                raise SolutionFileError(
                    f"the checkpoint {self._file.path} is damaged: part {place + 1} of the check has another answer; "
                    "begin anew, without it."
                )

    def offer(self) -> None:
        """Write the file where that is due."""
        self._file.offer(self._content)

    def leave(self, seconds: float | None = None) -> None:
        """Write the file at the end of a run that was stopped, where there is a proof or one within the seconds."""
        try:
            with limited(seconds if self.best is None is self.earlier else None):
                content = self._content()
        except TimeUp:
            return
        self._file.write(content)

    def conclude(self) -> None:
        """Remove the file; where somebody else will, once the result is saved, leave all in it."""
        if self._file.keep:
            self.leave()
        self._file.remove()

    def _content(self) -> dict[str, Any]:
        from covopt import __version__

        if self.best is None is self.earlier:
            self.best = self._first()
        kept = self.earlier if self.claims_more else self.best
        assert kept is not None
        state = {
            "boxes": self.boxes,
            "checked": {
                key: [[_text(a), _text(b), seen, spent] for a, b, seen, spent in answers]
                for key, answers in self._checked.items()
            },
        }
        about = {"version": VERSION, "covopt": __version__, "digest": digest_of(state), "state": state}
        return {**kept.to_dict(), RESUME: about}


def key_of(*parts: Any) -> str:
    """Return a hash of arrays and numbers.

    Examples
    --------
    >>> key_of(np.zeros(2), 1.0) == key_of(np.zeros(2), 1.0), key_of(np.zeros(2)) == key_of(np.zeros((2, 1)))
    (True, False)
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.shape}{part.dtype.str}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            found.update(f"{part!r};".encode())
    return found.hexdigest()


def digest_of(state: Any) -> str:
    """Return a hash of JSON types, against damage; who changes them can make it anew."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _text(value: Fraction) -> str:
    return f"{value.numerator:x}/{value.denominator:x}"


def _fraction(text: str) -> Fraction:
    above, _, below = text.partition("/")
    return Fraction(int(above, 16), int(below, 16))
