"""Break one safety term at a time, and see its tests fail: ``python -m tests.mutate [--list] [name ...]``.

Each mutation replaces a text of one file in a copy of the repository; its tests are run there and must fail. The exit
code is 1 where a mutation survives, and 2 where its text is no longer found: mend the table then, by the text that
does the same work now.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("covopt", "tests", "benchmarks", "checkers", "conftest.py", "pyproject.toml")


@dataclass(frozen=True)
class Mutation:
    """One change of the code that a test must notice.

    Attributes
    ----------
    name : str
    file : str
        Below the root.
    old, new : str
        The text, once in the file, and what replaces it.
    tests : str
        Arguments of pytest.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTATIONS = [
    Mutation(
        "a remembered bound does not pay for other rows",
        "covopt/oracles/remembered.py",
        "    paid = up(paid + up(factor * transfer_up(rows, lengths_up(own_dual), basis, own_rows)))",
        "    paid = up(paid)",
        "tests/oracles/test_remembered.py -k rows",
    ),
    Mutation(
        "a remembered bound does not pay for another dual",
        "covopt/oracles/remembered.py",
        "    paid = transfer_up(dual, lengths_up(rows), turn, own_dual)",
        "    paid = 0.0",
        "tests/oracles/test_remembered.py -k dual",
    ),
    Mutation(
        "a network that misses its points is certified",
        "covopt/certificates/certify.py",
        "if self.interpolates and self.gap <= tol:",
        "if self.gap <= tol:",
        "tests/certificates/test_certify.py -k misses",
    ),
    Mutation(
        "tree bound of deep networks 0.1 % too high",
        "covopt/depth/tree.py",
        "        return max(0.0, down(min(self.upper, found) - lost))",
        "        return 1.001 * max(0.0, down(min(self.upper, found) - lost))",
        "tests/depth/test_bank_of_networks.py -k sharp and positive",
    ),
    Mutation(
        "no slack for the minimiser of two acute rows",
        "covopt/depth/acute.py",
        "    return value - float((np.abs(gradient) * reach).sum()) - _ROOM * size",
        "    return value",
        "tests/depth/test_roundings.py -k acute",
    ),
    Mutation(
        "no slope in the slack of two acute rows",
        "covopt/depth/acute.py",
        "    return value - float((np.abs(gradient) * reach).sum()) - _ROOM * size",
        "    return value - _ROOM * size",
        "tests/depth/test_roundings.py -k acute",
    ),
    Mutation(
        "no tangent in the bound on a box of sizes",
        "covopt/depth/tree.py",
        "    return value + tangent, value + abs(tangent)",
        "    return value, value + abs(tangent)",
        "tests/depth/test_roundings.py -k tangent",
    ),
    Mutation(
        "no allowance for rounding in cells of covariances",
        "covopt/depth/gram_cells.py",
        "    return max(0.0, best - 4.0 * lost)",
        "    return max(0.0, best)",
        "tests/depth/test_roundings.py -k step",
    ),
    Mutation(
        "numbers below are not rounded down",
        "covopt/exact/rounding.py",
        "    return math.nextafter(value, -math.inf)",
        "    return value",
        "tests/exact/test_rounding.py tests/depth/test_hostile_bounds.py",
    ),
    Mutation(
        "roots from below are not compared with their powers",
        "covopt/exact/rounding.py",
        "    while Fraction(guess) ** n > scaled:\n        guess = down(guess)\n",
        "",
        "tests/exact/test_rounding.py tests/depth/test_hostile_bounds.py -k root or point",
    ),
    Mutation(
        "sums are charged no rounding",
        "covopt/exact/rounding.py",
        "    return up(gamma(2 * n + 8) * size)",
        "    return 0.0",
        "tests/exact/test_rounding.py -k allowance",
    ),
    Mutation(
        "rows moved by a transfer are not paid",
        "covopt/exact/rounding.py",
        "    return total_up(sizes, misses_up(vectors, basis, coordinates))",
        "    return 0.0",
        "tests/exact/test_rounding.py",
    ),
    Mutation(
        "singular values without their residual",
        "covopt/exact/singular.py",
        "    low = np.array([max(0.0, down(down(s * max(shrink, 0.0)) - miss)) for s in values.tolist()])",
        "    low = values.copy()",
        "tests/depth/test_closed_forms.py -k singular or rank",
    ),
    Mutation(
        "the constant is left out of the heights of deep networks",
        "covopt/depth/families.py",
        "                sizes = np.hypot(root * values, shifts)",
        "                sizes = root * values",
        "tests/depth/test_bank_of_networks.py -k tree and biases",
    ),
    Mutation(
        "what a child misses of its member is not paid",
        "covopt/depth/families.py",
        "                values = self._scales[:, None] * heights[self._targets] + self._rests @ heights[: self._n]",
        "                values = self._scales[:, None] * heights[self._targets]",
        "tests/depth/test_roundings.py -k child",
    ),
    Mutation(
        "the constant channel is free",
        "covopt/depth/pairs.py",
        "    return max(0.0, down(value - paid)) if paid else value",
        "    return value",
        "tests/depth/test_bank_of_networks.py -k closed",
    ),
    Mutation(
        "a quadrant at an obtuse angle",
        "covopt/depth/pairs.py",
        "    if det <= 0 or c < 0:",
        "    if det <= 0:",
        "tests/depth/test_roundings.py -k quadrant",
    ),
    Mutation(
        "rows of different targets count as level",
        "covopt/depth/level.py",
        "    if (Y[rows[0]] != Y[rows[-1]]).any():",
        "    if False:",
        "tests/depth/test_roundings.py -k level",
    ),
    Mutation(
        "a deep dual's chord without its begin",
        "covopt/depth/tree.py",
        "        value = price * value + begin - slope * first",
        "        value = price * value + begin",
        "tests/depth/test_bank_of_networks.py -k bounds_of_fits",
    ),
    Mutation(
        "a deep dual does not pay its penalised output bias",
        "covopt/depth/dual_trees.py",
        "        found = self._rest - value - up(up(p * p) * self._penalty)",
        "        found = self._rest - value",
        "tests/depth/test_roundings.py -k penalised",
    ),
    Mutation(
        "a deep network that misses its points is verified",
        "covopt/depth/solution.py",
        'Check("interpolation", residual <= INTERPOLATES,',
        'Check("interpolation", True,',
        "tests/depth/test_roundings.py -k misses_its",
    ),
    Mutation(
        "a deep solution of any gap may be called certified",
        "covopt/depth/solution.py",
        "        closed = self.status is not Status.CERTIFIED or self.gap <= self.tol",
        "        closed = True",
        "tests/depth/test_roundings.py -k open_bracket",
    ),
    Mutation(
        "conjugates are charged no rounding",
        "covopt/certificates/conjugate.py",
        "    return up(value + up(allowance(slope.size + FUNCTION, size) + roundings * FUNCTION * UNIT * moved))",
        "    return value",
        "tests/certificates/test_conjugate_roundings.py",
    ),
    Mutation(
        "a quadratic on the sphere without its slack",
        "covopt/oracles/cones/sphere_form.py",
        "            return nu + mu + 2.0 * (r + 6) * EPS * trace",
        "            return nu + mu - 1e-9 * abs(nu + mu)",
        "tests/oracles/test_sphere_form.py",
    ),
    Mutation(
        "chords on boxes of slope zero",
        "covopt/oracles/cones/leaf.py",
        "            top = 0.5 * (centre[k] + radius[k])",
        "            top = 0.49 * (centre[k] + radius[k])",
        "tests/oracles/test_cones.py",
    ),
    Mutation(
        "leaves of a proof without the chord",
        "covopt/proofs/checker/cover.py",
        "np.where(weight > 0, np.maximum(-a * lo, (one - a) * hi), 0)",
        "np.where(weight > 0, -a * lo, 0)",
        "tests/proofs/test_cover.py -k choice",
    ),
    Mutation(
        "leaves of a closed proof without the chord",
        "covopt/proofs/checker/covopt_check.py",
        "    b = sum([max(-a * lo, (one - a) * hi) for (sign, _, lo, hi), a in zip(rows, slopes) if sign > 0])",
        "    b = 0",
        "tests/proofs/test_readers.py -k python",
    ),
    Mutation(
        "normals of a closed proof of any length",
        "covopt/proofs/checker/covopt_check.py",
        "    return total <= 0 and sum(map(mul, normal, normal)) <= unit * unit",
        "    return total <= 0",
        "tests/proofs/test_readers.py -k python",
    ),
    Mutation(
        "normals of a proof of any length",
        "covopt/proofs/checker/cover.py",
        "    p[(p * p).sum(axis=1) > one * one] = 0\n",
        "",
        "tests/proofs/test_cover.py -k choice",
    ),
    Mutation(
        "a proof of another table",
        "covopt/proofs/checker/theorem.py",
        "    if proof.digest != problem.digest(dual):",
        "    if False:",
        "tests/proofs/test_checker.py",
    ),
    Mutation(
        "a proof does not pay for its pieces",
        "covopt/proofs/checker/theorem.py",
        "    paid = (norm * inside + outside) * unit",
        "    paid = (norm * inside) * unit",
        "tests/proofs/test_checker.py",
    ),
    Mutation(
        "a proof forgets the penalised output bias",
        "covopt/proofs/checker/dual.py",
        "2 * t * abs(dot(dual, targets)) - t * t * square",
        "2 * t * abs(dot(dual, targets))",
        "tests/proofs/test_checker.py -k penalised",
    ),
    Mutation(
        "a packing of cliques one too many",
        "covopt/completely_positive/lower.py",
        "    return _completed(cover, masks, (1 << n_rows) - 1), -(-sum(weights) // load) if load else 1",
        "    return _completed(cover, masks, (1 << n_rows) - 1), sum(weights) // load + 1 if load else 1",
        "tests/completely_positive/test_clique_cover.py",
    ),
    Mutation(
        "a certificate of another matrix",
        "covopt/completely_positive/checking.py",
        "        if not np.array_equal(exact, matrix.values):",
        "        if False:",
        "tests/completely_positive/test_cp_certificate.py",
    ),
    Mutation(
        "files with a name twice",
        "covopt/files/reading.py",
        "    if len(found) < len(pairs):",
        "    if False:",
        "tests/files tests/test_hostile_files.py -k twice",
    ),
    Mutation(
        "files that nest as deep as they like",
        "covopt/files/reading.py",
        "        _check_depth(content)\n",
        "",
        "tests/files tests/test_hostile_files.py -k nest or deep",
    ),
    Mutation(
        "what a proof misses of a bound by quadratics is excused however wide its bracket is",
        "covopt/certificates/exact.py",
        "endswith(BY_BOXES) and repaired and gap <= allowed:",
        "endswith(BY_BOXES) and repaired:",
        "tests/certificates/test_exact.py -k quadratics",
    ),
    Mutation(
        "an output bias where there is none",
        "covopt/certificates/rechecks.py",
        "        silent = not network.output_bias.any()",
        "        silent = True",
        "tests/test_verification.py -k where_there_is_none",
    ),
    Mutation(
        "a neuron that is active to the left is drawn as one to the right",
        "covopt/plotting/dual.py",
        "    sign = np.where(right, 1.0, -1.0)",
        "    sign = np.where(right, 1.0, 1.0)",
        "tests/plotting/test_what_is_drawn.py -k year",
    ),
]


def run(mutation: Mutation, place: Path) -> tuple[str, str]:
    """Return what became of one mutation, and the last lines that pytest printed."""
    file = place / mutation.file
    if not file.exists():
        return "FILE NOT FOUND", mutation.file
    text = file.read_text()
    if text.count(mutation.old) != 1:
        return (
            "TEXT NOT FOUND",
            f"{mutation.file} has it {text.count(mutation.old)} times: {mutation.old.strip()}",
        )
    times = file.stat()
    file.write_text(text.replace(mutation.old, mutation.new))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *_words(mutation.tests)]
    try:
        env = {**os.environ, "PYTHONPATH": str(place)}
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    finally:
        file.write_text(text)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # compiled kernels are kept by it
    tail = "\n".join(done.stdout.splitlines()[-4:])
    if done.returncode == 1:
        return "caught", tail
    return (
        "SURVIVED" if done.returncode == 0 else f"PYTEST ENDED WITH {done.returncode}"
    ), tail + done.stderr[-500:]


def _words(tests: str) -> list[str]:
    before, _, chosen = tests.partition(" -k ")
    return [*before.split(), *(["-k", chosen] if chosen else [])]


def main() -> int:
    """Run the mutations that are named, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names")
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if not options.names or any(name in m.name for name in options.names)]
    if options.list:
        print("\n".join(f"{m.name}: {m.file}" for m in chosen))
        return 0
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "covopt"
        place.mkdir()
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place / name)
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, place / name)
        for mutation in chosen:
            began = time.perf_counter()
            answer, tail = run(mutation, place)
            print(f"{answer:15s} {time.perf_counter() - began:6.1f} s  {mutation.name}", flush=True)
            if answer != "caught":
                print("    " + tail.replace("\n", "\n    "), flush=True)
                worst = max(worst, 2 if "NOT FOUND" in answer else 1)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
