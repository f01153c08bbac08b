"""The registry of formats: every file that covopt writes is in it, and its sentences are the same everywhere."""

import contextlib
import json
from functools import cache

import pandas as pd
import pytest

import covopt
from covopt.errors import InputError, SolutionFileError
from covopt.files import read_json, write_json
from covopt.files.formats import FORMATS, check_format
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
        assert (found.data.feature_names, found.data.target_names, len(found.data.notes)) == (
            ("age",),
            ("y",),
            1,
        )
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
