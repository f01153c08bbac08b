import json
from collections import OrderedDict

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from covopt.cli import app
from covopt.errors import InputError
from covopt.network.state_dict import read_model, write_model

torch = pytest.importorskip("torch")


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(*arguments, code=1):
    done = run(*arguments)
    assert done.exit_code == code, (done.exit_code, done.output)
    assert "Traceback" not in done.output
    assert done.stderr.count("\n") == 1
    return done.stderr


def sequential(*widths, bias=True, dtype=torch.float32):
    torch.manual_seed(0)
    layers = []
    for a, b in zip(widths[:-1], widths[1:], strict=True):  # noqa: RUF007
        layers += [torch.nn.Linear(a, b, bias=bias, dtype=dtype), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def rebuilt(state):
    """The nn.Sequential that a state dict describes."""
    layers = []
    for name, weight in state.items():
        if not name.endswith("weight"):
            continue
        bias = state.get(name.replace("weight", "bias"))
        layers += [
            torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype),
            torch.nn.ReLU(),
        ]
    model = torch.nn.Sequential(*layers[:-1])
    model.load_state_dict(state)
    return model


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": rng.random(6), "b": rng.random(6), "name": "n", "y": rng.random(6)}).to_csv(
        path, index=False
    )
    return path


def points(table):
    return pd.read_csv(table)[["a", "b"]].to_numpy()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_torch_model_comes_back_smaller_with_the_same_outputs(tmp_path, table, bias, dtype):
    model = sequential(2, 200, 150, 1, bias=bias, dtype=dtype)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    done = run(
        "reduce", tmp_path / "model.pt", table, "--target", "y", "--out", tmp_path / "small.pt", "--json"
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["widths_before"] == [200, 150]
    assert max(found["widths_after"]) <= 6 * 7
    assert found["squared_norm_after"] <= found["squared_norm_before"] * (1 + 1e-6)
    assert found["output_change"] <= 1e-9 * found["largest_output"]
    assert "ReLU" in found["note"]
    small = rebuilt(torch.load(tmp_path / "small.pt", weights_only=True))
    assert [layer.out_features for layer in small[:-1:2]] == found["widths_after"]
    assert small[0].weight.dtype == dtype
    X = torch.tensor(points(table), dtype=dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(small(X).detach(), model(X).detach(), atol=tolerance)
    assert found["output_change_rounded"] <= tolerance


def test_safetensors_keep_prefix_metadata_and_types(tmp_path, table):
    rng = np.random.default_rng(1)
    state = {
        "net.0.weight": rng.standard_normal((90, 2)).astype("float32"),
        "net.0.bias": rng.standard_normal(90).astype("float32"),
        "net.2.weight": rng.standard_normal((3, 90)),
    }
    save_file(state, tmp_path / "model.safetensors", metadata={"made": "here"})
    out = tmp_path / "small.safetensors"
    done = run(
        "reduce", tmp_path / "model.safetensors", table, "--features", "a,b", "--out", out, "--preserve", "outputs"
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "widths         90 → " in done.stdout
    assert "‖W‖²" in done.stdout
    small = load_file(out)
    assert {k: v.dtype.name for k, v in small.items()} == {k: v.dtype.name for k, v in state.items()}
    assert read_model(out).metadata == {"made": "here"}
    X = points(table)

    def forward(s):
        hidden = np.maximum(X @ s["net.0.weight"].T.astype(float) + s["net.0.bias"], 0)
        return hidden @ s["net.2.weight"].T

    np.testing.assert_allclose(forward(small), forward(state), atol=1e-5)
    assert len(small["net.0.bias"]) <= 6 * 3 - 3


def test_a_whole_module_is_refused(tmp_path, table):
    torch.save(sequential(2, 4, 1), tmp_path / "model.pt")
    message = refused("reduce", tmp_path / "model.pt", table, "--target", "y", "--out", tmp_path / "s.pt")
    assert "whole pickled module" in message
    assert "torch.save(model.state_dict()" in message


def layers(**entries):
    return OrderedDict((k.replace("_", "."), torch.tensor(v)) for k, v in entries.items())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"epoch": 3}, "is no state dict"),
        ([1, 2], "is no state dict"),
        ({}, "holds no tensors"),
        (layers(fc1_weight=[[1.0]]), "tensor 'fc1.weight' is not one of an nn.Sequential of Linear and ReLU"),
        (layers(a_0_weight=[[1.0]], b_0_weight=[[1.0]]), r"holds several modules \('a.', 'b.'\)"),
        (torch.nn.Sequential(torch.nn.Conv1d(1, 1, 1)).state_dict(),
         r"module 0 is no Linear layer \(bias \(1,\), weight \(1, 1, 1\)\)"),
        (torch.nn.Sequential(torch.nn.BatchNorm1d(2)).state_dict(), "module 0 is no Linear layer"),
        (torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.PReLU(), torch.nn.Linear(3, 1)).state_dict(),
         r"module 1 is no Linear layer \(weight \(1,\)\)"),
        (layers(**{"0_weight": [[1.0, 1.0]], "1_weight": [[1.0]]}),
         "modules 0 and 1 are both Linear with 0 modules between"),
        (layers(**{"0_weight": [[1.0, 1.0]], "3_weight": [[1.0]]}),
         "modules 0 and 3 are both Linear with 2 modules between"),
        (layers(**{"1_weight": [[1.0, 1.0]]}), "module 0 has no parameters: the first Linear layer is module 1"),
        (layers(**{"0_weight": [[1, 1]]}), "'0.weight' is int64; floating-point weights are needed"),
        (layers(**{"0_weight": [[1.0, 1.0]], "0_bias": [1.0, 2.0]}), "module 0 is no Linear layer"),
        (layers(**{"0_weight": [[1.0 + 1j, 1.0]]}), "'0.weight' is complex64, no dense real tensor"),
        (layers(**{"0_weight": [[1.0, 1.0]], "2_weight": [[1.0, 2.0]]}),
         r"weights\[1\] takes 2 inputs but layer 0 has 1"),
        (layers(**{"0_weight": [[1.0, float("nan")]]}), "NaN or infinite"),
        (layers(**{"0_weight": [[1.0, 1.0, 1.0]]}),
         "gives 2 inputs .a, b. but .* takes 3; choose them with --features"),
    ],
)  # fmt: skip
def test_models_that_cannot_be_reduced(tmp_path, table, content, message):
    import re

    torch.save(content, tmp_path / "model.pt")
    said = refused("reduce", tmp_path / "model.pt", table, "--target", "y", "--out", tmp_path / "s.pt")
    assert re.search(message, said), said
    assert not (tmp_path / "s.pt").exists()


def test_files_that_are_no_models(tmp_path, table):
    (tmp_path / "m.safetensors").write_bytes(b"not a model")
    (tmp_path / "m.pt").write_bytes(b"")
    (tmp_path / "d.pt").mkdir()

    def said(name, out="s.pt"):
        return refused("reduce", tmp_path / name, table, "--target", "y", "--out", tmp_path / out)

    assert "cannot be read as safetensors" in said("m.safetensors", "s.safetensors")
    assert "m.pt" in said("m.pt")
    assert "is a folder" in said("d.pt")
    assert "does not exist" in said("none.pt")
    assert "unknown model type '.onnx'" in said("none.onnx")


def test_outputs_that_cannot_be_written(tmp_path, table):
    model = tmp_path / "model.pt"
    torch.save(sequential(2, 4, 1).state_dict(), model)
    before = model.read_bytes()
    assert "it is the input" in refused("reduce", model, table, "--target", "y", "--out", model)
    assert model.read_bytes() == before
    assert "it is the input" in refused("reduce", model, table, "--target", "y", "--out", table)
    out = tmp_path / "s.safetensors"
    assert "give the file the extension .pt" in refused("reduce", model, table, "--target", "y", "--out", out)
    assert "unknown model type '.txt'" in refused(
        "reduce", model, table, "--target", "y", "--out", tmp_path / "s.txt"
    )
    bad = run("reduce", model, table, "--target", "y", "--out", tmp_path / "s.pt", "--preserve", "norm")
    assert bad.exit_code == 2
    assert "'norm' is not one of 'covariances', 'outputs'" in bad.stderr
    found = read_model(model)
    with pytest.raises(InputError, match=r"the model's format is kept; use .pt or .pth"):
        write_model(out, found, found.network)
    refused("reduce", model, tmp_path / "no.csv", "--target", "y", "--out", tmp_path / "s.pt")


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_half_precision_that_overflows_is_refused(tmp_path, table, suffix):
    rng = np.random.default_rng(0)
    state = {
        "0.weight": (1e-3 * rng.random((3, 2))).astype("float16"),
        "2.weight": np.full((1, 3), 6e4, dtype="float16"),
    }
    if suffix == ".pt":
        torch.save({k: torch.from_numpy(v) for k, v in state.items()}, tmp_path / "m.pt")
    else:
        save_file(state, tmp_path / "m.safetensors")
    model = read_model(tmp_path / f"m{suffix}")
    network = model.network
    bigger = type(network)([network.weights[0], network.weights[1] * 10])
    with pytest.raises(InputError, match=r"the reduced '2.weight' overflows float16"):
        write_model(tmp_path / f"s{suffix}", model, bigger)
    assert not (tmp_path / f"s{suffix}").exists()


def test_without_torch_a_pt_file_says_what_to_install(tmp_path, table, monkeypatch):
    import sys

    torch.save(sequential(2, 4, 1).state_dict(), tmp_path / "m.pt")
    monkeypatch.setitem(sys.modules, "torch", None)
    said = refused("reduce", tmp_path / "m.pt", table, "--target", "y", "--out", tmp_path / "s.pt")
    assert "is no safetensors file and needs torch: pip install 'covopt-nn[torch]'" in said
