"""What ``hatevolution score`` prints in the formats of files, and what it refuses to work out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_maker import Made, generate

from hatevolution.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

Result = tuple[int, str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("score") / "s.db", 5)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def called(*args: str) -> Result:
        with pytest.raises(SystemExit) as ended:
            main(args)
        captured = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return called


@pytest.mark.parametrize(("command", "option"), [("score", "--intervals"), ("report", "--resamples")])
def test_more_resamples_than_say_anything_are_refused(
    made: Made, call: Callable[..., Result], command: str, option: str
) -> None:
    code, out, err = call(command, "--store", str(made.path), option, "100001")
    assert (code, out) == (2, "")
    assert "<=100000" in err
