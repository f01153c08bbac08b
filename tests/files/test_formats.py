"""The registry of formats, files of version 0.1.0, and deadlines within large files."""

import contextlib
import io
import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import covopt
from covopt.cli import app
from covopt.data.table_files import read_table
from covopt.errors import InputError, SolutionFileError
from covopt.files import FORMATS, check_format, read_json, write_json
from covopt.limits import TimeUp, limited
from tests.commands import refused, run

X, Y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]
READ = [name for name, entry in FORMATS.items() if entry.reader]


MADE = {
    "covopt-solution": lambda: covopt.min_norm(  # with names, and a note that rows were merged
        pd.DataFrame({"age": [0.0, 1.0, 1.0, 2.0]}),
        pd.Series([0.0, 1.0, 2.0, 0.0], name="y"),
        duplicates="mean",
    ),
    "covopt-path": lambda: covopt.path(X, Y, n_lams=2),
    "covopt-cp-rank": lambda: covopt.cp_rank([[2, 1], [1, 2]]),
    "covopt-proof": lambda: covopt.min_norm(X, Y).prove(),
    "covopt-deep-solution": lambda: covopt.representation_cost(
        [[1.0], [-1.0]], [1.0, 1.0], depth=3, bias=0.0
    ),
    "covopt-deep-fit": lambda: covopt.fit([[2.0]], [3.0], lam=0.1, depth=3, bias=0.0),
    "covopt-gap": lambda: covopt.gap(covopt.fit(X, Y, lam=0.01).network, X, Y, lam=0.01),
}


@cache
def made(name):
    return MADE[name]()


@pytest.mark.parametrize("name", READ)
def test_load_reads_every_format(name, tmp_path):
    file = tmp_path / "file.json"
    wrote = made(name)
    wrote.save(file)
    found = covopt.load(file)
    if name == "covopt-path":
        assert [s.to_dict() for s in found] == [s.to_dict() for s in wrote]
        assert found.to_frame().equals(wrote.to_frame())
    else:
        assert found.to_dict() == wrote.to_dict()
    assert type(found) is type(wrote)
    if name == "covopt-solution":
        data = found.data
        assert (data.feature_names, data.target_names, len(data.notes)) == (("age",), ("y",), 1)
    if name == "covopt-proof":
        assert "a proof is about one solution" in refused("verify", file)
        with pytest.raises(InputError, match="a proof is about one solution"):
            covopt.verify(found)
    else:
        assert run("verify", file).exit_code == 0 and covopt.verify(found).ok and covopt.verify(file).ok


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("odd", [[0.5], {}, "one"])
def test_a_field_of_another_kind_is_refused_or_harmless(name, odd, tmp_path):
    """A gap that was a list ended ``verify`` with a TypeError."""
    made(name).save(tmp_path / "file.json")
    content = json.loads((tmp_path / "file.json").read_text())
    for field in content:
        write_json(tmp_path / "odd.json", content | {field: odd})
        with contextlib.suppress(SolutionFileError, InputError):
            covopt.verify(tmp_path / "odd.json")


@pytest.mark.parametrize("name", READ)
def test_newer_files_are_refused_in_one_way(name, tmp_path):
    field, versions = FORMATS[name].field, FORMATS[name].versions
    content = {"format": name, field: versions[-1] + 1}
    words = f"the file has {field} {versions[-1] + 1}; this covopt reads .*Upgrade covopt"
    (tmp_path / "f.json").write_text(json.dumps(content))
    with pytest.raises(SolutionFileError, match=rf"f\.json: {words}"):
        covopt.load(tmp_path / "f.json")
    for version in (0, True, None, "1", versions):
        with pytest.raises(SolutionFileError, match="It is damaged"):
            check_format({"format": name, field: version}, name)


def test_json_is_written_whole_or_not_at_all(tmp_path):
    file = tmp_path / "a.json"
    write_json(file, {"x": [0.1, 1e300], "é": None})
    assert read_json(file) == {"x": [0.1, 1e300], "é": None}
    before = file.read_bytes()
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(file, {"x": float("nan")})
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_brackets_in_strings_do_not_nest(tmp_path):
    for content in ([[["[["] * 3] * 2] * 40, {"a": "}]" * 40, "b": ['\\"['] * 30}):
        file = tmp_path / "a.json"
        write_json(file, content)
        assert read_json(file) == content


# ------------------------ files that version 0.1.0 wrote are read and verified by every later one.
FOLDER = Path(__file__).parents[1] / "data" / "v0_1_0"
FILES = sorted(FOLDER.glob("*.json"))
OBJECTIVES = {"solution": 14.60112616, "vector_solution": 8.0, "fit": 0.1223317645}
OBJECTIVES["label_noise"] = (3 + 5**0.5) / 2


def test_there_is_one_file_of_each_format():
    assert [file.stem for file in FILES] == [
        "classifier", "cp_rank", "cp_rank_integer", "deep_solution", "fit", "label_noise", "label_noise_exact",
        "path", "solution", "vector_solution",
    ]  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_of_version_0_1_0_loads_and_verifies(file):
    found = covopt.load(file)
    assert covopt.verify(found).ok
    assert len(found) == 3 if file.stem == "path" else True
    if file.stem in OBJECTIVES:
        assert found.objective == pytest.approx(OBJECTIVES[file.stem], rel=1e-6)
    assert CliRunner().invoke(app, ["verify", str(file)]).exit_code == 0


# --------------------------------------------------------------- large files: deadlines are heard.
def test_a_deadline_is_heard_while_a_long_table_is_read(tmp_path):
    numbers = np.random.default_rng(0).standard_normal((2000, 3))
    stream = io.StringIO()
    np.savetxt(stream, numbers, delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    head, _, rows = stream.getvalue().partition("\n")
    (tmp_path / "table.csv").write_text(f"{head}\n{rows * 30}")
    read = read_table(tmp_path / "table.csv", target="y")
    assert np.array_equal(read.X, np.tile(numbers[:, :2], (30, 1)))
    with pytest.raises(TimeUp), limited(0.01):
        while True:  # Python drops an alarm that falls into a callback of the collector
            read_table(tmp_path / "table.csv", target="y")
