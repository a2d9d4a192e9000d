"""HateXplain as its authors released it: posts in ``dataset.json``, the split in ``post_id_divisions.json``.

Ids, texts and gold labels are those of the study's workbook: a text is the post's tokens joined by single blanks (how
the workbook's texts were made), a label what at least two of the three annotators say, and the rows are the test
division in its order.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from hatevolution.adapters.datasets.values import gold_labels
from hatevolution.domain import Sentence
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hatevolution.configs.dataset_schema import Layout

__all__ = ["hatexplain_sentences"]

_DIVISION: Final = "test"
_NO_TARGET: Final = "None"
"""What annotators tick who see no targeted group."""

T = TypeVar("T")


class _Annotation(msgspec.Struct):
    label: str
    target: list[str] = []


class _Post(msgspec.Struct):
    annotators: list[_Annotation]
    post_tokens: list[str]


def hatexplain_sentences(posts_path: Path, divisions_path: Path, layout: Layout) -> Iterator[Sentence]:
    """Yield the posts of the test division, in its order.

    Args:
        posts_path: ``dataset.json``.
        divisions_path: ``post_id_divisions.json``.
        layout: Its labels say which classes are toxic.

    Raises:
        DataError: A file is damaged, a post is missing, has a label out of the map, or no majority.
    """
    posts = _read(posts_path, dict[str, _Post])
    divisions = _read(divisions_path, dict[str, list[str]])
    if _DIVISION not in divisions:
        raise DataError(f"{divisions_path} has no division {_DIVISION!r}; it has {', '.join(divisions) or 'none'}.")
    golds = gold_labels(layout.labels)
    for key in divisions[_DIVISION]:
        post = posts.get(key)
        if post is None:
            raise DataError(f"{posts_path} has no post {key!r}, which {divisions_path.name} puts into {_DIVISION}.")
        labels = [annotation.label for annotation in post.annotators]
        unknown = next((label for label in labels if label not in golds), None)
        if unknown is not None:
            known = ", ".join(map(repr, golds))
            raise DataError(f"{posts_path}, post {key}: the label {unknown!r} is not one of {known}.")
        label, votes = Counter(labels).most_common(1)[0] if labels else ("", 0)
        if 2 * votes <= len(labels):
            raise DataError(f"{posts_path}, post {key}: no label has a majority among {', '.join(labels) or 'none'}.")
        yield Sentence(
            id=key,
            text=" ".join(post.post_tokens),
            gold=golds[label],
            gold_raw=label,
            target=_target(post),
            meta={f"annotator {number}": label for number, label in enumerate(labels, 1)},
        )


def _target(post: _Post) -> str | None:
    """Return the groups that at least two annotators see targeted, as the source spells them."""
    counts = Counter(chain.from_iterable(dict.fromkeys(annotation.target) for annotation in post.annotators))
    return ", ".join(group for group, votes in counts.items() if votes > 1 and group != _NO_TARGET) or None


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DataError(f"{path} is not the JSON file that HateXplain released: {error}.") from None
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None
