"""Rooms hold what they should, old module paths lead to their names, and what is handed out is whole."""

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import grimp
import networkx as nx
import pytest

import covopt
from tests.cases import cases

ROOT = Path(covopt.__file__).parent
OLD = dict(cases("public names of the first release by module"))


def test_the_root_is_small_and_tests_stand_in_the_rooms_of_what_they_test():
    files = {file.name for file in ROOT.glob("*.py")}
    assert len(files) <= 10 and {name for name in files if name[0] == "_"} <= {"__init__.py", "__main__.py"}
    rooms = {folder.name for folder in ROOT.iterdir() if (folder / "__init__.py").exists()}
    here = {folder.name for folder in Path(__file__).parent.iterdir() if list(folder.glob("test_*.py"))}
    assert here - {"bank"} <= rooms


def test_old_module_paths_lead_to_their_names():
    for module, names in OLD.items():
        found = import_module(module)
        assert set(names) <= set(dir(found)) and all(getattr(found, name) is not None for name in names)
    for name in OLD["covopt.api"]:
        assert getattr(import_module("covopt.api"), name) is getattr(covopt, name)
    for place in (covopt, import_module("covopt.api")):
        with pytest.raises(AttributeError, match="no attribute 'minnorm'"):
            _ = place.minnorm


def test_listed_names_exist_and_no_two_test_files_have_one_name():
    listing = [file for file in _sources("covopt") if "\n__all__ = " in file.read_text(encoding="utf-8")]
    modules = [
        file.relative_to(REPOSITORY).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for file in listing
    ]
    missing = [
        f"{module}.{name}"
        for module in modules
        for name in import_module(module).__all__
        if not hasattr(import_module(module), name)
    ]
    assert len(modules) > 15 and missing == []
    names = Counter(file.name for file in (REPOSITORY / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


# ------------------------------------------------------------------ size
REPOSITORY = Path(__file__).resolve().parents[1]
LONG: dict[str, str] = {}  # lines of files above 400, and why they are one piece
TWICE: set[str] = set()  # see "What stands twice, and why" in docs/architecture.md


def _sources(*folders):
    return [file for folder in folders for file in sorted((REPOSITORY / folder).rglob("*.py"))]


def test_one_file_has_one_job_and_at_most_400_lines():
    long = {
        file.relative_to(ROOT).as_posix()
        for file in ROOT.rglob("*.py")
        if len(file.read_text(encoding="utf-8").splitlines()) > 400
    }
    assert long <= set(LONG)


def test_no_private_name_is_imported():
    imports = re.compile(r"^ *from ((?:covopt|tests|benchmarks)\b[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
    found = [
        f"{file.name} imports {names} of {module}"
        for file in _sources("covopt", "tests", "benchmarks")
        for module, names in imports.findall(file.read_text(encoding="utf-8"))
        if re.search(r"\._[a-z]", module) or re.search(r"(^|[(,\s])_[a-z]", re.sub(r" as \w+", "", names))
    ]
    assert found == []


def test_no_files_import_one_another_in_a_circle():
    found = grimp.build_graph("covopt", exclude_type_checking_imports=True, cache_dir=None)
    graph = nx.DiGraph(
        (one, other) for one in found.modules for other in found.find_modules_directly_imported_by(one)
    )
    assert len(graph) > 150
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


# a function, and the lines that stand further in below it, also within another one
FUNCTION = re.compile(
    r"^(?=( *)def (\w+)\((?s:.*?)\)(?: -> [^\n]+?)?: *(?:#[^\n]*)?\n((?:\1 +[^\n]*\n|\n)+))", re.MULTILINE
)


def _bodies(file):
    """Every function of four lines or more: its name, and its lines without the docstring."""
    for _, name, lines in FUNCTION.findall(file.read_text(encoding="utf-8")):
        body = re.sub(r'\A\s*r?"""(?s:.*?)"""\n', "", lines).strip()
        if body.count("\n") >= 3:
            yield name, re.sub(r"^ +", "", body, flags=re.MULTILINE)


def test_no_function_is_written_twice():
    names = {}
    for file in _sources("covopt"):
        for name, text in _bodies(file):
            names.setdefault(text, []).append(f"{file.relative_to(ROOT).as_posix()}: {name}")
    twice = [where for where in names.values() if len(where) > 1]
    assert {one.split(": ")[1] for where in twice for one in where} == TWICE


# ---- what is handed out: the archive of the sources is whole, the wheel holds the package and nothing else.
FOLDERS = ("covopt", "tests", "notebooks", "benchmarks", "docs")
MADE = ("__pycache__", "__cache__", "outputs", ".ipynb_checkpoints", "generated", "gallery")

BUILD = "from setuptools import build_meta as b; print(b.build_sdist({0!r})); print(b.build_wheel({0!r}))"


def sources() -> set[str]:
    return {
        str(file.relative_to(REPOSITORY))
        for folder in FOLDERS
        for file in (REPOSITORY / folder).rglob("*")
        if file.is_file()
        and not set(file.relative_to(REPOSITORY).parts) & set(MADE)
        and not file.name.startswith(".")
        and file.suffix not in (".pyc", ".nbi", ".nbc")
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("setuptools is older than pyproject.toml asks for")
    import shutil

    copy, out = tmp_path_factory.mktemp("sources") / "covopt", tmp_path_factory.mktemp("built")
    copy.mkdir()
    for folder in FOLDERS:
        shutil.copytree(REPOSITORY / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in REPOSITORY.iterdir():
        if file.is_file() and file.suffix in ("", ".md", ".toml", ".txt", ".cff", ".in", ".py", ".yaml"):
            shutil.copy(file, copy)
    subprocess.run([sys.executable, "-c", BUILD.format(str(out))], cwd=copy, capture_output=True, check=True)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def test_the_archive_of_the_sources_is_whole(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = sources() - names
    assert not missing
    pages = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff", "constraints.txt"}
    assert pages <= names
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc")) or "__pycache__" in name]


def test_the_wheel_holds_the_package_and_what_it_reads(built):
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
        meta = email.message_from_bytes(
            wheel.read(next(name for name in names if name.endswith("dist-info/METADATA")))
        )
    held = {name for name in names if ".dist-info/" not in name}
    assert held == {name for name in sources() if name.startswith("covopt/")}
    assert {"covopt/explore/page.html", "covopt/data/diabetes.npz", "covopt/py.typed"} <= held
    assert meta["Name"] == "covopt-nn"
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert set(meta.get_all("Provides-Extra")) == set(project["optional-dependencies"])
