"""Batches of a project in a folder, submitted and collected in this process without pauses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from run_files import KEY, Project

from hatevolution.runner.batch.cancel import cancel
from hatevolution.runner.batch.collect import CollectReport, collect_files, collect_open
from hatevolution.runner.batch.look import Seen, look
from hatevolution.runner.batch.pace import Pace
from hatevolution.runner.batch.submit import SubmitOptions, SubmitResult, submit
from hatevolution.runner.plan import make_plan
from hatevolution.store.batches import BatchRow, batches

if TYPE_CHECKING:
    from pathlib import Path

FAST = Pace(attempts=4, first_s=0.0, grace_s=0.0)
ENVIRON = {"OPENAI_API_KEY": KEY}


class Desk(Project):
    """A project whose models are asked in batches."""

    def chat(self, url: str, name: str = "gpt", **fields: Any) -> None:
        """Add a chat model with a price of which batches pay the half."""
        price = {"input_usd_per_million_tokens": 2.5, "output_usd_per_million_tokens": 10.0, "batch_discount": 0.5}
        self.model(
            name,
            adapter="openai-chat",
            model="gpt-4o",
            prompt="paper-chat",
            price=price,
            decoding={"max_tokens": 10},
            endpoint={"base_urls": [url], "max_concurrency": 4, "timeout_s": 5, "max_attempts": 2},
            **fields,
        )

    def moderation(self, url: str, name: str = "mod") -> None:
        """Add a moderation model; free."""
        self.model(
            name,
            adapter="openai-moderation",
            model="omni-moderation-2024-09-26",
            endpoint={"base_urls": [url], "max_concurrency": 4},
        )

    def smol(self, name: str = "smol") -> None:
        """Add a chat model of vLLM."""
        self.model(
            name,
            adapter="vllm-chat",
            model="org/smol",
            prompt="paper-chat",
            decoding={"max_tokens": 5, "temperature": 0.0},
            endpoint={"base_urls": ["http://127.0.0.1:9/v1"]},
        )

    def submit(self, **options: Any) -> SubmitResult:
        options = {"environ": ENVIRON, "pace": FAST, **options}
        plan = make_plan(
            str(self.experiment), store=str(self.store), data=None, models=options.pop("models", None), datasets=None
        )
        return submit(plan, SubmitOptions(**options))

    def collect(self, *files: Path) -> CollectReport:
        if files:
            return collect_files(self.store, files, environ=ENVIRON)
        return collect_open(self.store, environ=ENVIRON, pace=FAST)

    def collect_all(self) -> CollectReport:
        """Look until nothing is under way; return the last look, with all that was collected."""
        collected = []
        while True:
            report = self.collect()
            collected += report.collected
            if not report.waiting:
                report.collected = collected
                return report

    def look(self) -> Seen:
        return look(self.store, environ=ENVIRON, pace=FAST)

    def cancel(self, name: str, *, forget: bool = False) -> BatchRow:
        return cancel(self.store, name, forget=forget, environ=ENVIRON, pace=FAST)

    def batches(self) -> list[BatchRow]:
        with closing(sqlite3.connect(self.store)) as connection:
            return batches(connection)

    def outcomes(self) -> dict[str, int]:
        return dict(self.rows("SELECT coalesce(outcome, 'open'), count(*) FROM batch_lines GROUP BY 1 ORDER BY 1"))

    def statuses(self) -> dict[str, int]:
        return dict(self.rows("SELECT status, count(*) FROM predictions GROUP BY 1 ORDER BY 1"))
