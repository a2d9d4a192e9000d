"""TOML files of data sets: what may stand in them, and what is told to people who get one wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatevolution.configs.dataset_schema import (
    Columns,
    DatasetConfig,
    Labels,
    Layout,
    format_of,
    load_dataset,
    spelling,
)
from hatevolution.errors import ConfigError

MINE = """
name = "mine"
format = "csv"
path = "mine.csv"
[columns]
id = "id"
text = "text"
label = "label"
[labels]
toxic = ["1"]
respectful = ["0"]
"""


def load(folder: Path, text: str, name: str = "mine.toml") -> DatasetConfig:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_dataset(str(path))[0]


def test_a_users_set_as_the_documentation_shows_it(tmp_path: Path) -> None:
    config = load(tmp_path, MINE)
    assert (config.name, config.label, config.format, config.path) == ("mine", "mine", "csv", "mine.csv")
    assert config.columns == Columns(id="id", text="text", label="label")
    assert config.labels == Labels(toxic=("1",), respectful=("0",))


def test_a_reference_is_relative_to_the_file_that_holds_it(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE, encoding="utf-8")
    config, path = load_dataset("./mine.toml", tmp_path)
    assert (config.name, path) == ("mine", tmp_path / "mine.toml")
    with pytest.raises(ConfigError, match=r"There is no file .*other\.toml \(asked for as one of the datasets\)"):
        load_dataset("./other.toml", tmp_path)
    with pytest.raises(ConfigError, match=r"There is no dataset named 'hatechek' \(did you mean 'hatecheck'"):
        load_dataset("hatechek")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "id"', 'di = "id"', r"mine\.toml: unknown key 'di' in \[columns\] \(did you mean 'id'\?\)"),
        ('name = "mine"', 'nmae = "mine"', "unknown key 'nmae' .did you mean 'name'"),
        ('name = "mine"', 'name = "a,b"', r"mine\.toml: 'name': a name has letters, .*: no blank, no comma"),
        ('format = "csv"', 'format = "xls"', "'format': 'xls' is not one of the known ones"),
        ('path = "mine.csv"', "", r"needs either path .* or \[\[files\]\] .* and has neither"),
        ('path = "mine.csv"', 'path = "mine.csv"\nfiles = [{name = "x"}]', "not both"),
        ('format = "csv"\npath = "mine.csv"', 'path = "mine"', "the ending of mine does not tell its format"),
        ('text = "text"', "", r"\[columns\] needs text, the column with the sentences"),
        ('text = "text"', 'text = "text"\nyear = "y"\ndate = "d"', "has both year and date"),
        ('text = "text"', 'text = "text"\noriginal = "o"', 'has original, which only loader = "pairs" knows'),
        ('name = "mine"', 'name = "mine"\nloader = "pairs"', r"\[columns\] needs original and neologism"),
        ('label = "label"', "", r"\[labels\] stands for nothing, as \[columns\] names no label"),
        ('[labels]\ntoxic = ["1"]\nrespectful = ["0"]', "", r"so \[labels\] has to say which of its values are toxic"),
        ('toxic = ["1"]', "toxic = [0.0]", "has '0' as toxic and as respectful"),
        ('toxic = ["1"]', "toxic = []", r"labels\.toxic"),
        ('toxic = ["1"]', "", r"the key 'toxic' is missing in \[labels\]"),
        ('name = "mine"', 'name = "mine"\nloader = "hatexplain-json"', "reads two files, so it needs"),
        ('path = "mine.csv"', 'files = [{name = "a.csv"}, {name = "b.csv"}]', "reads one file, and .* has 2"),
        ('path = "mine.csv"', 'files = [{name = "../a.csv"}]', r"files\[0\]\.name"),
        ('path = "mine.csv"', 'files = [{name = ".."}]', r"files\[0\]\.name"),
        ('path = "mine.csv"', 'files = [{name = "a.csv", sha256 = "ABC"}]', r"files\[0\]\.sha256"),
        ('name = "mine"', 'name = "mine"\nlike = "mine.toml"', "leads back to this file"),
        ('name = "mine"', 'name = "mine"\nlike = "hatechck"', "did you mean 'hatecheck'"),
        ('name = "mine"', 'name = "mine"\n[filters]\nsplit = []', r"filters"),
        ('name = "mine"', 'name = "mine', "is not valid TOML"),
    ],
)
def test_a_mistake_is_one_sentence_naming_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in MINE
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, MINE.replace(old, new))
    assert "\n" not in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_pairs_make_text_pair_and_role_themselves(tmp_path: Path) -> None:
    text = MINE.replace('name = "mine"', 'name = "mine"\nloader = "pairs"')
    pairs = text.replace('text = "text"', 'original = "o"\nneologism = "n"')
    assert load(tmp_path, pairs).columns.original == "o"
    with pytest.raises(ConfigError, match=r"\[columns\] can't have role with the loader pairs, which makes it"):
        load(tmp_path, pairs.replace('original = "o"', 'original = "o"\nrole = "r"'))


def test_like_hands_on_how_rows_are_read_and_nothing_else(tmp_path: Path) -> None:
    config = load(tmp_path, 'name = "my-check"\nlike = "hatecheck"\npath = "a.csv"\n')
    base, _ = load_dataset("hatecheck")
    assert config.columns == base.columns
    assert config.labels == base.labels
    assert (config.licence, config.source, config.files, config.title) == (None, None, (), None)
    assert config.expected.sentences is None
    own = load(
        tmp_path, 'name = "x"\nlike = "hatecheck"\npath = "a.csv"\n[labels]\ntoxic = ["1"]\nrespectful = ["0"]\n'
    )
    assert own.labels == Labels(toxic=("1",), respectful=("0",))
    assert own.columns == base.columns


def test_like_follows_a_chain_relative_to_each_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "base.toml").write_text(MINE.replace("[columns]", "years = [2017, 2022]\n[columns]"), "utf-8")
    (tmp_path / "middle.toml").write_text('name = "m"\nlike = "./sub/base.toml"\npath = "m.csv"\n', "utf-8")
    config = load(tmp_path, 'name = "end"\nlike = "./middle.toml"\npath = "e.csv"\n', "end.toml")
    assert (config.name, config.columns.text, config.years) == ("end", "text", (2017, 2022))
    (tmp_path / "sub" / "base.toml").write_text('name = "b"\nlike = "../end.toml"\npath = "x.csv"\n', "utf-8")
    with pytest.raises(ConfigError, match="leads back to this file"):
        load_dataset(str(tmp_path / "end.toml"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", "csv"),
        ("a.TSV", "csv"),
        ("a.ndjson", "jsonl"),
        ("a.b.parquet", "parquet"),
        ("a.XLSX", "xlsx"),
        ("a", None),
    ],
)
def test_a_format_is_known_by_its_ending(name: str, kind: str | None) -> None:
    assert format_of(Layout(), Path(name)) == kind
    assert format_of(Layout(format="jsonl"), Path(name)) == "jsonl"


def test_spellings_of_one_value_are_one(tmp_path: Path) -> None:
    assert spelling(1) == spelling(1.0) == spelling("1") == "1"
    assert spelling(True) == spelling("true") == "true"
    assert spelling(0.5) == "0.5"
    assert load(tmp_path, MINE.replace('"1"', "1, true").replace('"0"', "0.0, false")).labels == Labels(
        toxic=(1, True), respectful=(0.0, False)
    )
