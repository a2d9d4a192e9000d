"""Pages of `hatevolution report` made for tests: a store with hostile text everywhere, and a parser of pages."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from store_maker import MadePrediction, MadeSentence, Maker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEGABYTE = "A" * 2**20

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script></style></title></pre></svg><script>window.hacked = 2</script>",
    '"><img src=x onerror="window.hacked = 3">',
    "' onmouseover='window.hacked = 4' autofocus tabindex=1 x='",
    "<svg/onload=window.hacked=5><a href=javascript:window.hacked=6>x</a>",
    "javascript:window.hacked=7",
    "https://example.org/tracker.png",
    "<link rel=stylesheet href=https://example.org/x.css><base href=https://example.org/>",
    "<style>*{display:none}</style><!-- <![CDATA[ ]]> -->",
    "{{ 7 * 7 }} {% include 'x' %} ${window.hacked=8}",
    "&lt;b&gt; &#x3C;script&#x3E; &amp;",
    "\x1b[31mred\x1b]8;;https://example.org\x07link\x1b]8;;\x07\x9b2J",
    "a\0b\x08c\x7f",
    "\ud800 half, \udfff other half",
    "\u202egnp.exe\u2066 turned \u200b\ufeff\u00ad",
    "=cmd|'/c calc'!A1",
    "[bold red]markup[/bold red]",
    "zalgo " + "e" + "\u0301\u0323" * 200,
    "line one\nline two\r\nline three\u2028end",
    "  blanks around  ",
    "",
    "$x^2$ \\unknown{}",
    MEGABYTE,
)
"""Answers and sentences; none of them is a label, and none may do anything."""

NAME = '"><script>window.hacked = 9</script><b id=x \u202e\x1b[31m $x$'
"""A model's name, a title, a group: whatever stands in tables, plots and attributes."""


def hostile_store(path: Path) -> Path:
    """A store of two models and three sets, in which every text is hostile; every kind of set is there."""
    maker = Maker(path)
    golds = ("toxic", "respectful")
    maker.dataset(
        f"timed {NAME}",
        [
            MadeSentence(id=f"{NAME} {n}", text=text, gold=golds[n % 2], year=2017 + n % 4)
            for n, text in enumerate(HOSTILE * 2)
        ],
        title=f"Timed {NAME}",
        years=(2017, 2020),
    )
    maker.dataset(
        f"paired {NAME}",
        [
            MadeSentence(
                id=f"{n} {role}", text=text, gold=golds[n % 2], pair=f"{NAME} {n}", role=role, type=NAME, year=2020
            )
            for n, text in enumerate(HOSTILE)
            for role in ("original", "neologism")
        ],
        title=f"Paired {NAME}",
    )
    maker.dataset(
        f"cases {NAME}",
        [
            MadeSentence(id=f"c{n}", text=text, gold=golds[n % 2], functionality=f"{NAME} {n % 2}", target=text[:300])
            for n, text in enumerate(HOSTILE)
        ],
        title=f"Cases {NAME}",
    )
    for number in range(4):
        name = f"{number} {NAME}"
        maker.model(name, title=f"Model {name}", model=NAME, note=MEGABYTE[:5000])
        for dataset, sentences in maker.made.datasets.items():
            maker.predictions(
                MadePrediction(
                    model=name,
                    dataset=dataset,
                    sentence=sentence.id,
                    outcome="invalid" if number == 0 or index % 5 == number else golds[(index + number // 2) % 2],
                    raw_text=HOSTILE[index % len(HOSTILE)]
                    if number == 0 or index % 5 == number
                    else golds[(index + number // 2) % 2],
                )
                for index, sentence in enumerate(sentences)
            )
    made = maker.done()
    _runs(made.path)
    return made.path


def small_store(path: Path) -> Path:
    """A store of three models and a set of every kind, quickly read and drawn."""
    maker = Maker(path)
    golds = ("toxic", "respectful", "respectful")
    maker.dataset(
        "timed", [MadeSentence(id=f"t{n}", gold=golds[n % 3], year=2017 + n // 12) for n in range(36)], title="Timed"
    )
    maker.dataset(
        "paired",
        [
            MadeSentence(id=f"{n} {role}", gold=golds[n % 3], pair=f"p{n}", role=role, type="lexical", year=2020)
            for n in range(12)
            for role in ("original", "neologism")
        ],
    )
    maker.dataset("plain", [MadeSentence(id=f"s{n}", gold=golds[n % 3]) for n in range(24)])
    for number, model in enumerate(("good", "fair", "poor")):
        maker.model(model)
        for dataset, sentences in maker.made.datasets.items():
            maker.answers(
                model,
                dataset,
                [
                    "invalid" if index % 11 == 0 else golds[(index + (index % (4 - number) == 0)) % 3]
                    for index in range(len(sentences))
                ],
            )
    return maker.done().path


def _runs(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO runs (run, started_at, who, command, configuration, versions, git_revision) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                NAME,
                NAME,
                NAME,
                json.dumps(["hatevolution", *HOSTILE[:6]]),
                json.dumps({"x": list(HOSTILE)}),
                NAME,
                NAME,
            ),
        )
    connection.close()


@dataclass
class Element:
    """One element of a page."""

    tag: str
    attributes: dict[str, str | None]
    parent: Element | None
    children: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """All elements below this one, in the order of the page."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def find(self, tag: str, **attributes: str) -> list[Element]:
        """Elements below this one by tag and attributes; ``class_`` is one of its classes."""
        wanted = attributes.pop("class_", None)
        return [
            element
            for element in self
            if element.tag == tag
            and (wanted is None or wanted in (element.attributes.get("class") or "").split())
            and all(element.attributes.get(name) == value for name, value in attributes.items())
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        found = self.find(tag, **attributes)
        assert len(found) == 1, f"{len(found)} elements {tag} {attributes}"
        return found[0]


VOID = {"meta", "link", "br", "img", "input", "base", "hr"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {}, None)
        self.at = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag} {attrs}"
        element = Element(tag, dict(attrs), self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert self._inside("svg") or tag in ("svg", *VOID), f"<{tag}/> outside a drawing"
        self.at.children.append(Element(tag, dict(attrs), self.at))

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:80]}")

    def _inside(self, tag: str) -> bool:
        element: Element | None = self.at
        while element is not None:
            if element.tag == tag:
                return True
            element = element.parent
        return False


def parse(page: str) -> Element:
    """Read a page; fails where tags do not match, attributes are doubled, or there is a comment."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.at is reader.root, f"<{reader.at.tag}> is never closed"
    return reader.root


def attributes(root: Element) -> Iterator[tuple[Element, str, Any]]:
    """Every attribute of a page."""
    for element in root:
        for name, value in element.attributes.items():
            yield element, name, value
