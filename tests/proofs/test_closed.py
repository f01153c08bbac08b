"""Closed proofs: the standalone reader refuses what is no proof in one sentence."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

CHECKER = Path(__file__).parents[2] / "checkers" / "covopt_check.py"
BEGINNING = '{"digest":"' + 64 * "0" + '","format":"covopt-proof","network":'


@pytest.mark.parametrize(
    "text",
    ["", "{}", 10**7 * "[", BEGINNING + 10**7 * "[", BEGINNING + 10**7 * "9", BEGINNING + "0}", "é", 2**27 * " "],
    ids=["empty", "nothing", "deep", "deep inside", "huge integer", "names", "other letters", "huge"],
)  # fmt: skip
def test_a_damaged_file_gives_one_sentence(text, tmp_path):
    file, began = tmp_path / "proof.json", time.process_time()
    file.write_text(text, encoding="utf-8")
    found = subprocess.run([sys.executable, CHECKER, file], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stdout.startswith("NO    ") and found.stdout.count("\n") == 1
    assert not found.stderr
    assert time.process_time() - began < 5


def test_the_checker_is_short_and_needs_the_standard_library_alone():
    lines = CHECKER.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 300
    imported = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    assert imported <= sys.stdlib_module_names
