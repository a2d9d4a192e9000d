"""All tables of the study from a store of its size, beside one plain read and beside pandas with scikit-learn.

21 models x 15,600 sentences. Prints, for one run (the best of ``--repeat`` rounds, all three in each round):

- plain: one SQL read of the same columns into Python rows (sqlite3);
- tables: store -> every table, rankings and correlations included, intervals not;
- notebooks: as released, pandas and scikit-learn's ``classification_report`` per model, set and year.

Run: ``python benchmarks/analysis_tables.py [--factor 1] [--repeat 5]``
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from analysis_data import build
from scipy import stats
from sklearn.metrics import classification_report

from hatevolution.analysis import report

if TYPE_CHECKING:
    from collections.abc import Callable

PREDICTIONS = "SELECT model, dataset, sentence, status, raw_text, scores FROM predictions"
SENTENCES = "SELECT dataset, position, sentence, gold, year, pair, role, type, functionality, target FROM sentences"


def plain(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(PREDICTIONS).fetchall()
    connection.execute(SENTENCES).fetchall()
    connection.close()


def tables(path: Path) -> None:
    report.make(path)


def notebooks(path: Path) -> None:
    """The released notebooks' way: one frame per model and set, labels by a map, one report per group."""
    connection = sqlite3.connect(path)
    rows = pd.read_sql_query(PREDICTIONS, connection).merge(pd.read_sql_query(SENTENCES, connection))
    connection.close()
    rows["label"] = rows["raw_text"].map({"hate": "toxic", "nothate": "respectful"}).fillna(rows["raw_text"])
    scored = rows["scores"].str.extract(r'"TOXICITY": ([\d.e-]+)')[0].astype(float)
    rows.loc[scored.notna(), "label"] = (scored > 0.5).map({True: "toxic", False: "respectful"})
    valid = rows[rows["label"].isin(["toxic", "respectful"])]
    found = {}
    for key, part in valid.groupby(["model", "dataset"]):
        dataset = key[1]
        if dataset == "singapore":
            for year, own in part.groupby("year"):
                found[*key, year] = classification_report(own["gold"], own["label"], output_dict=True)
        elif dataset == "neobench":
            for by in (["year"], ["type"], []):
                for group, own in part.groupby(by) if by else [(None, part)]:
                    sides = own.pivot_table(index="pair", columns="role", values="label", aggfunc="first").dropna()
                    found[*key, str(group)] = (sides["original"] != sides["neologism"]).mean()
            own = part[part["role"] == "original"]
            found[*key, "f1"] = classification_report(own["gold"], own["label"], output_dict=True)
        else:
            found[key] = classification_report(part["gold"], part["label"], output_dict=True)
    sets = [dataset for dataset in valid["dataset"].unique() if dataset not in ("singapore", "neobench")]
    models = list(valid["model"].unique())
    for one in sets:
        for two in sets:
            stats.spearmanr(*([found[model, name]["macro avg"]["f1-score"] for model in models] for name in (one, two)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--factor", type=int, default=1)
    options.add_argument("--repeat", type=int, default=5)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    ways: dict[str, Callable[[Path], None]] = {"plain": plain, "tables": tables, "notebooks": notebooks}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        count = build(path, factor=chosen.factor)
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(chosen.repeat):
            for name, way in ways.items():
                start = time.perf_counter()
                way(path)
                best[name] = min(best[name], time.perf_counter() - start)
    print(f"{count} predictions; seconds: " + ", ".join(f"{name} {value:.3f}" for name, value in best.items()))
    print(f"tables / plain read: {best['tables'] / best['plain']:.2f} (at most 1.5)")
    print(f"notebooks / tables: {best['notebooks'] / best['tables']:.1f} (at least 8)")


if __name__ == "__main__":
    main()
