"""Runs over a cluster, in virtual time and without Ray's processes: what the driver and its workers do together."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fake_vllm import FakeVllm
from ray_maker import FakeCluster, run_cluster
from run_files import Project, hatevolution
from run_maker import Puppet, failure, model, reply
from virtual_loop import START_S, run_virtually

from hatevolution.adapters.models import openai_endpoint, perspective
from hatevolution.adapters.secrets import DEFAULT_KEYS
from hatevolution.configs.fingerprint import specification
from hatevolution.domain import Answer, Reply, Status, TokenEstimate
from hatevolution.errors import ConfigError
from hatevolution.runner.ray_cluster import connect
from hatevolution.runner.ray_cluster import options as options_module
from hatevolution.runner.ray_cluster.options import ray_options
from hatevolution.runner.ray_cluster.placing import needs, on_this_machine

FREE: dict[str, Any] = {"endpoint": {"max_concurrency": 8}}


def test_all_sentences_are_answered_once_by_all_workers(tmp_path: Path) -> None:
    puppet = Puppet(latency_s=0.1)
    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), puppet, 400)]))
    assert set(puppet.times_asked().values()) == {1}
    assert done.count("predictions") == 400
    assert done.count("intents") == 0
    assert puppet.peak == 16  # eight at each worker
    assert done.seconds < 0.6 * (400 * 0.1 / 8)
    assert [state.done for state in done.states] == [400]
    assert [state.phase for state in done.states] == ["done"]
    assert len(done.told("worker_joined")) == 2


def test_lists_and_several_models_and_sets_of_any_size(tmp_path: Path) -> None:
    puppets = [Puppet(latency_s=0.1, batch_size=size) for size in (1, 7, 32)]
    jobs = [
        (model(f"m{n}", endpoint={"max_concurrency": 4, "batch_size": puppet.batch_size}), puppet, 101)
        for n, puppet in enumerate(puppets)
    ]
    done = run_virtually(run_cluster(tmp_path / "s.db", jobs, workers=3))
    assert [len(puppet.times_asked()) for puppet in puppets] == [101] * 3
    assert all(max(puppet.times_asked().values()) == 1 for puppet in puppets)
    assert done.count("predictions") == 303
    assert max(len(request.sentences) for request in puppets[1].sent) == 7


def test_a_worker_that_dies_loses_nothing_and_its_share_goes_elsewhere(tmp_path: Path) -> None:
    puppet = Puppet(latency_s=0.1)

    async def kill(cluster: FakeCluster, _lanes: list[Any]) -> None:
        await asyncio.sleep(1.03)
        cluster.actors[1].kill(for_good=True)

    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), puppet, 400)], meanwhile=kill))
    assert done.count("predictions") == 400
    assert done.count("intents") == 0
    assert [state.done for state in done.states] == [400]
    twice = sum(puppet.times_asked().values()) - 400
    assert 1 <= twice <= 16  # eight in flight, and eight whose answers it had not yet sent on
    assert [event["sentences"] for event in done.told("worker_lost")]
    assert len(done.told("worker_gone")) == 1


def test_workers_that_die_again_and_again_come_back_and_finish(tmp_path: Path) -> None:
    puppet = Puppet(latency_s=0.1)

    async def kill(cluster: FakeCluster, _lanes: list[Any]) -> None:
        for turn in range(40):
            await asyncio.sleep(0.97)
            cluster.actors[turn % 2].kill()

    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), puppet, 600)], meanwhile=kill))
    assert done.count("predictions") == 600
    assert done.count("intents") == 0
    assert not done.crashes


def test_sentences_that_kill_every_worker_stay_pending_and_do_not_stop_the_others(tmp_path: Path) -> None:
    cluster = FakeCluster()

    def deadly(_number: int, items: Any, _url: str) -> Reply:
        if items[0].sentence == "s7":
            # Whoever asks it dies of it.
            for actor in cluster.actors:
                running = actor._worker._lanes.get("m")
                if running is not None and asyncio.current_task() in running.admission.pool.endpoints[0].asking:
                    asyncio.get_running_loop().call_soon(actor.kill)
        return reply(items)

    puppet = Puppet(deadly, latency_s=0.1)
    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), puppet, 200)], cluster=cluster))
    assert puppet.times_asked()["s7"] >= 2
    pending = 200 - done.count("predictions")
    assert 1 <= pending <= 40
    assert done.states[0].given_up == pending
    assert "5 workers died" in next(iter(done.states[0].reasons))


def test_a_worker_that_comes_late_joins_in(tmp_path: Path) -> None:
    puppet = Puppet(latency_s=0.1)
    cluster = FakeCluster(late_s=30.0)
    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), puppet, 2_000)], cluster=cluster))
    assert done.count("predictions") == 2_000
    assert puppet.peak == 16
    assert set(puppet.times_asked().values()) == {1}


# -- limits, pauses, money -------------------------------------------------------------------------------------------


def test_the_rate_of_all_workers_together_is_the_configured_one(tmp_path: Path) -> None:
    per_second = 10
    puppet = Puppet(latency_s=0.3)
    config = model(endpoint={"max_concurrency": 16, "requests_per_minute": 60 * per_second})

    async def kill(cluster: FakeCluster, _lanes: list[Any]) -> None:
        await asyncio.sleep(12)
        cluster.actors[0].kill()

    done = run_virtually(run_cluster(tmp_path / "s.db", [(config, puppet, 300)], workers=3, meanwhile=kill))
    assert done.count("predictions") == 300
    times = puppet.times
    for first in range(len(times)):
        for last in range(first, len(times)):
            # A second's worth may go out at once after a pause; messages of a batch may be 5 ms apart or not.
            assert last - first + 1 <= per_second * (times[last] - times[first] + 0.02) + per_second
    assert done.seconds < 300 / per_second + 3


def test_tokens_of_all_workers_together_stay_within_the_limit_and_unused_ones_are_given_back(tmp_path: Path) -> None:
    puppet = Puppet(
        lambda _n, items, _u: reply(items, prompt_tokens=40, completion_tokens=10),
        latency_s=0.1,
        tokens=lambda _item: TokenEstimate(50, 60, 150),
    )
    config = model(endpoint={"max_concurrency": 16, "tokens_per_minute": 6_000})
    done = run_virtually(run_cluster(tmp_path / "s.db", [(config, puppet, 240)]))
    assert done.count("predictions") == 240
    # 50 tokens each at 100 a second, of which a sixth of a minute's may go at once.
    assert 240 * 50 / 100 - 10 - 2 <= done.seconds <= 240 * 50 / 100 + 5


def test_a_refusal_pauses_all_workers(tmp_path: Path) -> None:
    def refuse_once(number: int, items: Any, _url: str) -> Reply:
        if number == 30:
            raise failure("rate_limit", 429, after=20.0)
        return reply(items)

    puppet = Puppet(refuse_once, latency_s=0.1)
    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), puppet, 200)]))
    assert done.count("predictions") == 200
    gap = max(later - earlier for earlier, later in zip(puppet.times, puppet.times[1:], strict=False))
    assert gap > 19.5
    assert len(done.told("cooldown")) == 1


def test_a_budget_holds_for_all_workers_together(tmp_path: Path) -> None:
    config = model(price={"usd_per_request": 0.01}, endpoint={"max_concurrency": 16})
    puppet = Puppet(lambda _n, items, _u: reply(items, prompt_tokens=10, completion_tokens=1), latency_s=0.1)
    done = run_virtually(run_cluster(tmp_path / "s.db", [(config, puppet, 200)], budget_usd=0.5))
    assert len(puppet.sent) == 50
    assert done.count("predictions") == 50
    assert done.budget.spent_usd == pytest.approx(0.5)
    assert done.budget.reserved_usd == pytest.approx(0.0)
    assert done.count("intents") == 0
    assert "budget of 0.5 USD" in done.states[0].why


def test_what_a_dead_worker_may_have_spent_counts_and_its_intents_stay(tmp_path: Path) -> None:
    config = model(price={"usd_per_request": 0.01}, endpoint={"max_concurrency": 8})
    puppet = Puppet(lambda _n, items, _u: reply(items, prompt_tokens=10), latency_s=1.0)

    async def kill(cluster: FakeCluster, _lanes: list[Any]) -> None:
        await asyncio.sleep(3.5)
        cluster.actors[1].kill(for_good=True)

    done = run_virtually(run_cluster(tmp_path / "s.db", [(config, puppet, 100)], meanwhile=kill, budget_usd=5))
    assert done.count("predictions") == 100
    lost = sum(puppet.times_asked().values()) - 100
    assert lost == 8
    assert done.count("intents") == lost
    assert done.budget.doubtful_usd == pytest.approx(lost * 0.01)
    assert done.budget.spent_usd == pytest.approx(1.0)
    assert done.budget.reserved_usd == pytest.approx(0.0)


def test_the_intent_of_a_priced_request_is_on_the_disk_before_it_is_sent(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "s.db"
    unknown: list[str] = []

    def look(_number: int, items: Any, _url: str) -> Reply:
        with sqlite3.connect(path) as connection:
            found = [row[0] for row in connection.execute("SELECT sentences FROM intents")]
        connection.close()
        unknown.extend(item.sentence for item in items if f'["{item.sentence}"]' not in found)
        return reply(items)

    config = model(price={"usd_per_request": 0.01}, endpoint={"max_concurrency": 4})
    run_virtually(run_cluster(path, [(config, Puppet(look, latency_s=0.1), 60)]))
    assert unknown == []


def test_a_stop_leaves_no_intent_of_what_was_not_sent(tmp_path: Path) -> None:
    """Grants on their way, and requests that wait for one, are taken back."""
    config = model(price={"usd_per_request": 0.01}, endpoint={"max_concurrency": 16, "requests_per_minute": 1_200})
    puppet = Puppet(lambda _n, items, _u: reply(items, prompt_tokens=1), latency_s=0.3)

    async def stop(_cluster: FakeCluster, lanes: list[Any]) -> None:
        await asyncio.sleep(3.01)
        lanes[0].stop()

    done = run_virtually(run_cluster(tmp_path / "s.db", [(config, puppet, 1_000)], meanwhile=stop))
    assert 20 < done.count("predictions") == len(puppet.sent) < 100
    assert done.count("intents") == 0
    assert done.budget.reserved_usd == pytest.approx(0.0)
    assert done.budget.spent_usd == pytest.approx(0.01 * len(puppet.sent))


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["quota", "auth", "retired"])
def test_what_ends_a_model_ends_it_at_all_workers_and_no_other_model(tmp_path: Path, kind: str) -> None:
    def refuse(number: int, items: Any, _url: str) -> Reply:
        if number >= 40:
            raise failure(kind, 401)
        return reply(items)

    bad, good = Puppet(refuse, latency_s=0.1), Puppet(latency_s=0.1)
    jobs = [(model("bad", **FREE), bad, 400), (model("good", **FREE), good, 400)]
    done = run_virtually(run_cluster(tmp_path / "s.db", jobs))
    assert len(bad.sent) <= 39 + 2 * 16
    assert done.count("predictions", "model = 'good'") == 400
    assert [state.phase for state in done.states] == ["stopped", "done"]
    assert len(done.told("lane_stopped")) == 1
    assert done.count("intents") == 0
    assert done.states[0].given_up + done.states[0].done + 400 - 400 <= 400


def test_a_dead_server_is_probed_and_nobodys_attempts_are_used(tmp_path: Path) -> None:
    loop_time = lambda: asyncio.get_running_loop().time()  # noqa: E731
    dead = [1_005.0, 1_065.0]

    def down() -> bool:
        return dead[0] <= loop_time() < dead[1]

    def refuse(_number: int, items: Any, _url: str) -> Reply:
        if down():
            raise failure("unreachable")
        return reply(items)

    def probe(_url: str) -> None:
        if down():
            raise failure("unreachable")

    puppet = Puppet(refuse, latency_s=0.1, probes=probe)
    config = model(endpoint={"max_concurrency": 8, "max_attempts": 1})
    done = run_virtually(run_cluster(tmp_path / "s.db", [(config, puppet, 1_600)]))
    assert done.count("predictions") == 1_600
    assert done.states[0].given_up == 0
    assert len(done.told("server_down")) == 2


def test_a_worker_that_alone_cannot_reach_the_server_gives_its_share_to_others(tmp_path: Path) -> None:
    cluster = FakeCluster()

    def cut_off() -> None:
        running = cluster.actors[0]._worker._lanes.get("m")
        task = asyncio.current_task()
        if running is not None and asyncio.get_running_loop().time() > START_S + 2:
            pool = running.admission.pool
            if task in pool._probes or task in pool.endpoints[0].asking:
                raise failure("unreachable")

    def answer(_number: int, items: Any, _url: str) -> Reply:
        cut_off()
        return reply(items)

    puppet = Puppet(answer, latency_s=0.1, probes=lambda _url: cut_off())
    config = model(endpoint={"max_concurrency": 8, "give_up_after_s": 5})
    done = run_virtually(run_cluster(tmp_path / "s.db", [(config, puppet, 2_000)], cluster=cluster))
    assert done.count("predictions") == 2_000
    assert done.states[0].phase == "done"
    assert done.states[0].given_up == 0
    assert done.count("intents") == 0
    assert len(done.told("server_down")) == 2  # down, and given up


def test_sentences_that_fail_stay_pending_with_their_reason(tmp_path: Path) -> None:
    def fail_some(_number: int, items: Any, _url: str) -> Reply:
        if any(item.sentence.endswith("3") for item in items):
            raise failure("permanent", 400)
        return reply(items)

    puppet = Puppet(fail_some, latency_s=0.1, batch_size=4)
    config = model(endpoint={"max_concurrency": 2, "batch_size": 4})
    done = run_virtually(run_cluster(tmp_path / "s.db", [(config, puppet, 100)]))
    assert done.count("predictions") == 90
    assert done.states[0].given_up == 10
    assert done.states[0].reasons == {"permanent: made-up permanent": 10}
    assert done.count("failures", "sentence LIKE '%3'") > 0


def test_a_model_that_no_worker_can_ask_is_left_out_with_the_reason(tmp_path: Path) -> None:
    def probe(_url: str) -> None:
        raise failure("auth", 401)

    jobs = [(model("bad", **FREE), Puppet(probes=probe), 10), (model("good", **FREE), Puppet(), 10)]
    done = run_virtually(run_cluster(tmp_path / "s.db", jobs))
    assert [state.model for state in done.states] == ["good"]
    (problem,) = done.told("problem")
    assert problem["model"] == "bad"
    assert "made-up auth" in problem["why"]


def test_the_first_signal_lets_what_is_in_flight_come_home_and_settles_the_rest(tmp_path: Path) -> None:
    puppet = Puppet(latency_s=0.5)

    async def stop(_cluster: FakeCluster, lanes: list[Any]) -> None:
        await asyncio.sleep(2.2)
        for lane in lanes:
            lane.stop()

    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), puppet, 5_000)], meanwhile=stop))
    assert done.count("predictions") == sum(puppet.times_asked().values())
    assert done.count("intents") == 0
    assert done.seconds < 4
    assert done.states[0].why == "interrupted"


def test_hostile_texts_come_through_as_they_are(tmp_path: Path) -> None:
    nasty = (
        "NUL \0, lone \ud800 surrogate, \x1b[31mred\x1b[0m, [bold]markup[/], '); DROP TABLE x; --, 🧨" + "x" * 200_000
    )

    def say(_number: int, items: Any, _url: str) -> Reply:
        return Reply([Answer(Status.ANSWERED, nasty) for _ in items], nasty.encode("utf-8", "surrogatepass"))

    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), Puppet(say, latency_s=0.1), 6)]))
    stored = done.rows("SELECT raw_text FROM predictions")
    assert len(stored) == 6
    for (raw,) in stored:
        text = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogatepass")
        assert text == nasty


def test_memory_of_the_driver_does_not_grow_with_the_work(tmp_path: Path) -> None:
    most = 0

    async def look(_cluster: FakeCluster, lanes: list[Any]) -> None:
        nonlocal most
        while True:
            await asyncio.sleep(0.05)
            out = sum(len(station.out) for station in lanes[0]._stations.values())
            most = max(most, out + len(lanes[0]._dealer._source._ready) * lanes[0]._dealer.chunk)

    run_virtually(run_cluster(tmp_path / "s.db", [(model(**FREE), Puppet(latency_s=0.02), 5_000)], meanwhile=look))
    assert 0 < most <= 2 * (8 + 2 * 16) + 2 * 512


# -- keys and servers ------------------------------------------------------------------------------------------------


def test_only_the_models_keys_travel_to_the_workers(tmp_path: Path) -> None:
    cluster = FakeCluster()
    config = model(endpoint={"max_concurrency": 2, "api_key_env": "MY_KEY"})
    environ = {"MY_KEY": "k-0123456789", "OPENAI_API_KEY": "sk-other-0123456789", "HOME": "/x"}
    run_virtually(run_cluster(tmp_path / "s.db", [(config, Puppet(), 5)], cluster=cluster, environ=environ))
    assert cluster.actors
    for actor in cluster.actors:
        assert [order.keys for order in actor.orders] == [{"MY_KEY": "k-0123456789"}]


def test_the_names_of_the_keys_are_those_that_the_adapters_read() -> None:
    assert DEFAULT_KEYS == {
        "openai-chat": openai_endpoint.DEFAULT_KEY,
        "openai-moderation": openai_endpoint.DEFAULT_KEY,
        "perspective": perspective.DEFAULT_KEY,
    }


def test_a_node_with_another_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hatevolution.runner.ray_cluster import worker

    class Other:
        __version__ = "0.0.1"

    monkeypatch.setattr(worker, "hatevolution", Other)
    done = run_virtually(run_cluster(tmp_path / "s.db", [(model(), Puppet(), 5)]))
    (problem,) = done.told("problem")
    assert "has hatevolution 0.0.1" in problem["why"]
    assert done.count("predictions") == 0


def served(name: str, *gpus: int, urls: int = 1, **server: Any) -> Any:
    addresses = [f"http://127.0.0.1:{8000 + number}/v1" for number in range(urls)]
    return model(
        name,
        adapter="vllm-completions",
        prompt="paper-open",
        endpoint={"base_urls": addresses},
        server={"gpus": list(gpus), **server},
    )


@pytest.mark.parametrize(
    ("models", "nodes", "expected"),
    [
        ([served("a", 0)], [{"GPU": 4}, {"GPU": 2}], {"a": (1, 6)}),
        ([served("a")], [{"GPU": 1}, {"CPU": 8}], {"a": (1, 1)}),
        ([served("a", 0, 1), served("b", 3)], [{"GPU": 4}, {"GPU": 3}], {"a": (2, 1), "b": (1, 3)}),
        ([served(name, 0) for name in "abc"], [{"GPU": 2}], {"a": (1, 1), "b": (1, 1), "c": (1, 1)}),
        ([served("a", 0, 1, urls=2)], [{"GPU": 8}], {"a": (2, 4)}),
        # No GPU in the cluster and none named: a server for the CPU.
        ([served("a")], [{"CPU": 8}], {"a": (0, 1)}),
        # vLLM spreads it by itself.
        ([served("a", 0, extra_args=["--distributed-executor-backend=ray"])], [{"GPU": 8}], {"a": (0, 1)}),
        ([served("a", 0, extra_args=["--distributed-executor-backend", "mp"])], [{"GPU": 8}], {"a": (1, 8)}),
    ],
)
def test_gpus_are_shared_out(models: Any, nodes: Any, expected: dict[str, tuple[int, int]]) -> None:
    found = needs(models, nodes)
    assert {name: (need.gpus, need.workers) for name, need in found.items()} == expected
    assert not any(need.problem for need in found.values())


@pytest.mark.parametrize("nodes", [[{"GPU": 1}, {"GPU": 1}], [{"CPU": 4}]])
def test_a_model_that_fits_on_no_node_says_so(nodes: Any) -> None:
    assert "needs 2 GPUs on one node" in str(needs([served("a", 0, 1)], nodes)["a"].problem)


async def test_a_server_gets_free_ports_and_the_gpus_that_ray_chose() -> None:
    config = served("a", 2, 3, urls=2)
    moved = await on_this_machine(config)
    assert moved.server is not None
    assert moved.server.gpus == (0, 1)
    ports = {int(url.rsplit(":", 1)[1].removesuffix("/v1")) for url in moved.endpoint.base_urls}
    assert len(ports) == 2
    assert ports.isdisjoint({8000, 8001})
    assert specification(config, None) == specification(moved, None)


async def test_a_server_that_somebody_runs_is_used_where_it_is() -> None:
    async with FakeVllm() as server:
        config = model(
            adapter="vllm-completions", prompt="paper-open", endpoint={"base_urls": [server.base_url]}, server={}
        )
        assert await on_this_machine(config) == config


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["x.toml", "quickstart", "10.0.0.1", "ray://10.0.0.1:10001", ""])
def test_what_is_no_address_is_refused_with_what_would_be_one(address: str) -> None:
    with pytest.raises(ConfigError, match="--ray"):
        ray_options(address)


@pytest.mark.parametrize("address", ["local", "auto", "10.0.0.1:6379", "head.cluster:6379", "[::1]:6379"])
def test_addresses(address: str) -> None:
    assert ray_options(address, 3) == (address, 3)


def test_folders_of_killed_runs_are_removed_and_those_of_living_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(connect, "_ROOT_MOST", 1_000)
    killed = tmp_path / f"hate-ray-{os.getuid()}-killed"
    killed.mkdir()
    (killed / "lock").touch()
    (killed / "session").mkdir()
    with connect._folder() as living:
        assert not killed.exists()
        with connect._folder() as other:
            assert living.exists()
            assert other != living
        assert not other.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_long_temporary_folder_is_not_used_since_sockets_need_short_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    with connect._folder() as folder:
        assert folder.parent == Path("/tmp")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_without_the_package_it_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options_module, "find_spec", lambda _name: None)
    project = Project(tmp_path)
    project.dataset(count=2)
    project.model("m", adapter="scripted")
    done = project.command("--ray")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'hatevolution[ray]'" in done.stderr
    assert not project.store.exists()


def test_the_number_of_workers_goes_with_a_cluster(tmp_path: Path) -> None:
    done = hatevolution("run", "quickstart", "--store", str(tmp_path / "s.db"), "--ray-workers", "2")
    assert done.returncode == 2
    assert "--ray" in done.stderr


def test_a_run_on_one_machine_does_not_import_ray(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.dataset(count=2)
    project.model("m", adapter="scripted")
    script = (
        "import sys\nfrom hatevolution.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit as end: code = end.code\n"
        "assert code == 0, code\nassert not [name for name in sys.modules if name.partition('.')[0] == 'ray']\n"
    )
    arguments = ["run", str(project.experiment), "--store", str(project.store)]
    done = subprocess.run([sys.executable, "-P", "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Counter(project.rows("SELECT status FROM predictions")) == {("answered",): 2}
