"""covopt reduce: state dicts and safetensors come back smaller; what is no such model is in ``messages.txt``."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

from covopt.errors import InputError
from covopt.network.state_dict import read_model, write_model
from tests.commands import run, said

ASKED = ("t.csv", "--target", "y", "--out")


def sequential(*widths, bias=True, dtype=torch.float32):
    torch.manual_seed(0)
    layers = []
    for a, b in pairwise(widths):
        layers += [torch.nn.Linear(a, b, bias=bias, dtype=dtype), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


@pytest.fixture(autouse=True)
def points(tmp_path, monkeypatch):
    """A folder with a table and a model; the inputs of the table."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(6), "b": rng.random(6), "name": "n", "y": rng.random(6)})
    frame.to_csv("t.csv", index=False)
    torch.save(sequential(2, 4, 1).state_dict(), "model.pt")
    return frame[["a", "b"]].to_numpy()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_torch_model_comes_back_smaller_with_the_same_outputs(points, bias, dtype):
    model = sequential(2, 100, 70, 1, bias=bias, dtype=dtype)
    torch.save(model.state_dict(), "model.pt")
    found = said("reduce", "model.pt", *ASKED, "small.pt")
    assert found["widths_before"] == [100, 70] and max(found["widths_after"]) <= 6 * 7
    assert found["squared_norm_after"] <= found["squared_norm_before"] * (1 + 1e-6)
    assert found["output_change"] <= 1e-9 * found["largest_output"] and "ReLU" in found["note"]
    state = torch.load("small.pt", weights_only=True)
    small = sequential(2, *found["widths_after"], 1, bias=bias, dtype=dtype)
    small.load_state_dict(state)
    X, tolerance = torch.tensor(points, dtype=dtype), 1e-5 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(small(X).detach(), model(X).detach(), atol=tolerance)
    assert found["output_change_rounded"] <= tolerance


def test_safetensors_keep_prefix_metadata_and_types(points):
    rng = np.random.default_rng(1)
    state = {
        "net.0.weight": rng.standard_normal((90, 2)).astype("float32"),
        "net.0.bias": rng.standard_normal(90).astype("float32"), "net.2.weight": rng.standard_normal((3, 90)),
    }  # fmt: skip
    save_file(state, "model.safetensors", metadata={"made": "here"})
    done = run("reduce", "model.safetensors", "t.csv", "--features", "a,b", "--out", "s.safetensors",
               "--preserve", "outputs")  # fmt: skip
    assert done.exit_code == 0 and "squared norm after" in done.stdout
    assert "widths before           90\n" in done.stdout
    small = load_file("s.safetensors")
    assert {k: v.dtype.name for k, v in small.items()} == {k: v.dtype.name for k, v in state.items()}
    assert read_model("s.safetensors").metadata == {"made": "here"} and len(small["net.0.bias"]) <= 6 * 3 - 3

    # in another format
    other = run("reduce", "model.safetensors", "t.csv", "--features", "a,b", "--out", "s.pt")
    assert other.exit_code == 0 and set(torch.load("s.pt", weights_only=True)) == set(state)

    def forward(s):
        hidden = np.maximum(points @ s["net.0.weight"].T.astype(float) + s["net.0.bias"], 0)
        return hidden @ s["net.2.weight"].T

    np.testing.assert_allclose(forward(small), forward(state), atol=1e-5)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_half_precision_that_overflows_is_refused(tmp_path, suffix):
    first = (1e-3 * np.random.default_rng(0).random((3, 2))).astype("float16")
    state = {"0.weight": first, "2.weight": np.full((1, 3), 6e4, dtype="float16")}
    if suffix == "pt":
        torch.save({k: torch.from_numpy(v) for k, v in state.items()}, "m.pt")
    else:
        save_file(state, "m.safetensors")
    model = read_model(f"m.{suffix}")
    bigger = type(model.network)([model.network.weights[0], model.network.weights[1] * 10])
    with pytest.raises(InputError, match=r"the reduced '2.weight' overflows float16"):
        write_model(f"s.{suffix}", model, bigger)
    assert not (tmp_path / f"s.{suffix}").exists()
