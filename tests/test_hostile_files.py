"""Damaged and hostile files of every format: one sentence, exit code 1, in under a second, nothing executed."""

import io
import json
import pickle
import struct
import time
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from safetensors.numpy import save
from typer.testing import CliRunner

from benchmarks.adversary.mutate import RAW, mutations, places
from covopt.checks.memory import memory_limited
from covopt.cli import app
from covopt.completely_positive.graphs import read_graph
from covopt.completely_positive.matrix import read_csv
from covopt.data.table_files import load_table
from covopt.errors import CovoptError, InputError, SolutionFileError
from covopt.files import read_json
from covopt.network.state_dict import read_model
from covopt.verification import verify
from tests.cases import cases, with_value

OLD = Path(__file__).parent / "data" / "v0_1_0"
DOCUMENTS = sorted(file.stem for file in OLD.glob("*.json"))
SECONDS = 5.0  # a second on a machine that does nothing else


def document(name: str) -> dict:
    return json.loads((OLD / f"{name}.json").read_text())


def read(path: Path, reader=verify) -> str:
    """What the reader says: "verified", "failed", or the sentence of its refusal."""
    began = time.perf_counter()
    try:
        found = reader(path)
        said = "verified" if getattr(found, "ok", True) else "failed"
    except CovoptError as error:
        said = str(error).replace(str(path), path.name)
        assert said.isprintable(), said
        assert len(said) < 500, said
    assert time.perf_counter() - began < SECONDS
    return said


@pytest.mark.parametrize("name", DOCUMENTS)
def test_mutated_files(name, tmp_path):
    verify(OLD / f"{name}.json")  # compiles, the first time
    content, path = document(name), tmp_path / "file.json"
    ways = mutations(content, np.random.default_rng(len(name)))
    said = set()
    for _ in range(45):
        what, raw = next(ways)
        path.write_bytes(raw)
        said.add(read(path))
        assert said, what
    assert len(said) > 10


@pytest.mark.parametrize("name", ["solution", "classifier", "cp_rank_integer"])
@pytest.mark.parametrize("raw", ["null", "3.0", '"x"', "[[]]", "{}", "1" + "0" * 400])
def test_every_field_as_something_else(name, raw, tmp_path):
    """Each name of the file once: nothing but covopt's own errors."""
    verify(OLD / f"{name}.json")
    content, path = document(name), tmp_path / "file.json"
    fields = [place for place in places(content) if not isinstance(place[-1], int)]
    fields = {tuple(0 if isinstance(key, int) else key for key in place) for place in fields}
    for place in sorted(fields, key=str):
        changed = with_value(content, place, lambda _: "MARK")
        path.write_text(json.dumps(changed).replace('"MARK"', raw))
        read(path)


def test_a_file_of_any_size_is_not_read_into_memory(tmp_path):
    path = tmp_path / "file.json"
    with path.open("wb") as stream:
        stream.truncate(2**28 + 10)  # sparse
    with pytest.raises(SolutionFileError, match="larger than 256 MiB"):
        read_json(path)


@pytest.mark.parametrize("text", ["1e999999999", "1/0", "0x10", "nan", "9" * 5000, "1 / 2", "1.5", "", "١/٢"])
def test_fractions_are_digits_and_a_stroke(text, tmp_path):
    """1e999999999 as a fraction would fill the memory."""
    content, path = document("cp_rank_integer"), tmp_path / "file.json"
    content["exact"][0][0] = text
    path.write_text(json.dumps(content))
    assert "damaged" in read(path)
    for name in ("vector", "dominance"):
        content = document("cp_rank_integer")
        for reason in content["readings"][0]["reasons"]:
            reason["data"] = {name: [text] * len(reason["vertices"])}
        path.write_text(json.dumps(content))
        read(path)


def archive(**arrays) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as found:
        for name, raw in arrays.items():
            found.writestr(f"{name}.npy", raw)
    return stream.getvalue()


def npy(shape: str, kind: str = "<f8", rest: bytes = b"") -> bytes:
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + rest


class Bomb:
    def __reduce__(self):
        return (Path("executed").touch, ())


def pickled() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb()], dtype=object), allow_pickle=True)
    return stream.getvalue()


def table(path: Path) -> object:
    return load_table(path, target="y")


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="&b;"/></graph></graphml>"""


READERS = {  # by the end of the name: what reads such a file, and the command that does
    ".json": (read_json, "verify"), "t.npz": (table, "solve --target y"), "t.csv": (table, "solve --target y"),
    ".parquet": (table, "solve --target y"), ".graphml": (read_graph, "cp-rank"), ".g6": (read_graph, "cp-rank"),
    "m.csv": (read_csv, "cp-rank"),
}  # fmt: skip
DAMAGED = [
    *(("file.json", *each) for each in cases("damaged JSON")),
    *((*each, "") for each in cases(
        "damaged tables", Bomb=Bomb, archive=archive, npy=npy, pickle=pickle, pickled=pickled
    )),
    *((*each, "") for each in cases("damaged graphs and matrices", LAUGHS=LAUGHS)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "raw", "words"), DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_files(name, raw, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(raw)
    reader, command = next(READERS[end] for end in READERS if name.endswith(end))
    said = read(tmp_path / name, reader)
    assert said != "verified" and words in said
    for more in ([], ["--json"])[: 1 + bool(words)]:
        began = time.perf_counter()
        result = CliRunner().invoke(app, [*command.split(), name, *more])
        assert time.perf_counter() - began < SECONDS
        assert result.exit_code == 1 and words in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "executed").exists()


def test_a_graph_of_many_vertices_is_no_matrix(tmp_path):
    path = tmp_path / "g.graphml"
    nx.write_graphml(nx.empty_graph(6000), path)
    assert "5000 are the most" in read(path, read_graph)


@pytest.mark.parametrize("seed", range(25))
def test_state_dicts(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shapes = {"0.weight": (3, 2), "0.bias": 3, "2.weight": (1, 3)}
    raw = save({name: np.ones(shape, "f4") for name, shape in shapes.items()})
    rng = np.random.default_rng(seed)
    path = tmp_path / "m.safetensors"
    for _ in range(4):
        found = bytearray(raw)
        found[int(rng.integers(120))] = int(rng.integers(256))
        path.write_bytes(bytes(found[: int(rng.integers(len(raw) + 1))]) if rng.random() < 0.3 else found)
        read(path, read_model)
    for junk in (b"", b"\xff" * 8, struct.pack("<Q", 2**62) + b"{}", struct.pack("<Q", 2) + b"{}"):
        path.write_bytes(junk)
        assert read(path, read_model) != "verified"


def test_a_pickle_in_a_state_dict_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for content in ({"0.weight": Bomb()}, Bomb()):
        torch.save(content, tmp_path / "m.pt")
        assert "could run code" in read(tmp_path / "m.pt", read_model)
    (tmp_path / "m.pt").write_bytes(pickle.dumps(Bomb()))
    assert read(tmp_path / "m.pt", read_model) != "verified"
    assert not (tmp_path / "executed").exists()


def test_a_model_that_memory_has_no_room_for_is_refused_unread(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"?" * (1 << 20))  # what is read would be damaged
    with memory_limited(0.001), pytest.raises(InputError, match=r"the model .* needs about 0.0078 GiB"):
        read_model(path)


@pytest.mark.parametrize(("name", "reader"), [("t.npz", table), ("m.pt", read_model)])
def test_an_archive_that_fills_the_memory_is_not_opened(name, reader, tmp_path):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as found:
        found.writestr("X.npy", npy("(3000000, 100)", rest=bytes(2**20)))
        found.infolist()[0].file_size = 3 << 30
    assert "it inflates from 1 KiB to 3072 MiB" in read(path, reader)
    honest = tmp_path / "honest.npz"
    X = np.zeros((10**5, 3))
    X[0] = 1.0  # no column of one number, which is warned about
    np.savez_compressed(honest, X=X, y=np.zeros(10**5))
    assert read(honest, table) == "verified"


def test_the_generator_changes_what_it_says():
    content = document("solution")
    before = json.dumps(content)
    ways = mutations(content, np.random.default_rng(0))
    raws = [next(ways)[1] for _ in range(300)]
    assert json.dumps(content) == before
    assert len(set(raws)) > 250
    assert len(RAW) == len(set(RAW))
