"""The package's root holds public entries only, and old public module paths still lead to their names."""

import ast
import re
import sys
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

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


# ------------------------------------------------------------------ privacy and size
REPOSITORY = Path(__file__).resolve().parents[1]
PROTOCOLS = {"_repr_html_", "_replace", "_value_"}  # IPython's, namedtuple's, enum's
LONG: dict[str, str] = {}  # lines of files above 400, and why they are one piece
PRIVATE = re.compile(  # files in which a private name of another one may stand
    r"import.*\b_[a-z]|(?<!\bself)(?<!\bcls)\._[a-z]|^\s+_[a-z]\w*,$", re.IGNORECASE | re.MULTILINE
)
TWICE: set[str] = set()  # see "What stands twice, and why" in docs/architecture.md


def _sources(*folders):
    return [file for folder in folders for file in sorted((REPOSITORY / folder).rglob("*.py"))]


@cache
def _parsed(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def _is_private(name):
    return name.startswith("_") and not name.endswith("__") and name not in PROTOCOLS


def _own_names(tree):
    """Private names that a file defines: functions, classes, attributes of self, fields."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _borrowed(file):
    """Private names that a file takes from another one, with the line."""
    if not PRIVATE.search(file.read_text(encoding="utf-8")):
        return
    tree = _parsed(file)
    where, own = file.relative_to(REPOSITORY).as_posix(), None
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".")
            if parts[0] in ("covopt", "tests", "benchmarks"):
                names = [*parts, *(alias.name for alias in node.names)]
                yield from (f"{where}:{node.lineno} imports {name}" for name in names if _is_private(name))
        elif isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = (
                node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            )
            if owner in ("self", "cls") or isinstance(node.value, ast.Call):
                continue
            own = _own_names(tree) if own is None else own
            if node.attr not in own:
                yield f"{where}:{node.lineno} reads {ast.unparse(node)}"


def test_no_private_name_crosses_files():
    assert [found for file in _sources("covopt", "tests", "benchmarks") for found in _borrowed(file)] == []


def test_borrowed_names_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "REPOSITORY", tmp_path)
    (tmp_path / "covopt").mkdir()
    file = tmp_path / "covopt" / "one.py"
    file.write_text(
        "from covopt.data import _rows\nfrom covopt import data\ndata._rows\nx._kept\nself._own = x._own\n"
    )
    assert [found.split(" ", 1)[1] for found in _borrowed(file)] == [
        "imports _rows", "reads data._rows", "reads x._kept",
    ]  # fmt: skip


def test_one_file_has_one_job_and_at_most_400_lines():
    long = {
        file.relative_to(ROOT).as_posix()
        for file in ROOT.rglob("*.py")
        if len(file.read_text(encoding="utf-8").splitlines()) > 400
    }
    assert long <= set(LONG)


def _imports(file):
    """Modules of covopt that a file imports, inside of functions too, but for what only annotations need."""
    tree = _parsed(file)
    typing = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node not in typing
            and (node.module or "").startswith("covopt.")
        ):
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def test_no_files_import_one_another_in_a_circle():
    modules = {
        ".".join(file.relative_to(ROOT.parent).with_suffix("").parts): file for file in ROOT.rglob("*.py")
    }
    graph = nx.DiGraph(
        (module, other) for module, file in modules.items() for other in _imports(file) if other in modules
    )
    assert len(graph) > 250
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def _bodies(file):
    """Every function of four lines or more: its name, and its lines without the docstring."""
    lines = file.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            if body and body[-1].end_lineno - body[0].lineno >= 3:
                text = "\n".join(line.strip() for line in lines[body[0].lineno - 1 : body[-1].end_lineno])
                yield node.name, text


def test_no_function_is_written_twice():
    names = {}
    for file in _sources("covopt"):
        for name, text in _bodies(file):
            names.setdefault(text, []).append(f"{file.relative_to(ROOT).as_posix()}: {name}")
    twice = [where for where in names.values() if len(where) > 1]
    assert {one.split(": ")[1] for where in twice for one in where} == TWICE
