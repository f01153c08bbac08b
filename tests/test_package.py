"""What is handed out: the archive of the sources is whole, the wheel holds the package and nothing else."""

import email
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("covopt", "tests", "notebooks", "benchmarks", "docs")
MADE = ("__pycache__", "__cache__", "outputs", ".ipynb_checkpoints", "generated", "gallery")

BUILD = "from setuptools import build_meta as b; print(b.build_sdist({0!r})); print(b.build_wheel({0!r}))"


def sources() -> set[str]:
    return {
        str(file.relative_to(ROOT))
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*")
        if file.is_file()
        and not set(file.relative_to(ROOT).parts) & set(MADE)
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
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if file.is_file() and file.suffix in ("", ".md", ".toml", ".txt", ".cff", ".in", ".py", ".yaml"):
            shutil.copy(file, copy)
    subprocess.run([sys.executable, "-c", BUILD.format(str(out))], cwd=copy, capture_output=True, check=True)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def test_the_archive_of_the_sources_is_whole(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = sources() - names
    assert not missing
    assert {
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "CITATION.cff",
        "constraints.txt",
    } <= names
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(meta.get_all("Provides-Extra")) == set(project["optional-dependencies"])
