"""The page in a real browser: no error, the slider moves, hovering says what it should, by keyboard and by mouse."""

import io

import numpy as np
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import covopt
from covopt.explore import write_page
from covopt.explore.drawing import describe
from covopt.plotting.function import kinks_of
from covopt.plotting.pictures import short
from tests.browser import chromium

X = np.linspace(-1, 1, 7)[:, None]
Y = np.array([0.3, 0.1, -0.2, 0.0, 0.4, 0.5, 0.2])


def wait(browser, condition):
    return WebDriverWait(browser, 30, poll_frequency=0.05).until(condition)


def hovered(browser, key):
    """Return the hover text in a panel, in one line."""
    lines = f"#{key} .hovertext text.nums"
    return browser.execute_script(
        """return [...document.querySelectorAll(arguments[0])].flatMap((text) => {
               const lines = [...text.querySelectorAll('tspan.line')];
               return (lines.length ? lines : [text]).map((line) => line.textContent);
           }).join('; ')""",
        lines,
    )


def picture(browser):
    from matplotlib.image import imread

    image = imread(io.BytesIO(browser.get_screenshot_as_png()))[..., :3]
    return image @ [0.299, 0.587, 0.114]  # as a reader without colour sees it


def boxes(browser):
    return browser.execute_script(
        """return [...document.querySelectorAll('.plot')].map((plot) => {
               const r = plot.getBoundingClientRect();
               return [plot.id, r.left, r.top, r.right, r.bottom];
           })"""
    )


def structure(browser):
    """Return panels row by row, once each of them is drawn upon and none covers another."""
    grey, found = picture(browser), boxes(browser)
    rows: dict[int, list[str]] = {}
    for key, left, top, right, bottom in found:
        part = grey[int(top) : int(bottom), int(left) : int(right)]
        assert (part > 0.97).mean() > 0.15, key  # paper
        assert (part < 0.45).mean() > 0.002, key  # ink, dark in greyscale too
        rows.setdefault(round(top), []).append(key)
    for i, (_, left, top, right, bottom) in enumerate(found):
        for _, other_left, other_top, other_right, other_bottom in found[:i]:
            apart = left >= other_right or right <= other_left or top >= other_bottom or bottom <= other_top
            assert apart
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    return [rows[top] for top in sorted(rows)]


def errors(browser):
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_path_by_keyboard_by_mouse_and_on_a_small_window(tmp_path):
    path = covopt.path(X, Y, n_lams=3)
    write_page(path, tmp_path / "page.html")
    with chromium(1200, 2300) as browser:
        browser.get((tmp_path / "page.html").as_uri())
        wait(browser, lambda b: b.execute_script("return document.body.dataset.ready") == "yes")
        look_around(browser, path)


def look_around(browser, path):
    assert structure(browser) == [["progress"], ["function-0", "agreement"], ["dual", "points"]]
    neurons = describe(path[-1])

    # by keyboard: into the table, and down one neuron; every picture says what the neuron is
    row = browser.find_element(By.CSS_SELECTOR, "#neurons tr")
    assert row.get_attribute("tabindex") == "0"
    row.send_keys("")
    for neuron in (0, 1):
        wait(browser, lambda b, n=neuron: f"neuron {n + 1}" in hovered(b, "dual"))
        said = hovered(browser, "dual")
        w, v = neurons.hidden[neuron], neurons.outputs[neuron, 0]
        for part in (
            f"neuron {neuron + 1}; ", f"w: x0 {short(w[0])}; w: bias {short(w[1])}", f"v: y {short(v)}",
            f"cell {neurons.cell[neuron]}; active on", "slack",
        ):  # fmt: skip
            assert part in said
        browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)

    # words are explained under the mouse
    explained = "return [...document.querySelectorAll('abbr')].map((a) => [a.textContent, a.title])"
    words = dict(browser.execute_script(explained))
    assert "No network costs less" in words["lower bound"]
    assert words["slack"].startswith("1 − |dual function|")

    # by mouse: the point of the data that is farthest from every kink
    chosen = int(np.abs(X - kinks_of(neurons.hidden, 1.0)).min(axis=1).argmax())
    place = browser.execute_script(
        """const plot = document.getElementById('function-0'), {xaxis, yaxis} = plot._fullLayout;
           const r = plot.getBoundingClientRect(), data = plot.calcdata[1][arguments[0]];
           return [r.left + xaxis._offset + xaxis.d2p(data.x), r.top + yaxis._offset + yaxis.d2p(data.y)]""",
        chosen,
    )
    mouse = ActionChains(browser, duration=0)
    mouse.w3c_actions.pointer_action.move_to_location(*(round(p) for p in place))
    mouse.perform()
    value = path[-1].network.predict(X)[chosen]
    said = f"point {chosen + 1}; x0 {short(X[chosen, 0])}; y {short(Y[chosen])}; f {short(value)}"
    wait(browser, lambda b: said in hovered(b, "function-0"))

    # the slider
    slider, says = browser.find_element(By.ID, "step"), browser.find_element(By.ID, "says")
    rows = "return document.querySelectorAll('#neurons tr').length"
    curve = "return Array.from(document.getElementById('function-0').calcdata[0], (p) => p.y)"
    heights = []
    for step in (2, 1, 0):
        said = f"({step + 1} of 3); {path[step].status.code}"
        wait(browser, lambda _, s=said: s in says.text)
        assert slider.get_attribute("aria-valuetext") == says.text
        assert f"λ = {path[step].lam:g}" in browser.find_element(By.ID, "facts").text
        assert browser.execute_script(rows) == len(path[step].network)
        heights.append(np.ptp(wait(browser, lambda b: b.execute_script(curve))))
        slider.send_keys(Keys.ARROW_LEFT)
    assert heights[0] > heights[2] == 0  # the largest λ has no neuron

    browser.set_window_size(500, 2600)  # as narrow as a headless window gets
    wait(browser, lambda b: max(box[3] for box in boxes(b)) <= 500)
    keys = [box[0] for box in boxes(browser)]
    lefts = {round(box[1]) for box in boxes(browser)}
    assert keys == ["progress", "function-0", "agreement", "dual", "points"]
    assert len(lefts) == 1  # one column
    fits = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert wait(browser, lambda b: b.execute_script(fits))
    assert errors(browser) == []
