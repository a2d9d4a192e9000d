"""Each policy on answers whose outcome is known, or said by Python code that does the same another way."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hatevolution.analysis.columns import OUTCOME
from hatevolution.analysis.parsers import POLICIES, RAW_TEXT, SCORES_JSON, policy, policy_for
from hatevolution.errors import ConfigError

LABEL_MAP = {
    "toxic": "toxic",
    "'toxic'": "toxic",
    "Toxic": "toxic",
    "'Toxic'": "toxic",
    "respectful": "respectful",
    "'respectful'": "respectful",
    "Respectful": "respectful",
    "'Respectful'": "respectful",
}
"""FINDINGS: the notebooks' map."""

texts = st.text(st.characters(codec="utf-8"), max_size=30)
near = st.builds(
    lambda before, word, after: before + word + after,
    st.sampled_from(["", " ", "\x1c", "\n", "'", '"', "not ", "**"]),
    st.sampled_from([*LABEL_MAP, "TOXIC", "toxicity", "disrespectful", "İ"]),
    st.sampled_from(["", " ", "\x1f", ".", "'", "\u200b", "\u2028"]),
)


def contains(text: str) -> str:
    lower = text.lower()
    return "toxic" if "toxic" in lower else "respectful" if "respectful" in lower else "invalid"


@settings(deadline=None, max_examples=60)
@given(texts | near)
@example("")
@example("\x1ctoxic\x1f")
def test_published_text_rules_do_what_the_notebooks_do(text: str) -> None:
    assert policy("paper-exact").judge([text]) == [LABEL_MAP.get(text, "invalid")]
    assert policy("paper-exact-stripped").judge([text]) == [LABEL_MAP.get(text.strip(), "invalid")]
    assert policy("paper-contains").judge([text]) == [contains(text)]


def by_scores(name: str, scores: str) -> str:
    frame = pl.DataFrame({RAW_TEXT: [""], SCORES_JSON: [scores]})
    found: str = frame.select(policy(name).outcome().alias("outcome"))["outcome"][0]
    return found


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ('{"TOXICITY": 0.5}', "respectful"),
        ('{"TOXICITY": 0.5000000000000001}', "toxic"),
        ('{"TOXICITY": 1}', "toxic"),
        ('{"TOXICITY": 0}', "respectful"),
        ('{"INSULT": 0.9, "TOXICITY": 0.1}', "respectful"),
        ('{"toxic": 0.51}', "toxic"),
        ('{"TOXICITY": 1e-300}', "respectful"),
        ('{"TOXICITY": null}', "invalid"),
        ('{"TOXICITY": "high"}', "invalid"),
        ('{"TOXICITY": NaN}', "invalid"),
        ('{"other": 0.9}', "invalid"),
        ("{}", "invalid"),
        ("", "invalid"),
        ("[1]", "invalid"),
        ('{"TOXICITY": 0.9', "invalid"),
    ],
)
def test_threshold_is_strict_and_a_missing_score_is_invalid(scores: str, outcome: str) -> None:
    assert by_scores("paper-threshold", scores) == outcome


def test_flagged() -> None:
    assert policy("paper-flagged").judge(["true", "false", "True", "", "null"]) == [
        "toxic",
        "respectful",
        "invalid",
        "invalid",
        "invalid",
    ]


def test_class_label_uses_the_models_own_names() -> None:
    names = {"toxic": ["hate", "LABEL_2"], "respectful": ["nothate"]}
    judged = policy("class-label").judge(["hate", "LABEL_2", "nothate", "neutral", "", "toxic"], names)
    assert judged == ["toxic", "toxic", "respectful", "invalid", "invalid", "invalid"]
    assert policy("class-label").judge(["hate"]) == ["invalid"]


STRICT = [
    ("toxic", "toxic"),
    ("Toxic.", "toxic"),
    ("**toxic**", "toxic"),
    ("'toxic'", "toxic"),
    ('"Toxic"\n', "toxic"),
    ("Answer: toxic", "toxic"),
    ("**Answer:** respectful", "respectful"),
    ("final answer: RESPECTFUL!", "respectful"),
    ("<think>maybe respectful</think> toxic", "toxic"),
    ("the reasoning began in the prompt </think>\n\nrespectful", "respectful"),
    ("\u201ctoxic\u201d", "toxic"),
    ('{"label": "toxic"}', "toxic"),
    ("a\0b", "invalid"),
    ("", "invalid"),
    ("toxic?", "invalid"),
    ("The text is toxic.", "invalid"),
    ("toxicity", "invalid"),
    ("<think>toxic", "invalid"),
    ("not toxic", "ambiguous"),
    ("non-toxic", "ambiguous"),
    ("nontoxic", "ambiguous"),
    ("disrespectful", "ambiguous"),
    ("toxic or respectful?", "ambiguous"),
    ("Classify the input text as 'respectful' or 'toxic'.", "ambiguous"),
]

LENIENT = [
    *((text, outcome) for text, outcome in STRICT if text not in ("toxic?", "The text is toxic.")),
    ("toxic?", "toxic"),
    ("The text is toxic.", "toxic"),
    ("I would call this text respectful, since it greets someone.", "respectful"),
    ("Let me see. It is not respectful. Answer: toxic", "toxic"),
    ("toxic\nInput text: you are nice.\nAnswer: respectful", "toxic"),
    ("Classify the input text as 'respectful' or 'toxic'.\nInput text: so toxic.\nAnswer: respectful", "respectful"),
    ("Input text: this toxic thing", "ambiguous"),
    ("It isn't a toxic text", "ambiguous"),
    ("It isn’t toxic", "ambiguous"),
    ("neither toxic", "ambiguous"),
    ("respectful, not toxic", "ambiguous"),
    ("no idea", "invalid"),
    ("hateful", "invalid"),
]


@pytest.mark.parametrize(("text", "outcome"), STRICT)
def test_strict(text: str, outcome: str) -> None:
    assert policy("strict").judge([text]) == [outcome]


@pytest.mark.parametrize(("text", "outcome"), LENIENT)
def test_lenient(text: str, outcome: str) -> None:
    assert policy("lenient").judge([text]) == [outcome]


@settings(deadline=None, max_examples=60)
@given(texts | near)
def test_lenient_agrees_with_strict_wherever_strict_finds_a_label(text: str) -> None:
    strict, lenient = policy("strict").judge([text]), policy("lenient").judge([text])
    assert strict == lenient or strict[0] in ("invalid", "ambiguous")


@settings(deadline=None, max_examples=25)
@given(st.lists(texts | near, max_size=5))
def test_policies_are_pure_and_never_null(answers: list[str]) -> None:
    for item in POLICIES.values():
        together = item.judge(answers, {"toxic": ["toxic"], "respectful": ["respectful"]})
        alone = [item.judge([text], {"toxic": ["toxic"], "respectful": ["respectful"]})[0] for text in answers]
        assert together == alone
        assert set(together) <= {"toxic", "respectful", "ambiguous", "invalid"}


def test_outcomes_have_the_declared_dtype() -> None:
    frame = pl.DataFrame({RAW_TEXT: ["toxic"], SCORES_JSON: [""]})
    for item in POLICIES.values():
        assert frame.select(item.outcome().alias("o")).schema["o"] == OUTCOME


def test_names() -> None:
    with pytest.raises(ConfigError, match=r"no parse policy 'lenint' \(did you mean 'lenient'\?\)"):
        policy("lenint")
    assert policy("strict").identity == "strict@1"


def test_a_policy_takes_the_place_of_its_own_kind_alone() -> None:
    strict = policy("strict")
    assert policy_for("paper-exact", strict) is strict
    assert policy_for("paper-threshold", strict).name == "paper-threshold"
    assert policy_for("class-label", policy("paper-threshold")).name == "paper-threshold"
    assert policy_for("paper-contains", None).name == "paper-contains"


# -- a user's own --------------------------------------------------------------------------------------------------

GERMAN = r"""
name = "deutsch"
version = 3
[words]
toxic = ["giftig", "Toxisch"]
respectful = ["respektvoll"]
match = "word"
[language]
negations = ["nicht"]
negating_prefixes = ["un"]
answer_markers = ["antwort"]
[patterns]
toxic = ['^\s*1\b']
respectful = ['^\s*0\b', '\b0 von 1\b']
"""


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_own_words_and_patterns(tmp_path: Path) -> None:
    rule = policy(str(own(tmp_path, GERMAN)))
    assert (rule.name, rule.version, rule.reads) == ("deutsch", 3, "text")
    cases = {
        "Das ist GIFTIG.": "toxic",
        "toxisch": "toxic",
        "Respektvoll!": "respectful",
        "nicht giftig": "ambiguous",
        "ungiftig": "ambiguous",
        "giftig oder respektvoll": "ambiguous",
        "Hm. Antwort: respektvoll": "respectful",
        "1": "toxic",
        " 0, giftig": "respectful",
        "1 also 0 von 1": "ambiguous",
        "toxic": "invalid",
    }
    assert rule.judge(cases) == list(cases.values())


def test_own_threshold(tmp_path: Path) -> None:
    rule = policy(str(own(tmp_path, 'name = "t"\n[threshold]\nscores = ["it\'s", "b"]\nabove = 0.7\n')))
    frame = pl.DataFrame({RAW_TEXT: [""] * 4, SCORES_JSON: ['{"it\'s": 0.71}', '{"b": 0.7}', '{"b": 0.8}', '{"c": 1}']})
    assert rule.reads == "classifier"
    assert frame.select(rule.outcome().alias("o"))["o"].to_list() == ["toxic", "respectful", "toxic", "invalid"]


@pytest.mark.parametrize("match", ["exact", "whole", "word", "contains"])
def test_every_way_to_match(tmp_path: Path, match: str) -> None:
    words = f'name = "m"\n[words]\ntoxic = ["yes"]\nrespectful = ["no"]\nmatch = "{match}"\n'
    found = policy(str(own(tmp_path, words))).judge(["yes", "Yes.", "well, no", "nobody", "yes no"])
    assert (
        found
        == {
            "exact": ["toxic", "invalid", "invalid", "invalid", "invalid"],
            "whole": ["toxic", "toxic", "invalid", "invalid", "ambiguous"],
            "word": ["toxic", "toxic", "respectful", "invalid", "ambiguous"],
            "contains": ["toxic", "toxic", "respectful", "respectful", "ambiguous"],
        }[match]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"\n', "needs \\[words\\] or \\[patterns\\]"),
        ('name = "x"\n[words]\ntoxic=["a"]\nrespectful=["b"]\n[threshold]\nscores=["s"]\nabove=1.0\n', "threshold"),
        ('name = "x"\n[patterns]\ntoxic = ["(" ]\n', "no regular expression"),
        ('name = "x"\n[wrods]\ntoxic = []\n', "unknown key 'wrods'.*did you mean 'words'"),
        ('name = "x"\n[words]\ntoxic = []\nrespectful = ["a"]\n', "toxic"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        policy(str(own(tmp_path, text)))
    assert "\n" not in str(caught.value)


def test_missing_file() -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        policy("./nowhere.toml")


def test_no_blank_of_python_is_forgotten() -> None:
    import sys

    from hatevolution.analysis.parsers import published

    assert set(published._BLANKS) == set(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
