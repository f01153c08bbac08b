import json

import pytest
from typer.testing import CliRunner

from covopt.cli import app

run = CliRunner()


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("x,y\n1,1\n-1,1\n")
    return path


def test_the_command_brackets_saves_and_verifies(table, tmp_path):
    out = tmp_path / "deep.json"
    args = ["depth", str(table), "--target", "y", "--depth", "3", "--bias", "0", "--out", str(out), "--json"]
    done = run.invoke(app, args)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["cost"] == pytest.approx(3 * 4 ** (1 / 3), rel=1e-7)
    assert (said["depth"], said["status"], said["features"]) == (3, "certified", ["x"])
    verified = run.invoke(app, ["verify", str(out), str(table)])
    assert verified.exit_code == 0, verified.output
    assert "R_3" in verified.stdout


def test_what_is_not_closed_exits_with_three(tmp_path):
    path = tmp_path / "three.csv"
    path.write_text("x,y\n1.0,0.3\n-0.4,0.9\n0.2,-0.7\n")
    done = run.invoke(app, ["depth", str(path), "--target", "y", "--depth", "3", "--time-limit", "0.1"])
    assert done.exit_code == 3
    assert "lower bound" in done.stdout


def test_a_depth_of_one_is_an_error_in_a_sentence(table):
    done = run.invoke(app, ["depth", str(table), "--target", "y", "--depth", "1"])
    assert done.exit_code == 1
    assert "depth" in done.stderr
    assert "Traceback" not in done.output
