"""What the core does alone, and what it says where a package of an extra is missing."""

import ast
import json
import sys
import tomllib
from pathlib import Path

import pytest

import covopt
from tests.cases import cases, outside

ROOT = Path(covopt.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = (
    "pandas", "pyarrow", "openpyxl", "matplotlib", "sklearn", "cvxpy", "scs", "networkx", "torch", "onnx", "plotly",
    "polars", "benchopt", "mosek", "dask",
)  # fmt: skip
HEAVY = (*OPTIONAL, "numba", "scipy", "joblib", "rich")

QUESTIONS = cases("what needs a package, and the extra that has it")

# all in one process, since each would import covopt again
SCRIPT = """
import sys
import covopt
dir(covopt)
loaded, asked = [name for name in HEAVY if name in sys.modules], []

import json, tempfile, warnings
from pathlib import Path

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            asked.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import numpy as np
proved = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0])
proved = [covopt.verify(proved).ok, len(proved.sparsest().network) == 1, proved.is_unique, loaded, list(asked)]
from covopt.datasets import load_diabetes_table, load_digit_images, make_smooth
from typer.testing import CliRunner
from covopt.cli import app
from covopt.network.state_dict import read_model

folder = Path(tempfile.mkdtemp())
X, y = make_smooth(8)
solution = covopt.min_norm(X, y)
fitted = covopt.fit(X, y, lam=0.1)
deep = covopt.DeepReLUNetwork([np.ones((2, 2)), np.ones((1, 2))])
solution.save(folder / "solution.json")
(folder / "table.csv").write_text("a,y\\n0,1\\n1,2\\n")
np.savez(folder / "table.npz", X=X, y=y)
for name in ("table.parquet", "table.feather", "table.xlsx", "model.pt"):
    (folder / name).write_bytes(b"")

def run(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return {"code": done.exit_code, "out": done.stdout, "error": done.stderr}

def said(question):
    try:
        eval(question)
    except covopt.errors.MissingPackageError as error:
        return str(error)

import covopt.plotting, covopt.completely_positive.graphs, covopt.errors
print(json.dumps({
    "proved": proved,
    "certified": [solution.status.code, fitted.status.code, covopt.verify(fitted).ok],
    "unique": solution.is_unique,
    "diabetes": [list(a) for a in (load_diabetes_table()[0].shape, load_diabetes_table()[2])],
    "verify": run("verify", folder / "solution.json"),
    "demo": run("demo", "--out", folder / "demo.json", "--plot", folder / "demo.png", "--time-limit", "0.1"),
    "solve": run("solve", folder / "table.csv", "--target", "y"),
    "train": run("train", folder / "table.csv", "--target", "y", "--widths", "2", "--lam", "0.1"),
    "figure": run("solve", folder / "table.csv", "--target", "y", "--plot", folder / "f.png"),
    "said": {question: said(question) for question, *_ in QUESTIONS},
}))
"""


@pytest.fixture(scope="module")
def core():
    done = outside(sys.executable, "-c", f"{HEAVY, OPTIONAL, QUESTIONS = }\n{SCRIPT}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_and_listing_load_nothing_heavy_and_solving_asks_for_no_extra(core):
    assert core["proved"] == [True, True, True, [], []]


def test_the_core_solves_and_verifies_alone(core):
    assert core["certified"] == ["certified", "certified", True]
    assert core["unique"] in (True, False, None)
    assert core["diabetes"] == [[432, 2], ["bmi", "s5"]]
    assert core["verify"]["code"] == 0
    assert core["verify"]["out"].endswith("verified\n")


def test_the_demo_goes_without_its_picture(core):
    assert core["demo"]["code"] in (0, 3), core["demo"]
    assert "no picture, which needs matplotlib: pip install '.[plot]' in the checkout" in core["demo"]["out"]
    assert "bmi, s5 → progression" in core["demo"]["out"]


@pytest.mark.parametrize(("question", "package", "extra"), QUESTIONS)
def test_what_is_missing_is_named_with_its_extra(core, question, package, extra):
    assert core["said"][question] is not None
    assert core["said"][question].endswith(f" needs {package}: pip install '.[{extra}]' in the checkout")


@pytest.mark.parametrize(("command", "extra"), [("solve", "tables"), ("train", "train"), ("figure", "plot")])
def test_commands_name_the_extra(core, command, extra):
    assert core[command]["code"] == 1
    assert core[command]["error"].startswith("error: ")
    assert core[command]["error"].endswith(f"pip install '.[{extra}]' in the checkout\n")


def test_extras_that_messages_name_exist():
    named = set()
    for file in (ROOT / "covopt").rglob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "required(" in text else ():
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "required"
                and len(node.args) == 3
            ):
                module, _, extra = node.args
                named.add((module.value.partition(".")[0], extra.value))
    extras = PROJECT["optional-dependencies"]
    for module, extra in named:
        package = {"sklearn": "scikit-learn"}.get(module, module)
        assert any(entry.startswith(package) for entry in extras[extra]), (module, extra)
    assert len(named) >= 12
