"""A headless Chromium for the pages; tests that ask for one are skipped where there is none."""

import shutil
from contextlib import contextmanager

import pytest
from selenium import webdriver


@contextmanager
def chromium(width, height):
    """Yield a browser with a window of this size."""
    names = ("chromium", "chromium-browser", "google-chrome")
    binary, driver = next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with its driver is installed (chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.add_argument("--force-device-scale-factor=1")
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield found
    finally:
        found.quit()
