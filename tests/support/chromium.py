"""Headless Chromium for tests, driven through its DevTools protocol (selenium, chromedriver)."""

from __future__ import annotations

import base64
import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
"""Nothing of the browser's own reaches for the network, so that whatever does is the page's doing."""


def programs() -> tuple[str, str]:
    """Paths of Chromium and of its driver; skips where they are missing, fails where they have to be (in CI)."""
    browser = next((found for name in _NAMES if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if browser and driver:
        return browser, driver
    reason = "no Chromium with its driver on PATH (Debian: apt-get install chromium chromium-driver)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def chromium(folder: Path, *, dark: bool = False, width: int = 1280, height: int = 900) -> Iterator[Chrome]:
    """Start a browser with a window of a size and a colour scheme.

    Args:
        folder: Empty; becomes the browser's profile.
        dark: Whether it prefers the dark scheme.
        width: In CSS pixels; below 600 it is a phone.
        height: In CSS pixels.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser, program = programs()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in (*_ARGUMENTS, f"--user-data-dir={folder}", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program))
    try:
        features = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        media = {"features": [{"name": name, "value": value} for name, value in features.items()]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        # The new tab's own page has asked for its own files by now.
        driver.get("about:blank")
        requests(driver)
        console(driver)
        yield driver
    finally:
        driver.quit()


def console(driver: Chrome) -> list[str]:
    """What the console said since the last call: errors, warnings, refusals of the page's policy."""
    return [f"{entry['level']} {entry['message']}" for entry in driver.get_log("browser")]


def requests(driver: Chrome) -> list[str]:
    """Addresses that the browser asked for since the last call, refused requests included."""
    found = []
    for entry in driver.get_log("performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
        elif message["method"] in ("Network.webSocketCreated", "Network.webTransportCreated"):
            found.append(message["params"]["url"])
    return found


def screenshot(driver: Chrome, path: Path, *, top: int = 0, height: int | None = None) -> None:
    """Write a picture of the whole page, or of a part of it, as PNG."""
    size = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": top, "width": size["width"], "height": height or size["height"] - top, "scale": 1}
    taken = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip}
    )
    path.write_bytes(base64.b64decode(taken["data"]))
