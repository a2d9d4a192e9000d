"""A budget can't be overspent, with any number of requests in flight; what each answer cost is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from run_maker import Puppet, answer, failure, model, reply, run_lanes
from virtual_loop import run_virtually

from hatevolution.configs.schema import Price
from hatevolution.domain import Reply, TokenEstimate
from hatevolution.runner.budget import Budget, cost_of, likely_cost, most_cost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hatevolution.domain import Item

GPT_4O = Price(input_usd_per_million_tokens=2.5, output_usd_per_million_tokens=10.0)


# -- costs, computed by hand -----------------------------------------------------------------------------------------


def test_costs_follow_the_price_list() -> None:
    estimate = TokenEstimate(100, 250, 20)
    assert most_cost(GPT_4O, estimate) == pytest.approx(250 * 2.5e-6 + 20 * 10e-6)
    assert likely_cost(GPT_4O, estimate, 4) == pytest.approx(100 * 2.5e-6 + 4 * 10e-6)
    said = Reply([answer()], "{}", prompt_tokens=80, completion_tokens=3)
    assert cost_of(GPT_4O, said, 1.0) == pytest.approx(80 * 2.5e-6 + 3 * 10e-6)


def test_a_price_per_request_counts_once() -> None:
    price = Price(usd_per_request=0.25)
    assert most_cost(price, TokenEstimate(9, 9, 9)) == 0.25
    assert cost_of(price, Reply([answer()], "{}", prompt_tokens=5), 1.0) == 0.25


def test_what_has_no_price_is_free_and_what_gives_no_usage_costs_the_most() -> None:
    assert most_cost(None, TokenEstimate(9, 9, 9)) == 0
    assert cost_of(None, Reply([answer()], "{}", prompt_tokens=5), 1.0) is None
    assert cost_of(GPT_4O, Reply([answer()], "{}"), 0.125) == 0.125


# -- the budget, step by step ----------------------------------------------------------------------------------------

AMOUNTS = st.floats(0, 1, allow_nan=False)


class BudgetMachine(RuleBasedStateMachine):
    """Requests are admitted, answered for at most what was set aside, or lost; in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(2.5)
        self.flying: list[float] = []
        self.spent = self.doubtful = 0.0

    @rule(most=AMOUNTS)
    def send(self, most: float) -> None:
        before = self.spent + self.doubtful + sum(self.flying)
        if self.budget.reserve(most):
            self.flying.append(most)
        else:
            assert before + most > 2.5 - 1e-9

    @precondition(lambda self: self.flying)
    @rule(share=st.floats(0, 1), which=st.integers(0, 10**6))
    def answered(self, share: float, which: int) -> None:
        most = self.flying.pop(which % len(self.flying))
        self.budget.settle(most, most * share)
        self.spent += most * share

    @precondition(lambda self: self.flying)
    @rule(billed=st.booleans(), which=st.integers(0, 10**6))
    def lost(self, billed: bool, which: int) -> None:
        most = self.flying.pop(which % len(self.flying))
        self.budget.release(most, maybe_billed=billed)
        self.doubtful += most * billed

    @invariant()
    def never_overspent(self) -> None:
        assert self.spent + self.doubtful + sum(self.flying) <= 2.5 * (1 + 1e-9)
        assert self.budget.spent_usd == pytest.approx(self.spent)
        assert self.budget.doubtful_usd == pytest.approx(self.doubtful)
        assert self.budget.committed_usd == pytest.approx(self.spent + self.doubtful + sum(self.flying))

    @rule(most=AMOUNTS)
    def hopeless_means_never(self, most: float) -> None:
        if self.budget.hopeless(most):
            assert self.spent + self.doubtful + most > 2.5 - 1e-9


TestBudgetMachine = BudgetMachine.TestCase
TestBudgetMachine.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def test_without_a_limit_everything_fits() -> None:
    budget = Budget(None)
    assert all(budget.reserve(1e9) for _ in range(10))
    assert not budget.hopeless(1e12)


def test_the_whole_budget_can_be_spent() -> None:
    """Ten dimes make a dollar, whatever binary fractions say."""
    budget = Budget(1.0)
    for _ in range(10):
        assert budget.reserve(0.1)
        budget.settle(0.1, 0.1)
    assert not budget.reserve(0.1)


# -- whole runs ------------------------------------------------------------------------------------------------------

DIME = {"usd_per_request": 0.1}


@settings(max_examples=12, deadline=None)
@given(concurrency=st.integers(1, 40), dimes=st.integers(0, 30), faults=st.integers(0, 5))
def test_a_run_sends_no_request_that_the_budget_does_not_cover(
    tmp_path_factory: pytest.TempPathFactory, concurrency: int, dimes: int, faults: int
) -> None:
    path = tmp_path_factory.mktemp("budget") / "s.db"

    def answers(number: int, items: Sequence[Item], _url: str) -> Reply:
        if faults and number % 7 < faults and number % 7:
            raise failure("timeout", maybe_billed=True)
        return reply(items, prompt_tokens=1)

    puppet = Puppet(answers, latency_s=1.0)
    config = model(price=DIME, endpoint={"max_concurrency": concurrency, "max_attempts": 3})
    outcome = run_virtually(run_lanes(path, [(config, puppet, 25)], budget_usd=dimes / 10))
    budget = outcome.budget
    assert len(puppet.sent) <= dimes  # every one may have been billed
    assert budget.spent_usd + budget.doubtful_usd == pytest.approx(len(puppet.sent) / 10)
    assert budget.reserved_usd == pytest.approx(0)
    recorded = outcome.rows("SELECT coalesce(sum(cost_usd), 0), count(*) FROM responses")[0]
    assert recorded == (pytest.approx(budget.spent_usd), outcome.count("predictions"))
    (state,) = outcome.states
    if outcome.count("predictions") < 25 and not outcome.count("failures"):
        assert state.phase == "stopped"
        assert "budget" in state.why
        assert len(puppet.sent) == dimes  # all of it was used


def test_lanes_share_one_budget(tmp_path: Path) -> None:
    puppets = [Puppet(lambda _n, items, _u: reply(items, prompt_tokens=1), latency_s=0.3 + n) for n in range(3)]
    models = [
        (model(f"m{n}", price=DIME, endpoint={"max_concurrency": 5}), puppet, 20) for n, puppet in enumerate(puppets)
    ]
    free = Puppet(latency_s=0.1)
    outcome = run_virtually(run_lanes(tmp_path / "s.db", [*models, (model("free"), free, 20)], budget_usd=1.25))
    assert sum(len(puppet.sent) for puppet in puppets) == 12
    assert outcome.budget.spent_usd == pytest.approx(1.2)
    assert len(free.sent) == 20  # what costs nothing goes on
    assert [state.phase for state in outcome.states] == ["stopped", "stopped", "stopped", "done"]


def test_no_budget_sends_nothing_that_costs(tmp_path: Path) -> None:
    puppet = Puppet()
    outcome = run_virtually(run_lanes(tmp_path / "s.db", [(model(price=DIME), puppet, 5)], budget_usd=0.0))
    assert puppet.sent == []
    assert outcome.told("lane_stopped")[0]["kind"] == "quota"


def test_unused_reserves_let_more_requests_through(tmp_path: Path) -> None:
    """Estimates are twenty times too high; the budget is spent all the same."""
    price = {"input_usd_per_million_tokens": 1e6}

    def tokens(_item: Item) -> TokenEstimate:
        return TokenEstimate(1, 20, 0)

    puppet = Puppet(lambda _n, items, _u: reply(items, prompt_tokens=1), latency_s=1.0, tokens=tokens)
    config = model(price=price, endpoint={"max_concurrency": 10})
    outcome = run_virtually(run_lanes(tmp_path / "s.db", [(config, puppet, 100)], budget_usd=60.0))
    # 3 fit at first; at the end 20 have to be left for one more.
    assert len(puppet.sent) == 41
    assert outcome.budget.spent_usd == pytest.approx(41)
