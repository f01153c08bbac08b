"""Public names: documented, of one spelling, known to type checkers."""

import ast
import inspect
import os
import sys
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import pytest
from numpydoc.validate import validate

import covopt
from tests.cases import outside


def test_every_public_name_exists_and_is_documented():
    space: dict = {}
    exec("from covopt import *", space)
    assert set(covopt.__all__) <= set(space) and covopt.__version__.count(".") == 2
    for name in covopt.__all__:
        assert name in dir(covopt) and (name == "__version__" or getattr(covopt, name).__doc__)


# ------------- every parameter of the public names is described, and nothing that is no parameter.
# no docstring, parameters without a description of their own, unknown parameters, yields
CODES = {"GL08", "PR01", "PR02", "YD01"}


def functions():
    """Public functions, and the public methods that public classes define or inherit within covopt."""
    for name in covopt.__all__:
        value = getattr(covopt, name)
        if inspect.isfunction(value):
            yield f"covopt.{name}"
        if inspect.isclass(value):
            for member, kind, owner, _ in inspect.classify_class_attrs(value):
                if member.startswith("_") or kind == "data" or not owner.__module__.startswith("covopt"):
                    continue
                if not isinstance(inspect.getattr_static(owner, member), cached_property):
                    yield f"covopt.{name}.{member}"


def test_parameters_are_documented():
    found = {name: validate(name)["errors"] for name in {*functions()}}
    assert not [(name, said) for name, errors in found.items() for code, said in errors if code in CODES]


def test_classes_document_their_parameters_or_attributes():
    for name in {*covopt.__all__} - {"Status"}:
        text = inspect.getdoc(getattr(covopt, name)) or ""
        if inspect.isclass(getattr(covopt, name)):
            assert "Parameters\n---" in text or "Attributes\n---" in text, name


# ------- what editors and type checkers see of the package, whose names are imported on first use.
ROOT = Path(covopt.__file__).parents[1]
SCRIPT = """\
import numpy as np

import covopt

X, y = np.zeros((4, 2)), np.zeros(4)
solution = covopt.min_norm(X, y, tolerance=1e-6)
fitted = covopt.fit(X, y, lam=0.1)
print(fitted.objektive, fitted.score(X, y), covopt.verify(fitted).ok)
print(covopt.count_cell(X), covopt.count_cells(X))
"""
MISTAKES = {6: "tolerance", 8: "objektive", 9: "count_cell"}


@pytest.mark.parametrize("checker", [pytest.param("mypy", marks=pytest.mark.slow), "pyright"])
def test_the_three_mistakes_of_a_script_are_found(checker, tmp_path):
    if find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = (
        ["--cache-dir", str(tmp_path / "cache")] if checker == "mypy" else ["--pythonpath", sys.executable]
    )
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": paths}
    done = outside(sys.executable, "-m", checker, *options, script.name, cwd=tmp_path, env=env)
    found = [line for line in done.stdout.splitlines() if " error: " in line or " - error" in line]
    assert len(found) == len(MISTAKES), done.stdout + done.stderr
    for (row, word), line in zip(MISTAKES.items(), found, strict=True):
        assert f"script.py:{row}" in line
        assert f'"{word}"' in line


def test_checkers_and_the_lazy_import_know_the_same_names():
    tree = ast.parse(Path(covopt.__file__).read_text())
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (node.module, alias.name): getattr(covopt, alias.name)
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {name for _, name in seen} == set(covopt.__all__) - {"__version__"}
    for (module, name), value in seen.items():
        assert inspect.ismodule(value) or getattr(sys.modules[module], name) is value


SPELT = {"X": {"x", "points", "data_x"}, "Y": {"targets", "t"}, "lam": {"lambda_", "alpha", "reg", "lmbda"},
         "lams": {"lambdas", "alphas"}, "bias": {"beta", "use_bias", "with_bias"},
         "random_state": {"seed", "rng"}, "tol": {"tolerance", "eps_gap"}}  # fmt: skip


@pytest.mark.parametrize(
    "name", [name for name in covopt.__all__ if inspect.isfunction(getattr(covopt, name))]
)
def test_one_thing_has_one_name_in_every_public_function(name):
    names = set(inspect.signature(getattr(covopt, name)).parameters)
    assert not {said for others in SPELT.values() for said in others} & names
    assert not {"y", "Y"} <= names
