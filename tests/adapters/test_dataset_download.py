"""Downloads against a real HTTP server that breaks off, changes its mind, and lies."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import Behaviour, FileServer, serving
from yarl import URL

from hatevolution.adapters.datasets.fetch import Fetched, Wish, fetch, mirror_url, wishes
from hatevolution.configs.dataset_schema import SourceFile, load_dataset
from hatevolution.errors import ConfigError

NAME = "the file.csv"
BODY = b"".join(b"%06d,made up\n" % number for number in range(40_000))
SHA = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as state:
        state.files[NAME] = BODY
        yield state


class Listener:
    def __init__(self) -> None:
        self.progressed: list[tuple[int, int | None]] = []
        self.results: list[Fetched] = []

    def progress(self, wish: Wish, done: int, total: int | None) -> None:
        self.progressed.append((done, total))

    def finished(self, result: Fetched) -> None:
        self.results.append(result)


def wish(server: FileServer, sha256: str | None = SHA, size: int | None = None, path: str = "/the%20file.csv") -> Wish:
    return Wish("there", SourceFile(name=NAME, url=server.url + path, sha256=sha256, bytes=size))


async def get(wanted: Wish, folder: Path, mirror: URL | None = None) -> Fetched:
    listener = Listener()
    (result,) = await fetch([wanted], folder, mirror, listener, first_pause_s=0.01)
    assert listener.results == [result]
    return result


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check_done(result: Fetched, folder: Path, *, verified: bool = True) -> None:
    assert (result.outcome, result.problem, result.verified) == ("downloaded", None, verified)
    assert result.file is not None
    assert (result.file.path, result.file.sha256, result.file.bytes) == (folder / NAME, SHA, len(BODY))
    assert (folder / NAME).read_bytes() == BODY
    assert left(folder) == [NAME]


async def test_a_file_is_downloaded_and_told_of(server: FileServer, tmp_path: Path) -> None:
    listener = Listener()
    folder = tmp_path / "new" / "folder"
    (result,) = await fetch([wish(server)], folder, None, listener, first_pause_s=0.01)
    check_done(result, folder)
    assert listener.progressed[0] == (0, len(BODY))
    assert listener.progressed[-1] == (len(BODY), len(BODY))
    assert listener.progressed == sorted(listener.progressed)
    assert server.requests == [("/the%20file.csv", None)]


async def test_a_file_that_is_there_is_not_fetched_again(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "deep" / "down").mkdir(parents=True)
    place = tmp_path / "deep" / "down" / NAME
    place.write_bytes(BODY)
    result = await get(wish(server), tmp_path)
    assert (result.outcome, result.verified) == ("present", True)
    assert result.file is not None and result.file.path == place
    result = await get(wish(server, sha256=None), tmp_path)
    assert (result.outcome, result.verified) == ("present", False)
    assert server.requests == []


async def test_a_file_is_never_overwritten(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"my own notes")
    result = await get(wish(server), tmp_path)
    assert result.outcome == "failed"
    assert result.problem is not None and "is there already and is not the released file" in result.problem
    assert (tmp_path / NAME).read_bytes() == b"my own notes"
    assert server.requests == []


async def test_another_file_of_the_name_deeper_down_is_no_obstacle(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / NAME).write_bytes(b"an older release")
    assert (await get(wish(server), tmp_path)).outcome == "downloaded"
    assert (tmp_path / NAME).read_bytes() == BODY


@pytest.mark.parametrize("validators", ["strong", "weak", "date", "none"])
async def test_a_transfer_that_breaks_off_is_resumed(server: FileServer, tmp_path: Path, validators: str) -> None:
    server.validators = validators
    server.script = [Behaviour(cut_after=100_000), Behaviour(cut_after=150_000)]
    check_done(await get(wish(server), tmp_path), tmp_path)
    # Even without a validator: the checksum of the whole tells whether the parts belong together.
    assert server.sent()[0] is None
    starts = [int(str(sent).removeprefix("bytes=").removesuffix("-")) for sent in server.sent()[1:]]
    assert len(starts) == 2
    assert 0 < starts[0] <= 100_000 < starts[1] <= 250_000


async def test_what_has_arrived_is_used_the_next_time(server: FileServer, tmp_path: Path) -> None:
    server.script = [Behaviour(cut_after=200_000), *[Behaviour(status=503)] * 10]
    result = await get(wish(server), tmp_path)
    assert result.outcome == "failed"
    assert result.problem is not None
    assert "the server answers 503 Service Unavailable; " in result.problem
    assert "bytes of it are kept for the next time" in result.problem
    assert left(tmp_path) == [f"{NAME}.part", f"{NAME}.part.json"]
    kept = (tmp_path / f"{NAME}.part").stat().st_size
    assert 0 < kept <= 200_000
    server.script, server.requests = [], []
    check_done(await get(wish(server), tmp_path), tmp_path)
    assert server.sent() == [f"bytes={kept}-"]


async def test_many_breaks_are_borne_while_bytes_come(server: FileServer, tmp_path: Path) -> None:
    server.script = [Behaviour(cut_after=40_000)] * 9
    check_done(await get(wish(server), tmp_path), tmp_path)
    assert len(server.requests) == 10


async def test_a_server_that_ignores_ranges_starts_again(server: FileServer, tmp_path: Path) -> None:
    server.ranges = False
    server.script = [Behaviour(cut_after=100_000)]
    check_done(await get(wish(server), tmp_path), tmp_path)
    assert len(server.requests) == 2


@pytest.mark.parametrize("validators", ["strong", "weak", "none"])
async def test_a_file_that_changed_meanwhile_is_taken_whole(
    server: FileServer, tmp_path: Path, validators: str
) -> None:
    server.validators = validators
    old = b"an older release of the file\n" * 10_000
    server.script = [Behaviour(cut_after=100_000, body=old), *[Behaviour(status=500)] * 10]
    assert (await get(wish(server), tmp_path)).outcome == "failed"
    server.script = []
    check_done(await get(wish(server), tmp_path), tmp_path)


async def test_a_part_from_another_address_is_not_trusted(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(b"x" * 1000)
    check_done(await get(wish(server), tmp_path), tmp_path)
    (tmp_path / NAME).unlink()
    (tmp_path / f"{NAME}.part").write_bytes(b"x" * 1000)
    (tmp_path / f"{NAME}.part.json").write_text("not JSON", encoding="utf-8")
    check_done(await get(wish(server, sha256=None), tmp_path), tmp_path, verified=False)
    assert server.sent()[-1] is None


async def test_a_complete_part_needs_only_its_name(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(BODY)
    check_done(await get(wish(server, size=len(BODY)), tmp_path), tmp_path)
    assert server.requests == []
    (tmp_path / NAME).unlink()
    (tmp_path / f"{NAME}.part").write_bytes(BODY)
    check_done(await get(wish(server), tmp_path), tmp_path)
    assert server.sent() == [f"bytes={len(BODY)}-"]


async def test_a_part_longer_than_the_file_is_thrown_away(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(BODY + b"more")
    check_done(await get(wish(server), tmp_path), tmp_path)


async def test_a_wrong_checksum_is_refused_and_nothing_is_kept(server: FileServer, tmp_path: Path) -> None:
    server.files[NAME] = b"<html>please log in</html>"
    result = await get(wish(server), tmp_path)
    assert result.outcome == "failed"
    found = hashlib.sha256(server.files[NAME]).hexdigest()
    assert result.problem == (
        f"{server.url}/the%20file.csv is not the released file: its sha256 is {found} where {SHA} is expected; "
        "nothing of it was kept."
    )
    assert left(tmp_path) == []


async def test_a_file_longer_or_shorter_than_the_released_one_is_refused(server: FileServer, tmp_path: Path) -> None:
    result = await get(wish(server, size=1000), tmp_path)
    assert result.problem is not None and "sends more than 1,000 bytes; nothing of it was kept" in result.problem
    assert left(tmp_path) == []
    result = await get(wish(server, sha256="0" * 64, size=len(BODY) + 1), tmp_path)
    assert result.problem is not None and "is not the released file" in result.problem
    assert left(tmp_path) == []


async def test_without_a_known_checksum_the_file_is_not_called_verified(server: FileServer, tmp_path: Path) -> None:
    check_done(await get(wish(server, sha256=None), tmp_path), tmp_path, verified=False)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_a_refusal_is_not_repeated(server: FileServer, tmp_path: Path, status: int) -> None:
    server.script = [Behaviour(status=status)]
    result = await get(wish(server), tmp_path)
    assert result.problem is not None
    assert result.problem.startswith(
        f"{server.url}/the%20file.csv could not be downloaded: the server answers {status}"
    )
    assert len(server.requests) == 1
    assert left(tmp_path) == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_passing_fault_is_borne(server: FileServer, tmp_path: Path, status: int) -> None:
    server.script = [Behaviour(status=status), Behaviour(status=status)]
    check_done(await get(wish(server), tmp_path), tmp_path)
    assert len(server.requests) == 3


async def test_a_lasting_fault_ends_after_a_few_attempts(server: FileServer, tmp_path: Path) -> None:
    server.script = [Behaviour(status=500)] * 20
    result = await get(wish(server), tmp_path)
    assert result.problem is not None and "the server answers 500 Internal Server Error." in result.problem
    assert len(server.requests) == 5
    assert left(tmp_path) == []


async def test_retry_after_is_obeyed_or_given_up(server: FileServer, tmp_path: Path) -> None:
    server.script = [Behaviour(status=429, headers={"Retry-After": "0"})] * 2
    check_done(await get(wish(server), tmp_path), tmp_path)
    (tmp_path / NAME).unlink()
    server.script = [Behaviour(status=503, headers={"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"})]
    result = await get(wish(server), tmp_path)
    assert result.problem is not None and "answers 503 Service Unavailable and asks to wait" in result.problem


async def test_a_compressed_answer_is_refused(server: FileServer, tmp_path: Path) -> None:
    server.script = [Behaviour(headers={"Content-Encoding": "gzip"})]
    result = await get(wish(server), tmp_path)
    assert result.problem is not None and "is sent compressed, so that it can't be checked" in result.problem


async def test_nobody_listening_is_one_sentence(tmp_path: Path) -> None:
    with serving() as gone:
        pass
    result = await get(wish(gone), tmp_path)
    host = gone.url.removeprefix("http://")
    assert result.problem == f"{gone.url}/the%20file.csv could not be downloaded: there is no connection to {host}."
    assert left(tmp_path) == []


async def test_an_address_without_sense_is_one_sentence(tmp_path: Path) -> None:
    wanted = Wish("there", SourceFile(name=NAME, url="ftp://example.org/a.csv", sha256=SHA))
    result = await get(wanted, tmp_path)
    assert result.problem is not None and result.problem.startswith("ftp://example.org/a.csv could not be downloaded")


async def test_a_file_without_an_address_says_so(server: FileServer, tmp_path: Path) -> None:
    wanted = Wish("there", SourceFile(name=NAME))
    result = await get(wanted, tmp_path)
    assert result.problem is not None and result.problem.startswith(
        f"{NAME} of there has no address to download it from"
    )
    check_done(await get(wanted, tmp_path, mirror_url(server.url)), tmp_path, verified=False)


async def test_a_mirror_is_asked_by_file_name_and_its_secrets_stay_secret(server: FileServer, tmp_path: Path) -> None:
    base = server.url.replace("http://", "http://me:hunter2@") + "/sets/v1?sig=s3cret"
    check_done(await get(wish(server), tmp_path, mirror_url(base)), tmp_path)
    assert server.requests == [("/sets/v1/the%20file.csv?sig=s3cret", None)]
    (tmp_path / NAME).unlink()
    server.script = [Behaviour(cut_after=100_000), *[Behaviour(status=503)] * 10]
    result = await get(wish(server), tmp_path, mirror_url(base + "#part"))
    assert result.problem is not None and result.problem.startswith(f"{server.url}/sets/v1/the%20file.csv could not")
    written = result.problem + (tmp_path / f"{NAME}.part.json").read_text(encoding="utf-8")
    assert "hunter2" not in written
    assert "s3cret" not in written


@pytest.mark.parametrize(
    "base", ["", "example.org/mirror", "ftp://example.org", "file:///data", "http://", "http://[::1"]
)
def test_a_mirror_needs_a_web_address(base: str) -> None:
    with pytest.raises(ConfigError, match="The mirror's address has to be of the form https://HOST/PATH"):
        mirror_url(base)


async def test_one_failure_does_not_stop_the_others(server: FileServer, tmp_path: Path) -> None:
    server.files["second.csv"] = b"a"
    second = Wish("other", SourceFile(name="second.csv", url=f"{server.url}/second.csv"))
    missing = Wish("none", SourceFile(name="missing.csv", url=f"{server.url}/missing.csv"))
    results = await fetch([missing, wish(server), second], tmp_path, None, Listener(), first_pause_s=0.01)
    assert [result.outcome for result in results] == ["failed", "downloaded", "downloaded"]
    assert left(tmp_path) == ["second.csv", NAME]


async def test_two_downloads_of_one_file_do_not_mix(server: FileServer, tmp_path: Path) -> None:
    with (tmp_path / f"{NAME}.part").open("a+b") as held:
        held.write(b"0")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        result = await get(wish(server), tmp_path)
    assert result.problem is not None and "is being downloaded by another process" in result.problem
    assert (tmp_path / f"{NAME}.part").read_bytes() == b"0"


async def test_a_folder_that_cannot_be_made_is_one_sentence(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    result = await get(wish(server), tmp_path / "file" / "folder")
    assert result.problem is not None and result.problem.endswith("can't be written: Not a directory.")


def test_the_files_of_a_set_and_of_its_other_releases() -> None:
    config, _ = load_dataset("hatexplain")
    assert [item.source.name for item in wishes(config, alternatives=False)] == ["HateXplain_testset.xlsx"]
    assert [item.source.name for item in wishes(config, alternatives=True)][1:] == [
        "dataset.json",
        "post_id_divisions.json",
    ]
    with pytest.raises(ConfigError, match="so there is nothing to fetch"):
        wishes(load_dataset("sample-hatecheck")[0], alternatives=False)
