"""The page: whole, self-contained, accessible; and nothing that stands in a store does anything on it."""

from __future__ import annotations

import base64
import csv
import datetime as dt
import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest
from report_maker import HOSTILE, MEGABYTE, Element, attributes, hostile_store, parse, small_store
from sklearn.metrics import f1_score
from store_maker import Made, MadeSentence, Maker, generate

from hatevolution.analysis.report_page import Content, Options, check, gather, render, write
from hatevolution.errors import ConfigError

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("page") / "s.db", 6, size=30)


@pytest.fixture(scope="module")
def content(made: Made) -> Content:
    return gather(made.path, Options(resamples=20), NOW)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Content:
    path = small_store(tmp_path_factory.mktemp("small") / "s.db")
    return gather(path, Options(resamples=20), NOW)


@pytest.fixture(scope="module")
def small_page(small: Content) -> str:
    return render(small)


@pytest.fixture(scope="module")
def page(content: Content) -> Element:
    return parse(render(content))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = hostile_store(tmp_path_factory.mktemp("hostile") / "<script>alert(1)<x>.db")
    return render(gather(path, Options(resamples=20, samples=50), NOW))


def table(page: Element, id: str) -> dict[str, dict[str, str]]:
    """Rows of a table by name and heading."""
    found = page.one("table", id=id)
    headings = [th.text for th in found.one("thead").find("tr")[-1].find("th")]
    rows = {}
    for row in found.one("tbody").find("tr"):
        cells = [cell.text for cell in row.find("td")]
        rows[row.one("th").text] = dict(zip(headings[-len(cells) :], cells, strict=True))
    return rows


def inert(root: Element) -> None:
    """Fail where a page could run or load anything but its own script."""
    names = Counter(element.tag for element in root)
    assert names["script"] == names["style"] == 1
    assert not names.keys() & {"img", "iframe", "object", "embed", "base", "form", "image", "foreignObject", "audio"}
    assert names["link"] == 1
    for element, name, value in attributes(root):
        assert not name.startswith("on"), (element.tag, name)
        assert name not in ("style", "src", "srcset", "action", "formaction", "ping", "srcdoc")
        if name in ("href", "xlink:href"):
            assert value == "data:," if element.tag == "link" else value.startswith("#")


def test_the_page_loads_and_runs_nothing_else(page: Element) -> None:
    inert(page)
    policy = page.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"] or ""
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for name in ("style", "script"):
        digest = hashlib.sha256(page.one(name).text.encode()).digest()
        assert rules[f"{name}-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert "unsafe" not in policy
    assert "http" not in page.one("style").text


def test_every_reference_finds_its_target(page: Element) -> None:
    ids = [value for _, name, value in attributes(page) if name == "id"]
    assert len(ids) == len(set(ids))
    known = set(ids)
    for element, name, value in attributes(page):
        if name == "href" and element.tag != "link":
            assert value[1:] in known
        if name in ("aria-labelledby", "aria-describedby"):
            assert set(value.split()) <= known
        for target in re.findall(r"url\(#([^)]*)\)", value or ""):
            assert target in known


def test_landmarks_headings_and_names(page: Element) -> None:
    html = page.one("html")
    assert html.attributes["lang"] == "en"
    for landmark in ("main", "nav", "header", "footer", "h1"):
        page.one(landmark)
    assert page.find("a")[0].attributes["href"] == "#" + (page.one("main").attributes["id"] or "")
    assert [a.attributes["href"] for a in page.one("nav").find("a")] == [
        f"#{section.attributes['id']}" for section in page.find("section")
    ]
    for section in page.find("section"):
        label = section.attributes["aria-labelledby"] or ""
        assert section.one("h2", id=label).text
    for drawing in page.find("svg", class_="plot"):
        assert drawing.one("title").text
        assert drawing.one("desc").text
    for element in page:
        if element.attributes.get("tabindex") == "0":
            assert element.attributes["role"] == "region"
            assert element.attributes.get("aria-label") or element.attributes["aria-labelledby"]
    levels = [int(element.tag[1]) for element in page if re.fullmatch(r"h\d", element.tag)]
    assert levels[0] == 1


def test_every_table_of_the_study_is_there_with_all_its_numbers(page: Element, content: Content) -> None:
    for found in content.report.tables:
        expected = found.heading
        shown = [t for t in page.find("table") if t.one("caption").text == expected]
        assert len(shown) == 1, expected
        body = shown[0].one("tbody").find("tr")
        assert len(body) == len(found.rows)
        for row, drawn in zip(found.rows, body, strict=True):
            assert drawn.one("th").attributes["scope"] == "row"
            assert drawn.one("th").text == row.name
            for cell, td in zip(row.cells, drawn.find("td"), strict=True):
                text = td.children[0] if td.children else ""
                assert (text if isinstance(text, str) else text.text) == cell.text
                assert (cell.value is None) == ("data-v" not in td.attributes)
                if cell.value is not None:
                    assert float(td.attributes["data-v"] or "") == cell.value
                    assert (cell.coverage in td.text) or not cell.incomplete
        for th in shown[0].one("thead").find("th"):
            assert th.attributes["scope"] in ("col", "colgroup")


def test_coverage_and_counts_of_broken_answers(page: Element, made: Made) -> None:
    rows = table(page, "table-coverage")
    timed = next(name for name in rows["gappy-exact"] if name.startswith("Timed Set"))
    outcomes = made.outcome("gappy-exact", "timed")
    done = sum(outcome != "missing" for outcome in outcomes)
    assert rows["gappy-exact"][timed] == f"{100 * done / len(outcomes):.2f} %{done}/{len(outcomes)}"
    assert rows["good-exact"][timed] == "100 %"
    assert rows["never-asked"][timed] == "not asked"
    kinds = table(page, "table-kinds")
    broken = sum(made.outcome(model, dataset).count("invalid") for model in made.models for dataset in made.datasets)
    assert sum(int(row["Answers"].replace(",", "")) for row in kinds.values()) == broken
    facts = {div.one("dt").text: div.one("dd").text for div in page.one("section", id="summary").find("div")}
    assert facts["Broken answers"].startswith(f"{broken:,}")
    refused = sum(made.outcome(model, dataset).count("refused") for model in made.models for dataset in made.datasets)
    assert facts["Refused"] == f"{refused:,}"


def test_samples_are_closed_seeded_and_grow(made: Made, content: Content, page: Element) -> None:
    box = page.one("details", id="samples-box")
    assert "open" not in box.attributes
    assert "Content warning" in box.one("summary").text
    assert len(box.find("article")) == len(content.broken.samples)
    per = Counter((row.model, row.kind) for row in content.broken.samples)
    assert max(per.values()) == 3
    texts = Counter((row.model, row.kind, row.raw_text) for row in content.broken.samples if row.raw_text is not None)
    assert max(texts.values()) == 1

    def keys(samples: int, seed: int = 1) -> list[tuple[str, str, str]]:
        found = gather(made.path, Options(resamples=0, samples=samples, seed=seed), NOW).broken.samples
        return [(row.model, row.dataset, row.sentence) for row in found]

    few, many, other = keys(samples=3), keys(samples=6), keys(samples=3, seed=2)
    assert few == [(row.model, row.dataset, row.sentence) for row in content.broken.samples]
    assert set(few) < set(many)
    assert few != other
    assert keys(samples=0) == []


def test_the_same_store_gives_the_same_page(small: Content, small_page: str) -> None:
    later = render(gather(small.report.study.source, Options(resamples=20), NOW + dt.timedelta(hours=1)))
    assert later != small_page
    assert later.replace("04:04", "03:04") == small_page


def test_another_seed_gives_other_intervals(small: Content) -> None:
    other = gather(small.report.study.source, Options(resamples=20, seed=2), NOW)
    assert not other.uncertainty.scores.equals(small.uncertainty.scores)
    assert other.report.scores.equals(small.report.scores)


def test_no_resamples_no_intervals(small: Content) -> None:
    none = gather(small.report.study.source, Options(resamples=0), NOW)
    assert none.uncertainty.scores["low"].null_count() == none.report.scores.height
    page = parse(render(none))
    assert not page.find("table", id="table-ranks")
    assert not page.find("table", id="table-trend-timed")
    assert page.find("table", id="table-correlations")


def test_the_changes_per_year_have_digits_enough(small: Content, small_page: str) -> None:
    trends = small.uncertainty.trends
    assert trends is not None
    rows = table(parse(small_page), "table-trend-timed")
    shown = " ".join(map(str, rows.values()))
    bounds = trends.filter(trends["metric"] == "macro_f1").drop_nulls("bootstrap_low")
    assert bounds.height and all(f"{low:+.4f} to " in shown for low in bounds["bootstrap_low"] if abs(low) > 0.0001)


def test_ranks_have_their_intervals(small: Content, small_page: str) -> None:
    rows = table(parse(small_page), "table-ranks")
    assert set(rows) == {"good", "fair", "poor"}
    for name, cells in rows.items():
        for text in cells.values():
            found = re.fullmatch(r"(\d)(\d) to (\d)", text)
            assert found, (name, text)
            assert 1 <= int(found[2]) <= int(found[3]) <= 3


def test_choices_of_models_sets_and_policies(made: Made) -> None:
    options = Options(
        resamples=0,
        samples=1,
        models=("good-exact", "gappy-exact"),
        datasets=("plain",),
        parser="lenient",
        invalid="raw",
    )
    page = parse(render(gather(made.path, options, NOW)))
    assert list(table(page, "table-coverage")) == ["good-exact", "gappy-exact"]
    assert not page.find("section", id="experiment-1")
    assert not page.find("section", id="experiment-2")
    assert "lenient" in page.one("section", id="provenance").text
    with pytest.raises(ConfigError, match="good-exact"):
        gather(made.path, Options(models=("good-exakt",)), NOW)


def test_an_empty_store_has_a_page(tmp_path: Path) -> None:
    page = parse(render(gather(Maker(tmp_path / "empty.db").done().path, Options(), NOW)))
    inert(page)
    assert "No answer broke the instruction." in page.one("section", id="broken").text


def test_a_store_without_a_broken_answer(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset("d", [MadeSentence(id="1", gold="toxic"), MadeSentence(id="2")])
    maker.model("m")
    maker.answers("m", "d", ["toxic", "respectful"])
    page = parse(render(gather(maker.done().path, Options(), NOW)))
    assert not page.find("details", id="samples-box")
    assert table(page, "table-static-d")["m"]["Macro F1n=2"] == "1.0000"


# -- hostile -------------------------------------------------------------------------------------------------------


def test_a_hostile_store_makes_an_inert_page(hostile: str) -> None:
    root = parse(hostile)
    inert(root)
    hostile.encode()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", hostile)
    body = root.one("body")
    script = root.one("script")
    assert "hacked" not in script.text
    assert "window.hacked" in body.text


def test_hostile_answers_are_complete(hostile: str) -> None:
    root = parse(hostile)
    shown = {dd.text for article in root.find("article") for dd in article.find("dd")}
    for text in HOSTILE:
        if text == MEGABYTE:
            cut = [found for found in shown if found.startswith("A" * 1000)]
            assert cut
            assert all(re.fullmatch(r"A+… cut; [\d,]+ more characters stand in the store\.", found) for found in cut)
            lengths = {len(found.partition("…")[0]) for found in cut}
            assert lengths == {1000, 1500}
        elif text and text.isprintable() and text == text.strip():
            assert text in shown
    assert "a\\x00b\\x08c\\x7f" in shown
    assert "\\ud800 half, \\udfff other half" in shown
    assert "␣␣blanks around␣␣" in shown
    assert "line one\\nline two\\r\\nline three\\u2028end" in shown
    assert "(empty)" in shown


def test_a_hostile_page_stays_small(hostile: str) -> None:
    assert len(hostile) < 3 * 2**20
    assert max(map(len, re.findall(r">[^<]*<", hostile.partition("</style>")[2].partition("<script>")[0]))) < 300_000


# -- the file ------------------------------------------------------------------------------------------------------


def test_only_a_page_is_overwritten(small: Content, small_page: str, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    size = write(small, out)
    assert out.stat().st_size == size
    assert out.read_text(encoding="utf-8") == small_page
    write(small, out)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    store, notes = Path(small.report.study.source), tmp_path / "notes.txt"
    before = store.read_bytes()
    notes.write_text("mine", encoding="utf-8")
    for victim in (store, notes):
        with pytest.raises(ConfigError, match="is no HTML page"):
            write(small, victim)
    assert store.read_bytes() == before
    assert notes.read_text(encoding="utf-8") == "mine"
    empty = tmp_path / "empty.html"
    empty.touch()
    check(empty)
    with pytest.raises(ConfigError, match="there is no folder"):
        check(tmp_path / "nowhere" / "report.html")


def test_an_older_page_outlives_a_failure(small: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    out.write_text("<!DOCTYPE html>old", encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(ConfigError, match="No space left"):
        write(small, out)
    assert out.read_text(encoding="utf-8") == "<!DOCTYPE html>old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# -- beside the study ----------------------------------------------------------------------------------------------


def test_the_published_figures_stand_beside_ones_own(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset(
        "hatecheck",
        [MadeSentence(id=str(n), gold="toxic" if n % 2 else "respectful") for n in range(8)],
        title="HateCheck",
    )
    maker.model("flan", title="FLAN-Alpaca-large")
    maker.model("mine")
    for name in ("flan", "mine"):
        maker.answers(name, "hatecheck", ["respectful", "toxic"] * 3 + ["respectful", "respectful"])
    section = parse(render(gather(maker.done().path, Options(resamples=0), NOW))).one("section", id="published")
    rows = section.one("table", id="table-published-a7").one("tbody").find("tr")
    assert {row.one("th").text for row in rows} == {"FLAN-Alpaca-large"}
    cells = {row.find("td")[0].text: [td.text for td in row.find("td")[1:]] for row in rows}
    with (Path(__file__).parents[2] / "analysis" / "published" / "tableA7_hatecheck.csv").open(
        encoding="utf-8"
    ) as file:
        theirs = next(row for row in csv.DictReader(file) if "FLAN-Alpaca-large" in row.values())
    macro = next(float(value) for key, value in theirs.items() if "f1" in key.casefold())
    own = f1_score(
        [n % 2 for n in range(8)], [0, 1, 0, 1, 0, 1, 0, 0], average="macro"
    )  # fmt: skip
    assert cells["Macro F1"] == [f"{macro:.4f}", f"{own:.4f}", f"{own - macro:+.4f}", "8/8"]
    assert "Not in the study: mine." in section.text
    row = next(row for row in section.find("tr") if "HateCheck / Experiment 1" in row.text)
    texts = [td.text for td in row.find("td")]
    assert texts[0] == "-0.2662"
    assert "0.6647" in texts
    assert "0.7098" in texts


def test_a_store_of_other_models_is_not_compared(small_page: str) -> None:
    page = parse(small_page)
    assert not page.find("section", id="published")
    assert not [link for link in page.find("a") if link.attributes.get("href") == "#published"]


def test_correlations_without_any_number_are_left_out(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    for name in ("hatecheck", "hatexplain"):
        maker.dataset(name, [MadeSentence(id="1", gold="toxic"), MadeSentence(id="2", gold="respectful")])
    maker.model("mine")
    for name in ("hatecheck", "hatexplain"):
        maker.answers("mine", name, ["toxic", "respectful"])
    content = gather(maker.done().path, Options(resamples=0), NOW)
    assert {"A7", "A9", "A11", "A13"} <= {table.key for table in content.report.tables}
    page = parse(render(content))
    shown = {str(found.attributes.get("id")) for found in page.find("table")}
    assert {"table-A7", "table-A9"} <= shown and not {"table-A11", "table-A13"} & shown
    maker = Maker(tmp_path / "ranked.db")
    for name in ("hatecheck", "hatexplain"):
        maker.dataset(name, [MadeSentence(id=str(n), gold=("toxic", "respectful")[n % 2]) for n in range(8)])
    for number in range(4):
        maker.model(f"m{number}")
        for name in ("hatecheck", "hatexplain"):
            maker.answers(f"m{number}", name, ["respectful", "toxic"] * number + ["toxic", "respectful"] * (4 - number))
    ranked = parse(render(gather(maker.done().path, Options(resamples=0), NOW)))
    assert ranked.find("table", id="table-A11")
