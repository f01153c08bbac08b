"""What a page says and draws, read from its figures; the browser is in test_in_a_browser.py."""

import base64
import gzip
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import covopt
from covopt.datasets import make_smooth
from covopt.errors import MissingPackageError
from covopt.explore import page_html, write_page
from covopt.explore.drawing import describe
from covopt.plotting.function import kinks_of
from covopt.plotting.pictures import short
from tests.cases import drawn
from tests.commands import run


def packed_in(html: str) -> dict:
    """Return the data of a page as it is written."""
    found = re.search(r'<script type="application/octet-stream" id="content">(.*?)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def content_of(html: str) -> dict:
    """Return the data of a page, in place of each number of the pool what it stands for."""
    content = packed_in(html)
    pool = content.pop("pool")

    def whole(value):
        if isinstance(value, list):
            return [whole(part) for part in value]
        if not isinstance(value, dict):
            return value
        if "pool" not in value:
            return {key: whole(part) for key, part in value.items()}
        columns = [pool[place] for place in value["pool"]]
        if isinstance(columns[0], str):
            return columns[0]
        return ["<br>".join(lines) for lines in zip(*columns, strict=True)]

    return whole(content)


def panels_of(html: str) -> dict:
    return {panel["key"]: panel for panel in content_of(html)["panels"]}


def facts_of(html: str) -> list[dict]:
    return [dict(each) for each in content_of(html)["facts"]]


def words_of(html: str) -> str:
    return re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL)


PAGES: dict = {}


def kept(found):
    """Return the page of a fixture, written once."""
    if id(found) not in PAGES:
        PAGES[id(found)] = page_html(found)
    return PAGES[id(found)]


@pytest.fixture(scope="module")
def line():
    return covopt.min_norm([[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 0.0, 1.0], tol=1e-9)


@pytest.fixture(scope="module")
def plane():
    return covopt.min_norm(*make_smooth(12), tol=1e-9)


@pytest.fixture(scope="module")
def path():
    X, y = make_smooth(12)
    return covopt.path(X[:, :1], y, n_lams=3)


def test_pictures_that_there_is_no_time_for_are_left_out(plane, tmp_path):
    page = tmp_path / "page.html"
    left_out = write_page(plane, page, time_limit_s=1e-6)
    assert left_out == ["the rounds", "the function", "the dual function", "the neurons' points"]
    said = page.read_text()
    assert panels_of(said) == {}
    assert content_of(said)["tables"][-1]["rows"]
    assert "There was no time for the rounds and the function and" in words_of(said)


def test_neurons_come_with_cost_cell_side_and_slack(line):
    found = describe(line)
    assert found.cost.sum() == pytest.approx(line.cost)
    assert (np.diff(found.cost) <= 0).all()
    assert (found.slack < 1e-6).all()
    for w, side, text in zip(found.hidden, found.side, found.texts(), strict=True):
        reach = line.data.lifted @ w
        sure = np.abs(reach) > 1e-6
        assert (np.sign(reach[sure]) == side[sure]).all()
        assert f"active on {(side > 0).sum()} of 4 points" in text
    shared = [(a == b).all() for a in found.side for b in found.side]
    assert shared == [a == b for a in found.cell for b in found.cell]


def test_one_input_shows_the_function_its_kinks_and_the_circle(line):
    panels = panels_of(kept(line))
    assert list(panels) == ["function-0", "agreement", "dual", "points", "progress"]
    assert '<div class="control" hidden>' in kept(line)  # there is no step to choose
    curve, data, *kinks, _ = panels["function-0"]["figures"][-1]["data"]
    assert curve["mode"] == "lines"
    assert [tag.split("<br>")[0] for tag in data["customdata"]] == [f"point {i}" for i in (1, 2, 3, 4)]
    named = [neuron for trace in kinks for neuron in trace["customdata"]]
    at = kinks_of(describe(line).hidden, 1.0)
    assert set(named) == set(np.flatnonzero((at > -0.32) & (at < 4.32)))
    assert {trace["marker"]["symbol"][0] for trace in kinks} <= {"triangle-up", "triangle-down"}
    drawn = panels["dual"]["figures"][-1]["data"]
    names = [trace["name"] for trace in drawn if "name" in trace]
    assert names[:2] == ["active to the left", "active to the right"]
    assert names[2].startswith("tight set (")
    dots = [trace for trace in drawn if trace.get("name", "").startswith("neurons")]
    shown = sum(len(trace["customdata"]) for trace in dots)
    assert shown == len(line.network)  # those that bend outside stand at the edge


def test_two_inputs_show_the_plane(plane):
    panels = panels_of(kept(plane))
    surface, *rest = panels["function-0"]["figures"][-1]["data"]
    assert surface["type"] == "contour"
    found = describe(plane)
    for trace in rest:  # spurs point to the active side
        if trace.get("mode") == "lines":
            spur = decoded(trace["x"])[2], decoded(trace["y"])[2]
            assert np.array([*spur, 1.0]) @ found.hidden[trace["customdata"][0]] > 0
    lines = [trace for trace in rest if trace["mode"] == "lines"]
    assert 0 < len(lines) <= 16
    assert {trace["line"]["dash"] for trace in lines} <= {"solid", "dash"}  # told apart without colour
    assert panels["progress"]["title"].startswith(f"the bracket: {len(plane.history)} rounds, gap ")
    upper, lower, gap = panels["progress"]["figures"][0]["data"]
    assert not np.any(decoded(lower["y"]) > decoded(upper["y"]) * (1 + 1e-6))
    assert len(decoded(gap["y"])) >= len(plane.history)


@pytest.fixture(scope="module")
def chosen():
    X, y = make_smooth(12)
    return covopt.fit(X[:, :1], y, lam="cv", standardise=True)


@pytest.mark.parametrize("page", ["line", "plane", "path", "chosen"])
def test_every_fact_and_every_column_is_explained(page, request):
    html = kept(request.getfixturevalue(page))
    content = content_of(html)
    named = {name for facts in content["facts"] for name, _ in facts}
    named |= {name for table in content["tables"] for name in table["columns"]}
    words = re.findall("<dt>(.+?)</dt><dd>.+?</dd>", html)
    assert {name for name in named if not name.startswith(tuple(words))} == set()
    assert page != "chosen" or {"standardised", "rows left out"} <= named


def decoded(values):
    """Return an array as pages write it."""
    return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])


def test_a_path_has_a_figure_for_each_point(path):
    content = content_of(kept(path))
    assert len(content["says"]) == len(content["tables"]) == 3
    assert content["says"][0].startswith("λ = ")
    assert "0 neurons" in content["says"][0]
    for panel in content["panels"]:
        assert len(panel["figures"]) == (1 if panel["key"] == "progress" else 3)
    progress = content["panels"][0]
    assert content["cursor"] == [s.lam for s in path]
    facts = facts_of(kept(path))  # they follow the slider
    assert [each["neurons"] for each in facts] == ["0: constant", *(str(len(s.network)) for s in path[1:])]
    marks = progress["figures"][-1]["data"]
    fits = next(trace for trace in marks if trace["name"] == "R² on the points fitted")
    for each, solution, value in zip(facts, path, decoded(fits["y"]), strict=True):
        said = solution.network.predict(solution.data.X)
        missed, spread = solution.data.Y[:, 0] - said, solution.data.Y - solution.data.Y.mean()
        assert value == pytest.approx(1 - (missed**2).sum() / (spread**2).sum(), abs=1e-6)
        assert each["R²"].startswith(f"{value:.4f}")
    assert "R² on rows left out" not in str(progress)
    seen = covopt.path(path[0].data.X, path[0].data.Y, n_lams=2, folds=2)
    held = [trace["name"] for trace in panels_of(page_html(seen))["progress"]["figures"][0]["data"]]
    assert "R² on rows left out" in held
    shown = [trace for trace in marks if trace["name"] == "neurons"]
    assert list(decoded(shown[0]["y"])) == [len(s.network) for s in path]
    ranges = {
        str(panel["layout"]["yaxis"]["range"])
        for panel in next(p for p in content["panels"] if p["key"] == "function-0")["figures"]
    }
    assert len(ranges) == 1  # the picture stands still while the slider moves


def test_what_is_not_shown_is_said(line, path):
    assert facts_of(page_html(path[0]))[0]["neurons"] == "0: constant"
    # marks of the page in names stay names
    named = replace(line.data, feature_names=("<!--DATA--></script><b>x",), target_names=("a & b",))
    html = page_html(replace(line, data=named))
    assert "a &amp; b from &lt;!--DATA--&gt;" in html
    assert list(panels_of(html)) == ["function-0", "agreement", "dual", "points", "progress"]
    many = replace(path[-1], network=type(line.network)(np.ones((2050, 2)), np.ones((2050, 1)), 1.0))
    # each step speaks of its own network
    told = [each["neurons"] for each in facts_of(page_html([path[-1], many]))]
    assert told == [str(len(path[-1].network)), "2050, of which the 2000 costliest are described and drawn"]
    open_ended = replace(line, status=covopt.Status.from_code("gap"), history=[])
    said = words_of(page_html(open_ended))
    assert "The tight set is not shown: it needs a certified solution." in said


@pytest.mark.parametrize(("steps", "n"), [(2, 60), pytest.param(30, 2000, marks=pytest.mark.slow)])
def test_a_path_is_written_below_four_megabytes(path, steps, n):
    rng, X = drawn(0, (n, 2))
    data = replace(path[-1].data, X=X, Y=np.maximum(X[:, :1], 0.3), feature_names=("x0", "x1"))
    each = replace(path[-1], data=data, dual=np.zeros(n), status=covopt.Status.from_code("gap"))
    layers = [(rng.standard_normal((20, 3)), rng.standard_normal((20, 1))) for _ in range(steps)]
    networks = [type(each.network)(*pair, 1.0) for pair in layers]
    html = page_html([replace(each, lam=0.9**k, network=network) for k, network in enumerate(networks)])
    assert len(html) < 4e6
    content = content_of(html)
    assert len(content["tables"]) == steps
    shown = {panel["key"]: panel["figures"][1]["data"] for panel in content["panels"][1:]}
    said = networks[1].predict(X)  # each step has its own numbers, in the picture and under the mouse
    assert np.abs(decoded(shown["agreement"][1]["y"]) - said).max() < 1e-4 * np.ptp(said)
    for marks in (shown["agreement"][1], shown["function-0"][-1]):
        last = [text.split("<br>")[-1] for text in marks["customdata"]]
        assert last == [f"f {short(value)}" for value in said]
    # what steps share stands there once
    assert packed_in(html)["pool"].count([f"point {i + 1}" for i in range(n)]) == 1


def test_pages_are_saved_beside_the_solution_and_need_no_connection(line, tmp_path, monkeypatch):
    html = kept(line)
    head = html[: html.index("<script>")] + html[html.index('id="content">') :]
    assert not re.findall(r'(?:src|href)="(?!data:,)[^"]*"', head) and len(html) < 4e6
    line.save(tmp_path / "solution.json")
    done, out = run("explore", tmp_path / "solution.json"), tmp_path / "solution.html"
    assert (done.exit_code, done.stdout) == (0, f"left out   nothing\nsaved      {out}\n")
    assert out.read_text().endswith("</html>\n")
    X, y = make_smooth(6)  # tiny targets are not drawn as zero
    surface = panels_of(page_html(covopt.min_norm(X, 1e-200 * y)))["function-0"]["figures"][-1]["data"][0]
    assert np.ptp(decoded(surface["z"])) > 1e-200
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(
        MissingPackageError, match=r"needs plotly: pip install '\.\[explore\]' in the checkout"
    ):
        page_html(line)
