"""The models of a store as the audit reads them: by which policy, and with which instruction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from hatevolution.analysis.choose import chosen
from hatevolution.analysis.parsers import PAPER, RAW_TEXT, SCORES_JSON, Policy, policy, policy_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

__all__ = ["BROKEN", "Reader", "outcomes", "readers"]

BROKEN = ("invalid", "ambiguous")
"""Outcomes of answers that do not follow the instruction."""


class Reader(NamedTuple):
    """How one model's answers are read."""

    model: str
    position: int
    policy: Policy
    class_names: Mapping[str, Sequence[str]]
    instruction: str | None
    """First line of what its prompt says before the sentence; None where it is sent the bare sentence."""

    @property
    def classifier(self) -> bool:
        """Whether it gives scores or class names."""
        return self.policy.reads == "classifier"

    @property
    def reads_text_alone(self) -> bool:
        """Whether equal texts always come to equal outcomes, whatever scores stand beside them."""
        return SCORES_JSON not in self.policy.outcome(self.class_names).meta.root_names()

    @property
    def rule(self) -> tuple[str, str]:
        """What tells two ways of reading apart."""
        return self.policy.identity, repr(self.class_names)


def readers(connection: sqlite3.Connection, parser: str, models: Sequence[str] | None = None) -> dict[str, Reader]:
    """Return the models that were asked for, in the store's order, each with its policy.

    Raises:
        ConfigError: There is no such model or policy.
    """
    asked = None if parser == PAPER else policy(parser)
    rows = connection.execute(
        "SELECT model, position, configuration, specification FROM models ORDER BY position, model"
    ).fetchall()
    wanted = chosen(models, [row[0] for row in rows], "model")
    found = {}
    for name, position, configuration, specification in rows:
        if name not in wanted:
            continue
        settings = json.loads(configuration)
        rule = policy_of(name, settings, asked)
        prompt = json.loads(specification).get("prompt") or {}
        instruction = str(prompt.get("before") or "").strip().split("\n")[0].strip() or None
        found[name] = Reader(name, position, rule, settings.get("labels") or {}, instruction)
    return found


def outcomes(
    known: Mapping[str, Reader], models: Sequence[str], texts: Sequence[str], scores: Sequence[str]
) -> list[str]:
    """Return what some answers come to, each by its model's policy; each rule runs once over all of its answers."""
    frame = pl.DataFrame(
        {"model": models, RAW_TEXT: texts, SCORES_JSON: scores},
        schema={"model": pl.String, RAW_TEXT: pl.String, SCORES_JSON: pl.String},
    ).with_row_index("place")
    rules: dict[tuple[str, str], list[Reader]] = {}
    for name in frame["model"].unique():
        rules.setdefault(known[name].rule, []).append(known[name])
    parts = []
    for members in rules.values():
        own = frame if len(rules) == 1 else frame.filter(pl.col("model").is_in([reader.model for reader in members]))
        judged = members[0].policy.outcome(members[0].class_names).alias("outcome")
        parts.append(own.rechunk().select("place", judged))
    if not parts:
        return []
    return [str(outcome) for outcome in pl.concat(parts).sort("place")["outcome"].cast(pl.String)]
