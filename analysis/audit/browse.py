"""What Datasette shows beside a store: titles, what each column means, facets, and queries that are ready to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hatevolution.analysis.audit.rules import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BROKEN_DATABASE", "BROKEN_QUERIES", "STORE_DATABASE", "STORE_QUERIES", "metadata"]

STORE_DATABASE: Final = "store"
BROKEN_DATABASE: Final = "broken"

_MODEL: Final = "Name of the model; stands for one specification"
_KEY: Final = {
    "model": _MODEL,
    "dataset": "Name of the data set",
    "sentence": "The set's own stable id of the sentence",
}
_SENTENCE: Final = {
    "text": "The sentence, exactly as in the source",
    "gold": "Gold label: toxic or respectful",
    "year": "Year of the sentence, where the set has it",
    "pair": "Id of the minimal pair, in sets made of pairs",
    "role": "original, or neologism",
    "type": "Linguistic type of the neologism",
    "functionality": "HateCheck's functionality",
    "target": "Targeted group, as the source spells it",
}
_ANSWER: Final = {
    "status": "answered, refused (by the provider) or rejected (could not be sent)",
    "raw_text": "Exactly what came; empty where the endpoint gives scores only",
    "scores": "Every score that the endpoint gave, as JSON; thresholds belong to the analysis",
    "finish_reason": "The endpoint's own word for why it stopped",
    "truncated": "1 where the input was cut to fit the model",
    "attempts": "Requests sent for it, the successful one included",
    "run": "The run that brought it",
}
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "answers": {
        **_KEY,
        **_SENTENCE,
        **_ANSWER,
        "received_at": "When the response came (UTC)",
        "latency_s": "Seconds from sending to the response; empty: it came in a batch, or from elsewhere",
        "cost_usd": "Price of the whole response in US dollars; empty: free",
        "served_model": "The model id that the response itself names",
        "body": "The response, exactly as it came; one response may answer many sentences",
    },
    "predictions": {**_KEY, **_ANSWER, "prompt_sha256": "Digest of what was sent for this sentence"},
    "sentences": {
        "dataset": _KEY["dataset"],
        "sentence": _KEY["sentence"],
        **_SENTENCE,
        "position": "Place in the source, from 0",
        "gold_raw": "Label as in the source",
    },
    "failures": {
        **_KEY,
        "kind": "Why the attempt failed, by status and code",
        "http_status": "Status of the response, where there was one",
        "message": "What the endpoint said",
        "maybe_billed": "1 where it may have been charged for",
    },
    "models": {
        "model": _MODEL,
        "fingerprint": "Digest of the specification",
        "specification": "All that its answers depend on, as JSON",
        "configuration": "The whole configuration, as of the last run",
    },
    "datasets": {
        "dataset": "Name of the data set",
        "files": "Files as they were read, with their digests",
        "content_sha256": "Digest over ids and texts of all sentences",
    },
    "runs": {
        "run": "Id: time and a random part",
        "outcome": "complete, incomplete, interrupted or failed; empty: running now, or died",
        "versions": "Versions of this program, Python and packages",
    },
    "verdicts": {**_KEY, "judgement": "What a person says the answer says", "who": "Who judged"},
}
_DESCRIPTIONS: Final = {
    "answers": "Everything about each answer in one row.",
    "predictions": "One row per model and sentence; never changed once written.",
    "responses": "One row per response of an endpoint, with its body.",
    "sentences": "The sentences of all data sets.",
    "failures": "Every failed attempt. A failure is never an answer.",
    "intents": "What is about to be sent; what a crash left here may have been billed.",
    "batches": "What was handed to a provider's batch interface, and how far it came.",
    "batch_lines": "Which sentences are in which batch, and what came of each.",
    "models": "What each model's name stands for.",
    "datasets": "Where each data set came from.",
    "runs": "Who started what, when, and how it ended.",
    "samples": "Seeded samples of answers that people judge.",
    "verdicts": "What people judged; the newest verdict of a person counts.",
    "counting_verdicts": "The newest verdict of each person about each answer.",
}
_FACETS: Final[Mapping[str, list[str]]] = {
    "answers": ["model", "dataset", "status"],
    "predictions": ["model", "dataset", "status", "finish_reason"],
    "sentences": ["dataset", "gold", "year", "role", "type"],
    "failures": ["model", "kind", "http_status"],
    "verdicts": ["who", "judgement", "model"],
}
_HIDDEN: Final = ("_sqlite_migrations", "sampled")


def _query(title: str, description: str, sql: str) -> dict[str, str]:
    return {
        "title": title,
        "description": description,
        "sql": "\n".join(line.strip() for line in sql.splitlines()).strip(),
    }


STORE_QUERIES: Final = {
    "coverage": _query(
        "What is done",
        "Sentences answered, refused, rejected and not yet asked, per model and data set.",
        """
        SELECT p.model, p.dataset, d.sentences, sum(p.status = 'answered') AS answered,
        sum(p.status = 'refused') AS refused, sum(p.status = 'rejected') AS rejected,
        d.sentences - count(*) AS pending
        FROM predictions AS p JOIN datasets AS d ON d.dataset = p.dataset
        GROUP BY p.model, p.dataset ORDER BY p.model, d.position
        """,
    ),
    "commonest_answers": _query(
        "What models say most often",
        "The most frequent answers, letter by letter; of one model where its name is given.",
        """
        SELECT model, raw_text, count(*) AS answers FROM predictions
        WHERE status = 'answered' AND (:model = '' OR model = :model)
        GROUP BY model, raw_text ORDER BY answers DESC, model, raw_text LIMIT 200
        """,
    ),
    "one_sentence": _query(
        "One sentence, all models",
        "What every model said about a sentence; data set and id as in the table sentences.",
        """
        SELECT model, status, raw_text, scores, gold, text FROM answers
        WHERE dataset = :dataset AND sentence = :sentence ORDER BY model
        """,
    ),
    "pairs": _query(
        "Pairs side by side",
        "Original and neologism with a model's answers to both; all models where none is named.",
        """
        SELECT p.model, a.dataset, a.pair, a.text AS original, p.raw_text AS answer_to_original,
        b.text AS neologism, q.raw_text AS answer_to_neologism, a.gold, b.type, b.year
        FROM sentences AS a
        JOIN sentences AS b ON b.dataset = a.dataset AND b.pair = a.pair AND b.role = 'neologism'
        JOIN predictions AS p ON p.dataset = a.dataset AND p.sentence = a.sentence
        JOIN predictions AS q ON q.model = p.model AND q.dataset = b.dataset AND q.sentence = b.sentence
        WHERE a.role = 'original' AND (:model = '' OR p.model = :model)
        LIMIT 1000
        """,
    ),
    "search": _query(
        "Search",
        "Answers and sentences that hold a text; ASCII letters match in both cases.",
        """
        SELECT model, dataset, sentence, text, raw_text FROM answers
        WHERE :text <> '' AND (instr(lower(CAST(raw_text AS TEXT)), lower(:text)) > 0
        OR instr(lower(CAST(text AS TEXT)), lower(:text)) > 0) LIMIT 200
        """,
    ),
    "longest_answers": _query(
        "Longest answers",
        "The beginnings of the longest answers.",
        """
        SELECT model, dataset, sentence, length(CAST(raw_text AS BLOB)) AS bytes, substr(raw_text, 1, 500) AS beginning
        FROM predictions WHERE raw_text IS NOT NULL ORDER BY bytes DESC LIMIT 100
        """,
    ),
    "failures_by_kind": _query(
        "Failures",
        "Failed attempts by model and kind, with the last message of each.",
        """
        SELECT model, kind, http_status, count(*) AS attempts, max(failed_at) AS last, message
        FROM failures GROUP BY model, kind, http_status ORDER BY attempts DESC
        """,
    ),
    "spent": _query(
        "What was spent",
        "Requests, tokens and price per model.",
        """
        SELECT p.model, count(DISTINCT r.response) AS requests, sum(r.prompt_tokens) AS prompt_tokens,
        sum(r.completion_tokens) AS completion_tokens, sum(r.cost_usd) AS usd
        FROM predictions AS p JOIN responses AS r ON r.response = p.response
        WHERE p.response_index = 0 GROUP BY p.model ORDER BY usd DESC
        """,
    ),
}

_VERDICT_QUERIES: Final = {
    "judged": _query(
        "What people judged",
        "The newest verdict of each person, beside the answer.",
        """
        SELECT v.who, v.judgement, p.raw_text, s.text, v.model, v.dataset, v.sentence, v.judged_at
        FROM counting_verdicts AS v
        JOIN predictions AS p ON p.model = v.model AND p.dataset = v.dataset AND p.sentence = v.sentence
        JOIN sentences AS s ON s.dataset = v.dataset AND s.sentence = v.sentence
        ORDER BY v.judged_at DESC LIMIT 1000
        """,
    ),
}

BROKEN_QUERIES: Final = {
    "kinds_per_model": _query(
        "Kinds per model",
        "Broken answers by their first kind, per model.",
        """
        SELECT model, kind, count(*) AS answers FROM answers GROUP BY model, kind ORDER BY model, answers DESC
        """,
    ),
    "kinds_per_year": _query(
        "Kinds per year",
        "Broken answers by year of the sentence; of one model where its name is given.",
        """
        SELECT year, kind, count(*) AS answers FROM answers
        WHERE year IS NOT NULL AND (:model = '' OR model = :model) GROUP BY year, kind ORDER BY year, answers DESC
        """,
    ),
    "commonest": _query(
        "Commonest broken answers",
        "Letter by letter, over all models.",
        """
        SELECT raw_text, kind, count(*) AS answers, count(DISTINCT model) AS models FROM answers
        GROUP BY raw_text, kind ORDER BY answers DESC LIMIT 200
        """,
    ),
    "neologisms": _query(
        "Broken for the neologism alone",
        "Pairs of which a model answered the original and not the neologism are those whose original is not here.",
        """
        SELECT n.model, n.dataset, n.pair, n.kind, n.text, n.raw_text FROM answers AS n
        WHERE n.role = 'neologism' AND NOT EXISTS (SELECT 1 FROM answers AS o
        WHERE o.model = n.model AND o.dataset = n.dataset AND o.pair = n.pair AND o.role = 'original') LIMIT 1000
        """,
    ),
}


def metadata(title: str, parser: str, objects: set[str]) -> dict[str, Any]:
    """Return Datasette's metadata.

    Args:
        title: Of the store.
        parser: The parse policy by which the table of broken answers was made.
        objects: Names of the tables and views that the store has (older ones lack some).
    """
    tables: dict[str, dict[str, Any]] = {}
    for name in objects:
        tables[name] = {"description": _DESCRIPTIONS.get(name, ""), "columns": dict(_COLUMNS.get(name, {}))}
        if name in _FACETS:
            tables[name]["facets"] = list(_FACETS[name])
        if name in _HIDDEN:
            tables[name]["hidden"] = True
    queries = {**STORE_QUERIES, **(_VERDICT_QUERIES if "counting_verdicts" in objects else {})}
    kinds = "; ".join(f"{kind.name}: {kind.description}" for kind in KINDS)
    return {
        "title": title,
        "description": "Raw answers of language models about hate speech. They hold abusive text. Read-only.",
        "databases": {
            STORE_DATABASE: {
                "description": "The store itself, as it is now: a run that is writing is seen as it goes on.",
                "tables": tables,
                "queries": queries,
            },
            BROKEN_DATABASE: {
                "description": f"Answers that the parse policy {parser} can't read, as of the start of this server.",
                "tables": {
                    "answers": {
                        "description": f"Kinds, the first of several counts: {kinds}.",
                        "facets": ["model", "dataset", "kind", "outcome", "gold"],
                        "columns": {
                            **_KEY,
                            **_SENTENCE,
                            **_ANSWER,
                            "outcome": "invalid or ambiguous",
                            "kind": "First kind of the answer",
                            "kinds": "All its kinds, in order of precedence",
                            "policy": "Parse policy and version",
                        },
                    }
                },
                "queries": BROKEN_QUERIES,
            },
        },
    }
