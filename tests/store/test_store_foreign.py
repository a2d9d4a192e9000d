"""Answers that others made: matched by id or text, failures left out, nothing overwritten, twice the same as once."""

from __future__ import annotations

import hashlib
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from exchange_maker import PROMPT, Shard, content, rows, some_sentences
from foreign_maker import (
    inspect_eval,
    inspect_json,
    inspect_sample,
    lm_eval_choice,
    lm_eval_sample,
    write_lines,
)
from run_maker import dataset_record, model, run_record

from hatevolution.configs.fingerprint import specification
from hatevolution.domain import Role, Sentence
from hatevolution.errors import DataError, StoreError
from hatevolution.store.exchange.foreign import Foreign
from hatevolution.store.exchange.foreign_import import Origin, Target, import_answers
from hatevolution.store.exchange.foreign_inspect import read_inspect
from hatevolution.store.exchange.foreign_lm_eval import read_lm_eval
from hatevolution.store.exchange.foreign_report import ForeignReport, Left
from hatevolution.store.exchange.foreign_tables import Columns, read_csv, read_jsonl
from hatevolution.store.exchange.verifying import verify_store
from hatevolution.store.opened import ModelRecord

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TWENTY = some_sentences(20)


def target(sentences: list[Sentence] | None = TWENTY, *, name: str = "theirs", **more: Any) -> Target:
    """A model, and a data set that comes from files (or, without sentences, from the store)."""
    config = model(name)
    return Target(
        model=ModelRecord(name, name, specification(config, PROMPT), {"name": name, "parser": "paper-exact"}),
        prompt=PROMPT,
        dataset="set",
        record=None if sentences is None else dataset_record("set", licence="MIT", source="https://example.org"),
        sentences=None if sentences is None else lambda: sentences,
        **more,
    )


def bring(
    path: Path, records: Iterable[Foreign], store: Path, to: Target | None = None, **options: Any
) -> ForeignReport:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    begun = run_record("replaced")
    return import_answers(records, Origin(path, "test", sha256, options), to or target(), store, begun=begun)


def said(store: Path) -> dict[str, Any]:
    return dict(rows(store, "SELECT sentence, raw_text FROM predictions WHERE model = 'theirs' ORDER BY rowid"))


def test_a_csv_as_the_notebooks_write_it(tmp_path: Path) -> None:
    """``pd.DataFrame({'id': ids, 'results': predicted_labels}).to_csv(path + filename, index=False)``."""
    answers = ["toxic", "respectful", "Error", "I can't say,\nreally", "", *["toxic"] * 14]
    path = tmp_path / "set_theirs.csv"
    ids = [f"s{n}" for n in range(19)]
    ids[18] = "unknown"
    pd.DataFrame({"id": ids, "results": answers}).to_csv(path, index=False)
    report = bring(path, read_csv(path, Columns()), tmp_path / "s.db")
    assert (report.rows, report.matched, report.answers, report.missing) == (19, 16, 16, 4)
    assert report.failures == [
        Left(4, "a failed request ('Error')"),
        Left(6, "an empty cell: missing, or an answer of no characters"),
    ]
    assert report.unmatched == [Left(20, "there is no sentence with the id 'unknown'")]
    assert not report.complete
    found = said(tmp_path / "s.db")
    assert (found["s0"], found["s3"]) == ("toxic", "I can't say,\nreally")
    assert not {"s2", "s4", "s18"} & set(found)
    ((outcome, note, configuration),) = rows(tmp_path / "s.db", "SELECT outcome, note, configuration FROM runs")
    assert outcome == "incomplete"
    assert note == f"imported from set_theirs.csv (sha256 {report.sha256})"
    assert json.loads(configuration)["imported"]["sha256"] == report.sha256
    ((body, url, sha256),) = rows(
        tmp_path / "s.db", "SELECT body, base_url, prompt_sha256 FROM answers WHERE sentence = 's3'"
    )
    assert (json.loads(body), url) == ({"id": "s3", "results": "I can't say,\nreally"}, "file:set_theirs.csv")
    assert sha256 is None  # nobody knows what was said
    assert all(check.ok for check in verify_store(tmp_path / "s.db"))
    assert not list(tmp_path.glob(".*import*"))


def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,results\ns1,toxic\ns2,\ns1,respectful\ns1,toxic\n")
    first = bring(path, read_csv(path, Columns()), tmp_path / "s.db")
    before = content(tmp_path / "s.db")
    again = bring(path, read_csv(path, Columns()), tmp_path / "s.db", target(None))
    assert content(tmp_path / "s.db") == before
    assert (first.run, first.answers, again.run, again.answers) == (again.run, 1, first.run, 0)
    assert (first.conflicting, first.agreeing, again.conflicting, again.agreeing) == (1, 1, 1, 1)
    assert [row[-1] for row in before["second_answers"]] == [0, 1]


def test_answers_that_are_there_stay(tmp_path: Path) -> None:
    made = Shard(tmp_path / "s.db", "run-1", models=("theirs",))
    made.ask([("s1", "mine"), ("s2", "toxic")], name="theirs")
    before = rows(made.path, "SELECT * FROM answers ORDER BY sentence")
    path = tmp_path / "a.csv"
    path.write_text("id,results\ns1,toxic\ns2,toxic\ns3,toxic\n")
    report = bring(path, read_csv(path, Columns()), made.path, target(None))
    assert (report.answers, report.conflicting, report.agreeing) == (1, 1, 1)
    assert rows(made.path, "SELECT * FROM answers WHERE sentence <> 's3' ORDER BY sentence") == before


@pytest.mark.parametrize("changed", ["model", "set"])
def test_another_model_or_set_under_the_name_is_refused(tmp_path: Path, changed: str) -> None:
    made = Shard(tmp_path / "s.db", "run-1", models=("theirs",), revision="x" if changed == "model" else None)
    path = tmp_path / "a.csv"
    path.write_text("id,results\ns1,toxic\n")
    other = target(TWENTY[:19] if changed == "set" else TWENTY)
    before = content(made.path)
    with pytest.raises(StoreError, match=r"a\.csv holds answers of another|set of .*a\.csv is not the one of .*s\.db"):
        bring(path, read_csv(path, Columns()), made.path, other)
    assert content(made.path) == before


def test_by_text_each_of_the_sentences_with_one_text_gets_its_own(tmp_path: Path) -> None:
    sentences = [Sentence(id=f"s{n}", text=text, gold=None) for n, text in enumerate(["a", "b", "a", "a"])]
    path = write_lines(
        tmp_path / "a.jsonl",
        [
            {"out": {"text": "one"}, "in": "a"},
            {"out": {"text": "two"}, "in": "a"},
            {"out": {"text": None}, "in": "b"},
            {"out": {"text": True}, "in": "a"},
            {"out": {"text": "six"}, "in": "A"},
            {"out": {"text": ["x"]}, "in": "b"},
        ],
    )
    columns = Columns(id=None, text="in", answer="out.text")
    report = bring(path, read_jsonl(path, columns), tmp_path / "s.db", target(sentences, match="text"))
    assert said(tmp_path / "s.db") == {"s0": "one", "s2": "two", "s3": "true"}
    assert report.unmatched == [Left(5, "there is no sentence with its text")]
    assert report.failures == [Left(3, "no answer"), Left(6, "'out.text' is not a text")]


def test_a_text_that_is_not_that_of_the_id_is_no_match(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,text,results\ns1,sentence number 1,toxic\ns2,sentence number 3,toxic\n")
    report = bring(path, read_csv(path, Columns(text="text")), tmp_path / "s.db")
    assert said(tmp_path / "s.db") == {"s1": "toxic"}
    assert report.unmatched == [Left(3, "its text is not that of the sentence 's2'")]


def test_pairs_are_matched_by_role(tmp_path: Path) -> None:
    """Experiment 2 has one row a pair, and a list of answers for each of its two sentences."""
    sentences = [
        Sentence(id=f"p{n}-{role}", text=f"{role} {n}", gold=None, pair=f"p{n}", role=role)
        for n in range(3)
        for role in Role
    ]
    path = tmp_path / "a.csv"
    path.write_text("id,first,second\np0,toxic,respectful\np2,toxic,toxic\np9,toxic,toxic\n")
    for role, column in (("original", "first"), ("neologism", "second")):
        report = bring(
            path,
            read_csv(path, Columns(answer=column)),
            tmp_path / "s.db",
            target(sentences, role=role),
            column=column,
        )
        assert (report.answers, report.missing) == (2, 1)
        assert report.unmatched == [Left(4, f"there is no {role} sentence of a pair with the id 'p9'")]
    assert said(tmp_path / "s.db") == {
        "p0-original": "toxic",
        "p2-original": "toxic",
        "p0-neologism": "respectful",
        "p2-neologism": "toxic",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; a header with the columns 'id' and 'results'"),
        ("id,result\n1,a\n", r"no column 'results' \(did you mean 'result'\?\); it has: 'id', 'result'"),
        ("id,id,results\n1,2,a\n", "the column 'id' twice"),
        ("id,results\ns1,toxic,more\n", "row 2: 3 cells, but the header has 2"),
        ('id,results\ns1,"toxic\n', "not valid CSV"),
        ("id,results\ns99,toxic\n", r"Nothing of .* is an answer .* Record 2: there is no sentence with the id 's99'"),
        ("id,results\ns1,Error\n", r"nothing was imported. Record 2: a failed request"),
        ("id,results\n", "has no record"),
    ],
)
def test_tables_that_are_wrong_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises((DataError, StoreError), match=message):
        bring(path, read_csv(path, Columns()), tmp_path / "s.db")
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("reader", [read_csv, read_jsonl])
def test_what_is_not_utf8_is_named(tmp_path: Path, reader: Any) -> None:
    path = tmp_path / "a"
    path.write_bytes("id,results\ns1,é\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        list(reader(path, Columns()))


def test_a_set_that_is_nowhere_is_named(tmp_path: Path) -> None:
    made = Shard(tmp_path / "s.db", "run-1", datasets={})
    path = tmp_path / "a.csv"
    path.write_text("id,results\ns1,toxic\n")
    for store in (made.path, tmp_path / "new.db"):
        with pytest.raises(StoreError, match=r"no data set 'set'; --data|no store at"):
            bring(path, read_csv(path, Columns()), store, target(None))


# -- inspect_ai ------------------------------------------------------------------------------------------------------


def spoken(n: int) -> str:
    return PROMPT.render(TWENTY[n].text)


@pytest.mark.parametrize("write", [inspect_eval, inspect_json])
def test_a_log_of_inspect(tmp_path: Path, write: Any) -> None:
    system = PROMPT.system
    samples = [
        inspect_sample("s0", spoken(0), "Toxic.\ud800", system=system),
        inspect_sample(
            "s1", TWENTY[1].text, [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "toxic"}]
        ),
        inspect_sample("s2", spoken(2), "", system=system, stop="content_filter"),
        inspect_sample("s3", spoken(3), error={"message": "Timeout", "traceback": "...", "traceback_ansi": "..."}),
        inspect_sample("s4", spoken(4), output={"model": "gpt-4o", "choices": [], "error": "no quota"}),
        inspect_sample("s5", spoken(5), output={"model": "", "choices": []}),
        inspect_sample("s6", spoken(6), "attachment://abc", system=system, attachments={"abc": "long " * 50}),
        inspect_sample("nobody", "some other text"),
        inspect_sample("s0", spoken(0), "respectful", system=system, epoch=2),
    ]
    path = write(tmp_path / "log", samples)
    report = bring(path, read_inspect(path), tmp_path / "s.db")
    assert report.unmatched == [Left(8, "there is no sentence with the id 'nobody'")]
    assert report.failures == [
        Left(4, "the sample failed: Timeout"),
        Left(5, "the model failed: no quota"),
        Left(6, "the model gave no answer"),
    ]
    assert (report.answers, report.conflicting, report.other_prompts) == (4, 1, 1)
    found = rows(
        tmp_path / "s.db",
        "SELECT sentence, status, raw_text, finish_reason, prompt_sha256, served_model, latency_s, prompt_tokens, "
        "completion_tokens, body FROM answers ORDER BY sentence",
    )
    sha256 = {n: PROMPT.sha256(TWENTY[n].text) for n in range(7)}
    same = ("gpt-4o-2024-08-06", 0.75, 31, 2)
    assert [row[:-1] for row in found] == [
        ("s0", "answered", "Toxic.\ud800".encode("utf-8", "surrogatepass"), "stop", sha256[0], *same),
        ("s1", "answered", "toxic", "stop", None, *same),
        ("s2", "refused", "", "content_filter", sha256[2], *same),
        ("s6", "answered", "long " * 50, "stop", sha256[6], *same),
    ]
    assert [json.loads(row[-1])["uuid"] for row in found] == ["uuid-s0-1", "uuid-s1-1", "uuid-s2-1", "uuid-s6-1"]
    assert rows(tmp_path / "s.db", "SELECT sentence, raw_text FROM second_answers") == [("s0", "respectful")]
    assert all(check.ok for check in verify_store(tmp_path / "s.db"))


def test_samples_without_ids_of_the_set_are_matched_by_text(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "x"}, {"role": "user", "content": TWENTY[2].text}]
    path = inspect_eval(
        tmp_path / "log.eval",
        [
            inspect_sample(1, TWENTY[0].text),
            inspect_sample(2, spoken(1), "respectful", system=PROMPT.system),
            {**inspect_sample(3, "framed: ..."), "input": chat},
            inspect_sample(4, "what?", metadata={"row": {"text": TWENTY[3].text}}),
        ],
    )
    report = bring(path, read_inspect(path), tmp_path / "s.db", target(match="text"))
    assert said(tmp_path / "s.db") == {"s0": "toxic", "s1": "respectful", "s2": "toxic"}
    assert report.unmatched == [Left(4, "there is no sentence with its text")]
    again = bring(
        path, read_inspect(path, text_field="metadata.row.text"), tmp_path / "t.db", target(match="text"), field="x"
    )
    assert set(said(tmp_path / "t.db")) == {"s0", "s1", "s3"}  # the first two by what was said
    assert again.matched == 3


def test_logs_that_are_none_are_named(tmp_path: Path) -> None:
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("a.txt", "a")
    (tmp_path / "a.json").write_text("[1]")
    (tmp_path / "b.json").write_text("{")
    damaged = inspect_eval(tmp_path / "c.eval", [inspect_sample("s1", "x" * 5000)])
    data = bytearray(damaged.read_bytes())
    data[400:460] = b"\0" * 60
    damaged.write_bytes(bytes(data))
    for path, text in (
        (other, "a zip file but not a log"),
        (tmp_path / "a.json", "has the keys 'eval' and 'samples'"),
        (tmp_path / "b.json", "not a log of inspect_ai"),
        (damaged, r"damaged zip|not a log"),
        (tmp_path / "missing.eval", "can't be read"),
    ):
        with pytest.raises(DataError, match=text):
            list(read_inspect(path))


def test_a_log_in_a_compression_that_python_lacks_says_what_to_do(tmp_path: Path) -> None:
    path = inspect_eval(tmp_path / "log.eval", [inspect_sample("s1", "x")], zipfile.ZIP_STORED)
    data = path.read_bytes()
    # Zstandard is method 93 (PKWARE's APPNOTE, 4.4.5); marked in the local headers and in the directory.
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        parts = data.split(signature)
        data = signature.join(
            [parts[0], *(part[: offset - 4] + b"\x5d\x00" + part[offset - 2 :] for part in parts[1:])]
        )
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"inspect log convert log\.eval --to json"):
        list(read_inspect(path))


# -- lm-evaluation-harness -------------------------------------------------------------------------------------------


def test_samples_of_lm_evaluation_harness(tmp_path: Path) -> None:
    plain = PROMPT._replace(system=None)
    path = write_lines(
        tmp_path / "samples_hate_2026-01-01T00-00-00.000000.jsonl",
        [
            lm_eval_sample(0, {"text": TWENTY[0].text, "label": 1}, plain.render(TWENTY[0].text), " toxic"),
            lm_eval_sample(1, {"text": TWENTY[1].text}, "another prompt", "respectful"),
            lm_eval_sample(2, {"other": 1}, plain.render(TWENTY[2].text), "", chat=True),
            lm_eval_sample(3, {"text": "unknown"}, "unknown", "toxic"),
            # the same sample through a second filter, and a sample with two repeats
            lm_eval_sample(0, {"text": TWENTY[0].text}, plain.render(TWENTY[0].text), " toxic", name="strip"),
            {**lm_eval_sample(4, {"text": TWENTY[4].text}, "x", ""), "resps": [["toxic", "respectful"]]},
            {**lm_eval_sample(5, {"text": TWENTY[5].text}, "x", ""), "resps": [[None]]},
        ],
    )
    to = target(match="text")._replace(prompt=plain)
    report = bring(path, read_lm_eval(path), tmp_path / "s.db", to)
    assert said(tmp_path / "s.db") == {"s0": " toxic", "s1": "respectful", "s2": "", "s4": "toxic"}
    assert report.unmatched == [Left(4, "there is no sentence with its text")]
    assert report.failures == [Left(7, "no response that is a text")]
    assert (report.agreeing, report.conflicting) == (0, 1)
    hashes = dict(rows(tmp_path / "s.db", "SELECT sentence, prompt_sha256 FROM predictions"))
    assert hashes == {
        "s0": plain.sha256(TWENTY[0].text),
        "s1": None,
        "s2": plain.sha256(TWENTY[2].text),
        "s4": None,
    }
    assert report.other_prompts == 3


def test_multiple_choice_keeps_every_likelihood(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "samples.jsonl",
        [
            lm_eval_choice(0, {"id": "s0"}, "p", {" respectful": -3.25, " toxic": -0.125}),
            {**lm_eval_choice(1, {"id": "s1"}, "p", {" a": -1.0, " b": -2.0}), "resps": [[[-1.0, False]]]},
            {
                **lm_eval_choice(2, {"id": "s2"}, "p", {}),
                "arguments": [["p", " toxic"], ["p", " respectful"]],
                "resps": [[[-4.0, False]], [[-0.5, True]]],
            },
        ],
    )
    report = bring(path, read_lm_eval(path, id_field="id"), tmp_path / "s.db")
    found = rows(tmp_path / "s.db", "SELECT sentence, raw_text, scores FROM predictions ORDER BY sentence")
    assert [(key, text, json.loads(scores)) for key, text, scores in found] == [
        ("s0", " toxic", {" respectful": -3.25, " toxic": -0.125}),
        ("s2", " respectful", {" toxic": -4.0, " respectful": -0.5}),
    ]
    assert report.failures == [Left(2, "its log-likelihoods are not one for each continuation")]


def test_lines_that_are_no_samples_are_named(tmp_path: Path) -> None:
    for text, message in (
        ('{"a": 1}\n', "line 1: not a sample"),
        ("[1]\n", "not a JSON object"),
        ("{\n", "line 1: not valid JSON"),
    ):
        (tmp_path / "a.jsonl").write_text(text)
        with pytest.raises(DataError, match=message):
            list(read_lm_eval(tmp_path / "a.jsonl"))
