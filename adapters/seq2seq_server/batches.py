"""Which prompts are generated for together: those of similar length, so that little is padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["batches"]


def batches(lengths: Sequence[int], *, rows: int, tokens: int) -> list[list[int]]:
    """Return the indices of all prompts in batches, the longest prompts first.

    Args:
        lengths: Tokens of each prompt.
        rows: Most prompts of a batch.
        tokens: Most tokens of a batch when each prompt is padded to its longest; a longer prompt goes alone.
    """
    made: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if made:
            last = made[-1]
            if len(last) < rows and (len(last) + 1) * lengths[last[0]] <= tokens:
                last.append(index)
                continue
        made.append([index])
    return made
