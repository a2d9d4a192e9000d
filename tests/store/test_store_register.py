"""What a run registers before its first request: models by specification, data sets by their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from run_maker import RUN, dataset_record, fill, model, run_record, sentences

from hatevolution.configs.fingerprint import fingerprint, specification
from hatevolution.configs.prompts import Prompt
from hatevolution.domain import Label, Role, Sentence
from hatevolution.errors import DataError, StoreError
from hatevolution.store.opened import ModelRecord, WritableStore
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PROMPT = Prompt("p", 1, "Say: ", ".")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableStore]:
    with WritableStore(tmp_path / "s.db", RUN) as store:
        with store.transaction():
            store.add_run(run_record())
        yield store


def record(prompt: Prompt | None = PROMPT, **fields: Any) -> ModelRecord:
    config = model(**{"adapter": "vllm-completions", **fields})
    return ModelRecord(config.name, config.label, specification(config, prompt), msgspec.to_builtins(config))


def put(store: WritableStore, entry: ModelRecord) -> None:
    with store.transaction():
        store.put_model(entry)


TRACES = {
    "answer": "INSERT INTO predictions (model, dataset, sentence, status, raw_text, attempts, run) "
    "VALUES ('m', 'set', 's0', 'answered', 'toxic', 1, :run)",
    "rejection": "INSERT INTO predictions (model, dataset, sentence, status, attempts, run) "
    "VALUES ('m', 'set', 's0', 'rejected', 1, :run)",
    "billed failure": "INSERT INTO failures (model, dataset, sentence, run, failed_at, attempt, kind, message, "
    "maybe_billed) VALUES ('m', 'set', 's0', :run, 'now', 1, 'timeout', 'late', 1)",
    "intent": "INSERT INTO intents (run, model, dataset, sentences, at) VALUES (:run, 'm', 'set', '[\"s0\"]', 'now')",
    "batch": "INSERT INTO batches (name, model, run, place, base_url, endpoint, requests, input_bytes, input_sha256, "
    "made_at) VALUES ('b', 'm', :run, 'offline', 'file:b', '/v1/chat/completions', 1, 1, 'x', 'now')",
}
"""What is left of a request."""


def pin(store: WritableStore, trace: str = "answer") -> None:
    put_set(store, [Sentence(id="s0", text="text", gold=Label.TOXIC)])
    store.connection.execute(TRACES[trace], {"run": RUN})


def put_set(store: WritableStore, rows: Iterable[Sentence], **fields: Any) -> int:
    with store.transaction():
        return store.put_dataset(dataset_record(**fields), rows)


# -- models ----------------------------------------------------------------------------------------------------------


def test_a_model_is_kept_with_its_specification(store: WritableStore) -> None:
    entry = record(decoding={"max_tokens": 20})
    put(store, entry)
    row = store.connection.execute("SELECT model, fingerprint, json(specification) FROM models").fetchone()
    assert row[:2] == ("m", fingerprint(entry.specification))
    assert row[2].encode() == msgspec.json.encode(entry.specification)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"decoding": {"temperature": 0.7}}, "decoding.temperature: null -> 0.7"),
        ({"decoding": {"max_tokens": 5}}, "decoding.max_tokens: null -> 5"),
        ({"model": "fake/other"}, 'model: "fake/model" -> "fake/other"'),
        ({"revision": "abc"}, 'revision: null -> "abc"'),
        ({"adapter": "vllm-chat"}, 'adapter: "vllm-completions" -> "vllm-chat"'),
        ({"options": {"seed": 2}}, "options.seed: null -> 2"),
        ({"prompt": Prompt("p", 1, "Answer: ", ".")}, 'prompt.before: "Say: " -> "Answer: "'),
        ({"prompt": Prompt("p", 1, "Say: ", ".", "Be kind.")}, 'prompt.system: null -> "Be kind."'),
        ({"prompt": None}, "prompt: "),
    ],
)
def test_another_specification_under_a_known_name_is_refused_and_its_fields_are_named(
    store: WritableStore, fields: dict[str, Any], named: str
) -> None:
    put(store, record())
    pin(store)
    before = store.connection.execute("SELECT * FROM models").fetchall()
    with pytest.raises(StoreError) as caught:
        put(store, record(**fields))
    assert f"({named}" in str(caught.value)
    assert str(caught.value).count(" -> ") == 1
    assert "'m'" in str(caught.value)
    assert "new name" in str(caught.value)
    assert store.connection.execute("SELECT * FROM models").fetchall() == before


def test_every_changed_field_is_named(store: WritableStore) -> None:
    put(store, record())
    pin(store)
    with pytest.raises(StoreError, match=r"\(decoding\.seed: null -> 1; model: .* -> .*; revision: null -> \"y\"\)"):
        put(store, record(model="x", revision="y", decoding={"seed": 1}))


@pytest.mark.parametrize("trace", TRACES)
def test_any_trace_of_a_request_pins_a_name(store: WritableStore, trace: str) -> None:
    put(store, record(model="right"))
    pin(store, trace)
    with pytest.raises(StoreError, match="under the model name 'm'"):
        put(store, record(model="wrong"))


def test_a_specification_under_which_nothing_was_asked_is_replaced(store: WritableStore) -> None:
    put(store, record(model="typo"))
    other = record(name="other")
    put(store, other)
    put_set(store, [Sentence(id="s0", text="text", gold=Label.TOXIC)])
    # Neither another model's answers nor a failure that cost nothing says anything under this name.
    store.connection.execute(TRACES["answer"].replace("'m'", "'other'"), {"run": RUN})
    store.connection.execute(TRACES["billed failure"].replace(", 1)", ", 0)"), {"run": RUN})
    entry = record(model="right", title="Mine")
    with store.transaction():
        assert store.put_model(entry) == 'model: "typo" -> "right"'
    rows = store.connection.execute(
        "SELECT model, title, fingerprint, specification, configuration FROM models ORDER BY 1"
    )
    first, second = rows.fetchall()
    assert first[:3] == ("m", "Mine", fingerprint(entry.specification))
    assert msgspec.json.decode(first[3])["model"] == msgspec.json.decode(first[4])["model"] == "right"
    assert second[2] == fingerprint(other.specification)


@pytest.mark.parametrize(
    "fields",
    [
        {"endpoint": {"base_urls": ["http://elsewhere/v1"], "max_concurrency": 500, "timeout_s": 1.0}},
        {"price": {"usd_per_request": 1.0}},
        {"title": "Another title"},
        {"parser": "lenient"},
        {"labels": {"toxic": ["hate"]}},
        {"retired": {"date": "2020-01-01", "successor": "x"}},
        {"prompt": Prompt("renamed", 7, "Say: ", ".")},
    ],
)
def test_what_changes_no_answer_may_change(store: WritableStore, fields: dict[str, Any]) -> None:
    put(store, record())
    entry = record(**fields)
    put(store, entry)
    row = store.connection.execute("SELECT title, configuration FROM models").fetchone()
    assert row[0] == entry.title
    assert msgspec.json.decode(row[1]) == msgspec.json.decode(msgspec.json.encode(entry.configuration))


# -- data sets -------------------------------------------------------------------------------------------------------

WHOLE = Sentence(
    id="1",
    text="some text",
    gold=Label.TOXIC,
    gold_raw="hate",
    year=2020,
    pair="p",
    role=Role.NEOLOGISM,
    type="lexical",
    functionality="f",
    target="t",
    meta={"k": "v"},
)


def test_all_of_a_sentence_is_stored(store: WritableStore) -> None:
    assert put_set(store, [WHOLE]) == 1
    row = store.connection.execute(
        "SELECT position, sentence, text, gold, gold_raw, year, pair, role, type, functionality, target, meta "
        "FROM sentences"
    ).fetchone()
    assert row == (0, "1", "some text", "toxic", "hate", 2020, "p", "neologism", "lexical", "f", "t", '{"k": "v"}')


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "some text "),
        ("text", "some text\0"),
        ("gold", Label.RESPECTFUL),
        ("year", None),
        ("pair", "q"),
        ("role", Role.ORIGINAL),
        ("type", "semantic"),
        ("functionality", None),
    ],
)
def test_a_changed_sentence_is_refused_and_the_field_is_named(store: WritableStore, field: str, value: object) -> None:
    others = sentences(3)
    put_set(store, [*others, WHOLE])
    before = store.connection.execute("SELECT * FROM datasets").fetchall()
    changed = Sentence(**{**WHOLE._asdict(), field: value})
    with pytest.raises(StoreError, match=rf"sentence number 4.*id '1', changed: {field}") as caught:
        put_set(store, [*others, changed], files=[{"name": "changed"}])
    assert "new name" in str(caught.value)
    assert store.connection.execute("SELECT * FROM datasets").fetchall() == before


@pytest.mark.parametrize(("field", "value"), [("gold_raw", "Hate"), ("target", "\ud800"), ("meta", {})])
def test_another_spelling_of_what_decides_nothing_is_welcome(store: WritableStore, field: str, value: object) -> None:
    put_set(store, [WHOLE])
    before = store.connection.execute("SELECT * FROM sentences").fetchall()
    assert put_set(store, [Sentence(**{**WHOLE._asdict(), field: value})], files=[{"name": "other release"}]) == 1
    assert store.connection.execute("SELECT * FROM sentences").fetchall() == before


def test_another_order_a_missing_and_a_new_sentence_are_refused(store: WritableStore) -> None:
    rows = sentences(5)
    put_set(store, rows)
    with pytest.raises(StoreError, match=r"number 2.*'s1' in the store, 's2' now"):
        put_set(store, [rows[0], rows[2], rows[1], *rows[3:]])
    with pytest.raises(StoreError, match=r"number 5.*'s4' is no longer in the set"):
        put_set(store, rows[:4])
    with pytest.raises(StoreError, match=r"number 6.*'s5' is not in the store"):
        put_set(store, sentences(6))
    assert store.connection.execute("SELECT count(*) FROM sentences").fetchone() == (5,)


def test_the_same_sentences_from_other_bytes_are_welcome(store: WritableStore) -> None:
    put_set(store, sentences(5))
    renewed = dataset_record(files=[{"name": "re-saved", "sha256": "1"}], title="Better title")
    assert not store.has_dataset(renewed)
    with store.transaction():
        assert store.put_dataset(renewed, sentences(5)) == 5
    assert store.has_dataset(renewed)
    assert store.connection.execute("SELECT title, sentences FROM datasets").fetchall() == [("Better title", 5)]


def test_the_content_hash_depends_on_ids_texts_and_order_alone(tmp_path: Path) -> None:
    def digest(rows: list[Sentence]) -> str:
        path = tmp_path / "h.db"
        with WritableStore(path, RUN) as store:
            fill(store, [], {"set": rows})
            (value,) = store.connection.execute("SELECT content_sha256 FROM datasets").fetchone()
        for file in tmp_path.glob("h.db*"):
            file.unlink()
        return str(value)

    rows = sentences(3)
    same = [row._replace(year=2020) for row in rows]
    assert digest(rows) == digest(same)
    # Where the border between id and text lies matters.
    others = [
        rows[::-1],
        rows[:2],
        [rows[0]._replace(text="other"), *rows[1:]],
        [rows[0]._replace(id="s0s", text="entence number 0"), *rows[1:]],
    ]
    assert len({digest(rows), *map(digest, others)}) == 5


def test_an_id_that_occurs_twice_is_named_with_its_place(store: WritableStore) -> None:
    with pytest.raises(DataError, match=r"'s1' twice.*number 6"):
        put_set(store, [*sentences(5), sentences(2)[1]])
    assert store.connection.execute("SELECT count(*) FROM datasets").fetchone() == (0,)


def test_an_id_that_occurs_twice_far_apart_is_found(store: WritableStore) -> None:
    """Sentences are inserted in blocks; the second occurrence stands in another one."""
    with pytest.raises(DataError, match=r"'s3' twice.*number 12001"):
        put_set(store, [*sentences(12_000), sentences(4)[3]])


def test_an_id_has_to_be_valid_unicode(store: WritableStore) -> None:
    with pytest.raises(DataError, match="not valid Unicode"):
        put_set(store, [Sentence(id="\ud800", text="t", gold=None)])


def test_sentences_with_the_same_text_are_two(store: WritableStore) -> None:
    assert put_set(store, sentences(2, text=lambda _n: "the same")) == 2


def test_a_loader_that_fails_in_the_middle_leaves_nothing(store: WritableStore) -> None:
    def rows() -> Iterator[Sentence]:
        yield from sentences(6_000)
        raise DataError("row 6001 is bad")

    with pytest.raises(DataError, match="6001"):
        put_set(store, rows())
    assert store.connection.execute("SELECT count(*) FROM sentences").fetchone() == (0,)
    assert store.connection.execute("SELECT count(*) FROM datasets").fetchone() == (0,)


def test_the_order_of_first_appearance_is_kept(tmp_path: Path) -> None:
    with WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model("b"), model("a")], {"z": sentences(1), "y": sentences(1)})
    with WritableStore(tmp_path / "s.db", "second") as store:
        fill(store, [model("a"), model("c")], {"y": sentences(1), "x": sentences(1)}, run="second")
    connection = connect(tmp_path / "s.db")
    assert connection.execute("SELECT model FROM models ORDER BY position").fetchall() == [("b",), ("a",), ("c",)]
    assert connection.execute("SELECT dataset FROM datasets ORDER BY position").fetchall() == [("z",), ("y",), ("x",)]
    connection.close()
