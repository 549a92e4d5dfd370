"""The one order in which a federation runs its rounds, in the simulator and between machines alike.

Each round is measured, decided and then

    checked       would the ledger accept it? If not, the round is discarded
    checkpointed  from here on it survives a crash, with the time that its entry will state
    settled       entered in the ledger; doing it twice changes nothing, and doing it again makes the same entry
    told          announced to the clients, with their statements
    reported      to the caller; after the last round, as the run report

A session that was killed continues after the last round in its checkpoint: settling and announcing that round again
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from commonweal.decision.mechanism import RoundDecider
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import FederationError
from commonweal.federation.agreed import plan_by_terms
from commonweal.federation.checkpoint import CheckpointFile
from commonweal.federation.client_set import ClientSet
from commonweal.federation.evidence import measured_ending, measured_evidence
from commonweal.federation.fates import KnownFates, events_of, known_fates
from commonweal.federation.measuring import Watch, measure_round
from commonweal.federation.round_result import MeasuredRound, RoundResult, rules_in_force
from commonweal.federation.run_report import make_run_report
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.silence import KeptOut
from commonweal.records import Decision, Instructions, RoundRecord, RunReport
from commonweal.report.text import counted
from commonweal.report.write import write_all
from commonweal.scenario.description import Description
from commonweal.scenario.spec import FederationPlan

Check = Callable[[RoundRecord, MeasuredRound], None]
OnRound = Callable[[RoundResult], None]
PlanOf = Callable[[int], FederationPlan]
"""The plan for a round: what was agreed on may change while a federation runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A federation from its first round to its run report."""

    clients: ClientSet
    plan: FederationPlan
    description: Description
    checkpoint: CheckpointFile | None = None  # None: nothing is kept
    ledger: FederationLedger | None = None  # None: nothing is settled
    owns_ledger: bool = False  # refuse a ledger with rounds that the checkpoint does not have
    watch: Watch | None = None
    on_resume: Callable[[Sequence[RoundResult]], None] | None = None
    on_round: OnRound | None = None
    on_first_round: Callable[[], None] | None = None  # before the first checkpoint of a new session is written

    def run(self, *, resume: bool, directory: Path | None = None) -> RunReport:
        """Run the rounds that are left, and write the run report into `directory`."""
        results = self._resumed() if resume else []
        self._check_ledger(results)
        if results:
            self._catch_up(results)
        for result in run_rounds(
            self.clients,
            self.plan,
            completed=results,
            check=self._check,
            watch=self.watch,
            plan_of=self._plan_of,
            kept_out=self._kept_out,
        ):
            if not results and self.on_first_round is not None:
                self.on_first_round()
            if self.ledger is not None:
                result = replace(result, settled_at=self.ledger.now())
            results.append(result)
            if self.checkpoint is not None:
                self.checkpoint.save(results, self.clients.save())
            self._settle(result)
            self._tell(result)
            if self.on_round is not None:
                self.on_round(result)
        report = make_run_report(self._plan_of(max(len(results), 1)), self.description, results)
        if directory is not None:
            write_all(report, directory)
        return report

    def _resumed(self) -> list[RoundResult]:
        assert self.checkpoint is not None, "only a session with a checkpoint can be resumed"
        results, state = self.checkpoint.load(lambda number: self._plan_of(number).mechanism.rules)
        self.clients.restore(len(results), state)
        return results

    def _check_ledger(self, results: Sequence[RoundResult]) -> None:
        """Before anybody trains, check that the ledger can accept this session's rounds."""
        if self.ledger is None:
            return
        self.ledger.check_rules()
        if self.owns_ledger:
            unknown = self.ledger.settled_rounds - {result.record.round_number for result in results}
            if unknown:
                raise FederationError(
                    f"Round {min(unknown)} is settled in the ledger, but the checkpoint has only "
                    f"{counted(len(results), 'round')}. Restore the checkpoint that belongs to this ledger, or start "
                    "again with another results folder, another ledger and new member folders."
                )

    def _plan_of(self, round_number: int) -> FederationPlan:
        """The plan by the terms in force for a round: they may have been amended since the plan was made."""
        if self.ledger is None or self.ledger.agreed is None:
            return self.plan
        in_force = self.ledger.agreed_for(round_number)
        return self.plan if in_force is None else plan_by_terms(self.plan, self.ledger.agreed, in_force)

    def _kept_out(self, round_number: int) -> KeptOut:
        """Who gets no model in a round, after those who owe a report were asked for it once more."""
        if self.ledger is None:
            return KeptOut()
        out = self.ledger.kept_out(round_number)
        if not out.owing:
            return out
        for late in self.clients.late_reports(out.owing, self.ledger.statement_part):
            self.ledger.report_late(late.client, late.round_number, late.document, late.signature)
        return self.ledger.kept_out(round_number)

    def _catch_up(self, results: Sequence[RoundResult]) -> None:
        """Repeat what may have been interrupted after the last checkpoint."""
        for result in results:
            self._settle(result)
        if self.on_resume is not None:
            self.on_resume(results)
        self._tell(results[-1])

    def _check(self, record: RoundRecord, measured: MeasuredRound) -> None:
        if self.ledger is not None:
            self.ledger.check_round(
                record, measured.sample_counts, measured.signatures, measured.bases, measured.unused_reports
            )

    def _settle(self, result: RoundResult) -> None:
        if self.ledger is None:
            return
        self.ledger.settle(
            result.record,
            result.sample_counts,
            result.signatures or None,
            result.bases,
            result.unused_reports,
            at=result.settled_at,
        )
        for client, notice in result.withdrawals.items():
            self.ledger.withdraw(client, result.record.round_number, notice, at=result.settled_at)

    def _tell(self, result: RoundResult) -> None:
        if self.ledger is not None:
            self.clients.tell(result.record, self.ledger.statement_part)


def run_rounds(
    clients: ClientSet,
    plan: FederationPlan,
    *,
    completed: Sequence[RoundResult] = (),
    check: Check | None = None,
    watch: Watch | None = None,
    plan_of: PlanOf | None = None,
    kept_out: Callable[[int], KeptOut] | None = None,
) -> Iterator[RoundResult]:
    """Run the rounds after the completed ones, one at a time.

    They end with the last one, when fewer than two clients are left, or when the federation is finished.

    `check` may refuse a decided round before the clients adopt it. `plan_of` is asked for the plan before each round,
    and `kept_out` for the clients that get no model in it.
    """
    decider = RoundDecider(make_mechanism(rules_in_force(plan, completed)))
    active = list(plan.client_names)
    results = list(completed)
    for earlier in completed:
        decider.mechanism = make_mechanism(earlier.record.decision.rules)
        decider.advance(
            earlier.record.decision,
            sample_counts=earlier.sample_counts,
            round_number=earlier.record.round_number,
        )
        active = [client for client in active if client not in earlier.record.left]
    for round_number in count(len(completed) + 1):
        if plan_of is not None:
            plan = plan_of(round_number)
            decider.mechanism = make_mechanism(rules_in_force(plan, completed))
        out = KeptOut() if kept_out is None else kept_out(round_number)
        active = [client for client in active if client not in out.excluded]
        if round_number > plan.round_count or len(active) < 2 or (results and results[-1].record.decision.finished):
            return
        results.append(
            run_round(
                clients,
                plan,
                decider,
                round_number,
                active,
                earlier=results,
                check=check,
                watch=watch,
                kept_out=out,
                instructions=results[-1].record.instructions if results else None,
            )
        )
        active = [client for client in active if client not in results[-1].record.left]
        yield results[-1]


def run_round(
    clients: ClientSet,
    plan: FederationPlan,
    decider: RoundDecider,
    round_number: int,
    active: Sequence[str],
    *,
    earlier: Sequence[RoundResult] = (),
    check: Check | None = None,
    watch: Watch | None = None,
    kept_out: KeptOut | None = None,
    instructions: Instructions | None = None,
) -> RoundResult:
    """Measure one round, decide it, and let the clients adopt it; clients that are `kept_out` get no model.

    `instructions` are what the mechanism decided about this round after the one before it.
    """
    out = KeptOut() if kept_out is None else kept_out
    gains = [result.record.gains for result in earlier]
    asked = (Instructions() if instructions is None else instructions).asked(active)
    measured = measure_round(
        clients, plan, round_number, asked, earlier=gains, watch=watch, owing=out.owing, instructions=instructions
    )
    known = known_fates(measured, plan, [result.scored for result in earlier])
    record = decided(measured, decider, plan, known)
    record = replace(
        record,
        excluded=tuple(client for client in record.silent if client in out.at_the_limit),
        resting=tuple(client for client in active if client not in asked),
    )
    left = record.left
    planned = decider.plan(
        record.decision,
        [client for client in active if client not in left],
        sample_counts=measured.sample_counts,
        round_number=round_number,
    )
    record = replace(record, instructions=planned)
    if check is not None:
        check(record, measured)
    return RoundResult.of(measured, record, events=(*clients.close_round(record), *events_of(record)))


def decided(measured: MeasuredRound, decider: RoundDecider, plan: FederationPlan, known: KnownFates) -> RoundRecord:
    """The measured round with its decision, and how sure that is."""
    state = decider.state
    decision = decide_measured(measured, decider, plan, known)
    return RoundRecord(
        round_number=measured.round_number,
        decision=decision,
        absent=measured.absent,
        silent=measured.silent,
        withdrawn=tuple(client for client in decision.retained if client in measured.withdrawals),
        evidence=measured_evidence(
            decision,
            decider.mechanism,
            state,
            measured.measured,
            round_number=measured.round_number,
            profit_draws=measured.profit_draws,
            contribution_draws=measured.contribution_draws,
            expected_draws=measured.expected_draws,
        ),
        gains=measured.gains,
        harm=known.harm,
        ending=known.ending,
        ending_stability=None
        if known.ending is None
        else measured_ending(decision, measured.measured, measured.expected_draws),
    )


def decide_measured(
    measured: MeasuredRound, decider: RoundDecider, plan: FederationPlan, known: KnownFates
) -> Decision:
    """The decision on a measured round."""
    return decider.decide(
        measured.figures,
        grace=measured.round_number <= plan.mechanism.grace_rounds,
        sample_counts=measured.sample_counts,
        harmful=known.harmful,
        finished=known.finished,
        round_number=measured.round_number,
    )
