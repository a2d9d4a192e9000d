"""The report as a reader meets it: opened from the disk in a real browser."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from chromium import chromium, console, programs, requests, screenshot
from report_maker import hostile_store
from store_maker import generate

from hatevolution.analysis.report_page import Options, gather, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs()
    folder = tmp_path_factory.mktemp("page")
    made = generate(folder / "s.db", 7, size=60)
    write(gather(made.path, Options(resamples=50)), folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def driver(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def opened(driver: Chrome, page: Path) -> Chrome:
    # Going to the address where one is may return before the page is there once more.
    driver.get("about:blank")
    requests(driver)
    console(driver)
    driver.get(page.as_uri())
    return driver


def css(driver: Chrome | WebElement, selector: str) -> list[WebElement]:
    from selenium.webdriver.common.by import By

    return driver.find_elements(By.CSS_SELECTOR, selector)


def column(driver: Chrome, table: str, index: int) -> list[str]:
    found: list[str] = driver.execute_script(
        "return [...document.getElementById(arguments[0]).tBodies[0].rows].filter((row) => !row.hidden)"
        ".map((row) => row.cells[arguments[1]].firstChild.textContent)",
        table,
        index,
    )
    return found


def test_it_opens_in_silence(opened: Chrome, page: Path) -> None:
    assert console(opened) == []
    assert set(requests(opened)) == {page.as_uri(), "data:,"} or requests(opened) == []
    assert opened.title.startswith("Hatevolution report")
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_sorting_by_numbers_and_back(opened: Chrome) -> None:
    table = "table-3"
    first = column(opened, table, 0)
    last = len(css(opened, f"#{table} tbody tr:first-child > *")) - 1
    buttons = css(opened, f"#{table} thead button")
    assert len(buttons) == last + 1

    def values() -> list[float]:
        return [float(text) for text in column(opened, table, last) if text != "–"]

    buttons[-1].click()
    header = css(opened, f"#{table} thead th[aria-sort]")
    assert [th.get_attribute("aria-sort") for th in header] == ["descending"]
    assert values() == sorted(values(), reverse=True)
    assert column(opened, table, last)[-2:] == ["–", "–"]
    buttons[-1].click()
    assert values() == sorted(values())
    assert column(opened, table, last)[-2:] == ["–", "–"], "what has no value stays last"
    assert "ascending" in (css(opened, "[role=status]")[0].get_attribute("textContent") or "")
    buttons[-1].click()
    assert column(opened, table, 0) == first
    assert not css(opened, f"#{table} thead th[aria-sort]")


def test_sorting_by_name_with_the_keyboard(opened: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    button = css(opened, "#table-coverage thead button")[0]
    opened.execute_script("arguments[0].focus()", button)
    outline = opened.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focus can be seen"
    button.send_keys(Keys.ENTER)
    names = column(opened, "table-coverage", 0)
    assert names == sorted(names)
    button.send_keys(Keys.SPACE)
    assert column(opened, "table-coverage", 0) == sorted(names, reverse=True)


def test_rows_are_filtered(opened: Chrome) -> None:
    everything = column(opened, "table-4", 0)
    box = css(opened, "#table-4 caption input")[0]
    box.send_keys("GAPPY")
    assert column(opened, "table-4", 0) == [name for name in everything if "gappy" in name]
    assert css(opened, "#table-4 caption output")[0].text == f"2 of {len(everything)} rows"
    box.clear()
    box.send_keys("x", "\b")
    assert column(opened, "table-4", 0) == everything


def test_samples_are_behind_a_warning_and_are_filtered(opened: Chrome) -> None:
    from selenium.webdriver.support.ui import Select

    samples = css(opened, ".sample")
    assert samples
    assert not any(sample.is_displayed() for sample in samples)
    summary = css(opened, "#samples-box > summary")[0]
    assert "Content warning" in summary.text
    summary.click()
    assert all(sample.is_displayed() for sample in samples)
    for name in ("model", "kind", "dataset"):
        select = Select(css(opened, f"select[data-filter={name}]")[0])
        option = select.options[1]
        value, text = option.get_attribute("value"), option.text
        select.select_by_index(1)
        shown = [sample for sample in samples if sample.is_displayed()]
        assert {sample.get_attribute(f"data-{name}") for sample in shown} == {value}
        assert text == f"{value} ({len(shown)})"
        select.select_by_index(0)
    box = css(opened, "input[data-filter=text]")[0]
    box.send_keys("toxic.")
    shown = [sample for sample in samples if sample.is_displayed()]
    assert 0 < len(shown) < len(samples)
    assert all("toxic." in sample.text.lower() for sample in shown)


def test_the_first_stop_of_the_keyboard_skips_the_navigation(opened: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    css(opened, "body")[0].send_keys(Keys.TAB)
    link = opened.switch_to.active_element
    assert link.text == "Skip to the content"
    assert link.rect["x"] >= 0
    link.send_keys(Keys.ENTER)
    assert opened.switch_to.active_element.get_attribute("id") == "content"


def test_names_for_screen_readers(opened: Chrome) -> None:
    opened.execute_cdp_cmd("Accessibility.enable", {})
    nodes: list[dict[str, Any]] = opened.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = (
        "button",
        "link",
        "table",
        "region",
        "navigation",
        "main",
        "img",
        "image",
        "searchbox",
        "combobox",
        "figure",
    )
    kinds: dict[str, int] = {}
    for node in nodes:
        role = node.get("role", {}).get("value")
        if node.get("ignored") or role not in named:
            continue
        if role == "main":
            continue
        assert node.get("name", {}).get("value"), f"a {role} without a name"
        kinds[role] = kinds.get(role, 0) + 1
    assert kinds["table"] > 15
    assert kinds["button"] > 50
    assert kinds.get("img", 0) + kinds.get("image", 0) > 20


@pytest.mark.parametrize("width", [360, 768, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_either_scheme_at_every_width(page: Path, tmp_path: Path, dark: bool, width: int) -> None:
    from PIL import Image

    with chromium(tmp_path / "profile", dark=dark, width=width) as driver:
        driver.get(page.as_uri())
        assert console(driver) == []
        # Nothing is wider than the window but what scrolls by itself.
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        screenshot(driver, tmp_path / "page.png", height=900)
        shown = Image.open(io.BytesIO((tmp_path / "page.png").read_bytes())).convert("L")
        brightness = shown.getpixel((2, 450))
        assert isinstance(brightness, int)
        assert brightness < 40 if dark else brightness > 220
        inks: dict[str, str] = driver.execute_script(
            "const found = {}; for (const text of document.querySelectorAll('svg.plot text'))"
            " found[getComputedStyle(text).fill] = text.textContent; return found;"
        )
        assert ("rgb(230, 237, 243)" if dark else "rgb(31, 35, 40)") in inks


def test_it_prints_every_table(opened: Chrome) -> None:
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not css(opened, "nav")[0].is_displayed()
        assert not css(opened, "caption .bar")[0].is_displayed()
        assert all(table.is_displayed() for table in css(opened, ".tables > .table table"))
        printed = opened.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"]
        assert len(printed) > 50_000
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_it_works_without_javascript(page: Path, tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as driver:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        driver.get(page.as_uri())
        assert not css(driver, "thead button")
        assert not css(driver, "input")
        assert css(driver, "#table-3")[0].is_displayed()
        css(driver, "#samples-box > summary")[0].click()
        assert css(driver, ".sample")[0].is_displayed()


def test_hostile_text_does_nothing(tmp_path: Path) -> None:
    programs()
    out = tmp_path / "report.html"
    write(gather(hostile_store(tmp_path / "s.db"), Options(resamples=20, samples=50)), out)
    with chromium(tmp_path / "profile") as driver:
        driver.get(out.as_uri())
        assert console(driver) == []
        driver.execute_script("for (const found of document.querySelectorAll('details')) found.open = true;")
        assert driver.execute_script("return window.hacked") is None
        assert {url for url in requests(driver) if url != "data:,"} == {out.as_uri()}
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 1280
        assert "<script>window.hacked = 1</script>" in css(driver, "#samples")[0].text
        for button in css(driver, "#table-kinds thead button"):
            button.click()
        assert driver.execute_script("return window.hacked") is None


def test_what_slipped_through_would_not_run(page: Path, tmp_path: Path) -> None:
    """The page's policy stops a script and a picture that the page itself did not keep out."""
    slip = "<script>window.hacked = 1</script><img src=https://example.org/x.png onerror='window.hacked = 2'>"
    text = page.read_text(encoding="utf-8").replace("<main", f"{slip}<main", 1)
    (tmp_path / "slip.html").write_text(text, encoding="utf-8")
    with chromium(tmp_path / "profile") as driver:
        driver.get((tmp_path / "slip.html").as_uri())
        assert driver.execute_script("return window.hacked") is None
        assert any("Content Security Policy" in line for line in console(driver))
        assert driver.execute_script("return document.querySelector('main + img, img').naturalWidth") == 0
