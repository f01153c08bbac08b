"""Files that version 0.1.0 wrote are read and verified by every later one."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import covopt
from covopt.cli import app

FOLDER = Path(__file__).parent / "data" / "v0_1_0"
FILES = sorted(FOLDER.glob("*.json"))
OBJECTIVES = {
    "solution": 14.60112616,
    "vector_solution": 8.0,
    "fit": 0.1223317645,
    "label_noise": (3 + 5**0.5) / 2,
}


def test_there_is_one_file_of_each_format():
    assert [file.stem for file in FILES] == [
        "classifier", "cp_rank", "cp_rank_integer", "fit", "label_noise", "label_noise_exact", "path",
        "solution", "vector_solution",
    ]  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_of_version_0_1_0_loads_and_verifies(file):
    found = covopt.load(file)
    assert covopt.verify(found).ok
    assert len(found) == 3 if file.stem == "path" else True
    if file.stem in OBJECTIVES:
        assert found.objective == pytest.approx(OBJECTIVES[file.stem], rel=1e-6)
    assert CliRunner().invoke(app, ["verify", str(file)]).exit_code == 0
