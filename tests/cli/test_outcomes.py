"""Every section of ``outcomes.txt``: commands in a folder with tables, and what holds after each of them."""

import base64
import gzip
import json
import os
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import covopt
from covopt.completely_positive import graphs
from covopt.completely_positive.certificate import verify_cp_rank
from covopt.data.table_files import read_table
from covopt.proofs.proof import sealed
from tests.commands import run

SECTIONS = re.split(r"^== ", Path(__file__).with_name("outcomes.txt").read_text(), flags=re.MULTILINE)[1:]
SAYS = "standardised   columns of mean 0 and variance 1"
load = covopt.load
USED = (nx, graphs, sealed, verify_cp_rank)  # by the lines of the table


def read(name):
    return Path(name).read_text()


def write(name, text):
    Path(name).write_text(text)


def size(name):
    return Path(name).stat().st_size


def ls():
    return sorted(set(os.listdir()) - {"t.csv", "solved.json"})


def forged(content):
    content["dual"][0] *= 1.01
    return content


def floats(out, skip=None):
    return [float(value) for i, value in enumerate(out.splitlines()[1:]) if i != skip]


def close(found, expected):
    return np.allclose(found, np.asarray(expected), rtol=1e-12, atol=1e-9)


def likeliest(predictions):
    """Return the classes that are predicted, where their probabilities say the same and sum to one."""
    said, *chances = predictions.values()
    names = [name[2:-1] for name in list(predictions)[1:]]
    np.testing.assert_allclose(np.sum(chances, axis=0), 1.0)
    assert [names[i] for i in np.argmax(chances, axis=0)] == said
    return said


def explained(solution, table):
    left, spread = table["y"] - solution.network.predict(table[["a", "b"]]), table["y"] - table["y"].mean()
    return 1 - (left**2).sum() / (spread**2).sum()


def unpacked(page):
    return gzip.decompress(base64.b64decode(re.search(r'id="content">([^<]*)<', read(page))[1])).decode()


def best_of(frame):
    best = frame.loc[frame["held_out_loss"].idxmin()]
    said = f"R² {best['held_out_r2']:.4f}, loss {best['held_out_loss']:.6g}"
    return f"λ = {best['lam']:.6g} on rows left out: {said}"


def inputs(table, solution):
    return read_table(table, target=None, features=solution.data.feature_names).X


def people():
    """Write a table of people, two of whom lack an income, and one of the others."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "age": rng.integers(20, 70, 30), "income": rng.integers(20_000, 90_000, 30).astype(float),
        "town": rng.choice(["Bern", "Thun", "Genf"], 30), "member": rng.choice(["yes", "no"], 30),
    })  # fmt: skip
    table["rich"] = np.where(table["income"] > 50_000, "high", "low")
    table["amount"] = (table["income"] / 1e4 + table["age"]).round(2)
    table.loc[[5, 17], "income"] = np.nan
    table.to_csv("people.csv", index=False)
    table.dropna().to_csv("whole.csv", index=False)


def years():
    """Write a table whose columns have different units, and return it."""
    rng = np.random.default_rng(0)
    year, income = rng.integers(1950, 2020, 16) + 0.0, rng.uniform(2e4, 9e4, 16).round()
    y = (300.0 + np.abs(year - 1990.0) + income / 1e4).round(3)
    kind = np.where(y > np.median(y), "dear", "cheap")
    table = pd.DataFrame({"year": year, "income": income, "y": y, "kind": kind})
    table.to_csv("years.csv", index=False)
    return table


def steps(section):
    """Return the lines of a section: statements, and commands with the expressions below them."""
    found = []
    for line in section.splitlines()[1:]:
        if line.startswith("    "):
            found[-1][1].append(line.strip())
        elif line:
            found.append((line, []))
    return found


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_what_commands_do(section, here, solved):
    shutil.copy(solved, "solved.json")
    space = {**globals(), "here": here}
    for line, expressions in steps(section):
        if line.startswith("! "):
            exec(line[2:], space)
            continue
        done = run(*shlex.split(line))
        it = SimpleNamespace(**json.loads(done.stdout) if "--json" in line else {})
        out, lines = done.stdout, done.stdout.splitlines()
        space |= {"out": out, "err": done.stderr, "code": done.exit_code, "it": it}
        space["found"] = lambda name, lines=lines: next(said for said in lines if said.startswith(name))
        assert expressions
        for expression in ["code == 0"] * ("code" not in " ".join(expressions)) + expressions:
            assert eval(expression, space), (line, expression, done.output)
