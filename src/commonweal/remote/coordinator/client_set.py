"""The clients on other machines as the session's client set: what is asked in a round, and what the answers mean."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from commonweal.client.work import told
from commonweal.errors import FederationError
from commonweal.federation.client_set import (
    Coalition,
    LateReport,
    Opening,
    ProfitReport,
    ScorerEffects,
    State,
    StatementOf,
    ToldGains,
    Training,
)
from commonweal.learning.algorithms import make_algorithm
from commonweal.learning.path import RoundPath, norm
from commonweal.learning.vectors import ArrayLayout, Packing, one_thread
from commonweal.ledger.member_documents import SignedTable, WithdrawalNotice
from commonweal.ledger.reports import SignedReport, report_attempt
from commonweal.records import FINISHED, AgreedRates, Event, RoundRecord
from commonweal.remote.coordinator.answer_rules import (
    MOST_VALIDATION_SAMPLES,
    BrokenRuleError,
    count_in,
    document_in,
    gradient_in,
    measures_in,
    memory_in,
    model_in,
    notes_in,
    text_in,
)
from commonweal.remote.coordinator.attempts import (
    LedgerInForce,
    NoLedger,
    ReportQuestion,
)
from commonweal.remote.coordinator.coalition_models import are_local_models_known
from commonweal.remote.coordinator.confirmed_heads import ConfirmedHeads
from commonweal.remote.coordinator.exchange import Exchange, Question
from commonweal.remote.coordinator.federation_file import Federation
from commonweal.remote.coordinator.late_reports import LateReports, OwedReport
from commonweal.remote.coordinator.passed_heads import PassedHeads
from commonweal.remote.coordinator.report_reading import ReportReading
from commonweal.remote.coordinator.settled_clients import SettledClients, arrays_named
from commonweal.remote.coordinator.statement_delivery import StatementDelivery
from commonweal.remote.messages.answer_limit import GroupLimit
from commonweal.remote.messages.message import (
    CLOSE,
    EVALUATE,
    GRADIENT,
    OPEN,
    RECEIPT,
    REPORT,
    SUMMARISE,
    TRAIN,
    Message,
)
from commonweal.remote.messages.settings_hash import settings_hash
from commonweal.remote.transport import NoAnswer, Transport
from commonweal.task.measured import Measured
from commonweal.task.models import checked_model, fingerprint
from commonweal.task.records import Agree, InitialModel, Model, TaskPlan
from commonweal.valuation.bootstrap import DRAW_COUNT, resampling_weights

Result = TypeVar("Result")
_SILENT = "silent: had the round's model, and no report of it counts"
_SETTLED = "settled with this member, as told again before the next round"


class RemoteClients:
    """The members of a federation, each on its own machine."""

    def __init__(
        self,
        transport: Transport,
        federation: Federation,
        ledger: str,
        say: Callable[[str], None] = lambda line: None,
        make_layout: Callable[[Model], Packing] = ArrayLayout,
        settled_in: LedgerInForce | None = None,
        confirmed_heads: Path | None = None,
    ) -> None:
        self._settled_in = NoLedger() if settled_in is None else settled_in
        self._heads = PassedHeads(ledger, federation.keys)
        self.confirmed = ConfirmedHeads(self._settled_in, ledger, confirmed_heads)
        self._late = LateReports(ledger, federation.keys, say)
        self._given: dict[str, tuple[str, Model]] = {}  # the last adopted model that each client has a part in
        self._make_layout = make_layout
        self._exchange = Exchange(transport, federation, self._settled_in, say)
        self._say = say
        self._federation = federation
        self._ledger = ledger  # its identity, which reports and notices are signed for
        self._metric = federation.task.metric
        self._statements = StatementDelivery(say)
        self._statement_of: StatementOf | None = None  # None: nothing was settled in a ledger
        self._untold: set[str] = set()  # clients that answered no statement since the federation was resumed
        self._agreed: Mapping[str, Any] = {}  # what the members' data have in common
        self._shared: Model = {}  # the federation's model
        self._adopted: Coalition = frozenset()  # the clients whose merged model it is
        self._shared_hash = ""
        self._settled = SettledClients(keeps_draws=federation.mechanism.rates is not None)
        self._new_memories: dict[str, NDArray[Any]] = {}  # in this round, of algorithms whose server reads them
        self._rates: AgreedRates | None = None  # by which reports were asked for last
        self._reports: dict[str, SignedReport] = {}  # the last one of each client
        self._round = 0
        self._attempt = ""  # names an opening of the round
        self._valuation = 0  # how often reports were asked for since
        self._terms = ""  # hash of those that the round was opened under
        self._opening_hash = ""
        self._opening_model: Model = {}
        self._local: dict[str, Model] = {}
        self._sizes: dict[str, float] = {}
        self._validation_counts: dict[str, int] = {}
        self._sample_counts: dict[str, int] = {}
        self._asked: list[Coalition] = []  # since the last iteration
        self._whole: dict[tuple[str, str], Measured] = {}  # of whole models, by client and hash
        self._path: RoundPath | None = None  # of this round, where contributions are measured by path

    def start(self, initial: InitialModel, agree: Agree | None, task: str = "the task") -> None:
        """Before the first round: agree on what the members' data have in common, and make the first model."""
        if agree is not None:
            names = self._federation.client_names
            questions: dict[str, Question] = {client: ({}, []) for client in self._exchange.present(names)}
            summaries = self._ask(SUMMARISE, questions, lambda client, answer: document_in(answer, "summary"))
            if not summaries:
                raise FederationError("No member sent a summary of its data. Start the members, then try again.")
            with told("agree", task):
                agreed = agree({name: summaries[name] for name in names if name in summaries})
                self._agreed = json.loads(json.dumps(agreed))
        plan = TaskPlan(seed=self._federation.seed, settings=self._federation.task.settings, agreed=dict(self._agreed))
        with told("initial_model", task):
            first = checked_model(initial(plan), "initial_model")
        self._use(first)

    def _use(self, shared: Model) -> None:
        """Make this the federation's model."""
        self._shared, self._shared_hash = dict(shared), fingerprint(shared)
        self._layout = self._make_layout(self._shared)
        learning = self._federation.learning
        self._algorithm = make_algorithm(
            learning.algorithm, self._layout, learning_rate=learning.learning_rate, parameters=learning.parameters
        )

    def open_round(
        self, round_number: int, clients: Sequence[str], data_shares: Mapping[str, float]
    ) -> Mapping[str, Opening]:
        assert not data_shares, "a federation file is refused if its mechanism decides about data"
        there = self._exchange.present(clients)
        self._tell_again(there)
        self._round, self._attempt, self._valuation = round_number, secrets.token_hex(8), 0
        self._terms, self._opening_hash = self._settled_in.terms_hash, self._shared_hash
        self._opening_model = self._shared
        self._exchange.start_round(round_number)
        self._local, self._whole = {}, {}
        self._new_memories = {}
        if self._federation.mechanism.uses_gradients:
            placeholders = self._layout.statistics if round_number == 1 else slice(0, 0)
            start = self._layout.pack(self._shared)
            self._path = RoundPath(start, clients, self._algorithm.averaged, placeholders)
        head = self._settled_in.head().decode()
        for client in clients:
            if client not in there:
                self._exchange.note(client, NoAnswer(kind="absent", reason="its SuperNode was not connected"))
        questions = {
            client: (
                {
                    **self._settlement_of(client),
                    "agreed": json.dumps(self._agreed),
                    "terms": self._terms,
                    "ledger_head": head,
                    **self._heads.fields(client, clients),
                },
                [self._shared_hash],
            )
            for client in clients
            if client in there
        }
        expected = self._expected_measures(1, MOST_VALIDATION_SAMPLES)
        return self._ask(OPEN, questions, self._opening, expected=expected)

    def train(self, round_number: int, iteration: int, clients: Sequence[str]) -> Mapping[str, Training]:
        self._asked, self._local = [], {}
        questions = {client: ({"iteration": iteration}, [self._shared_hash]) for client in clients}
        groups: dict[str, Model] = {}
        if self._algorithm.server_reads_memories:
            groups["served"] = {"served": self._served(clients)}
        expected = {"local": GroupLimit.like(self._shared)}
        if self._algorithm.server_reads_memories:
            expected["memory"] = GroupLimit.like({"memory": self._first_memory()})
        trained = self._ask(TRAIN, questions, self._training, groups=groups, expected=expected)
        if self._path is not None and trained:
            local = {client: self._layout.pack(self._local[client]) for client in trained}
            self._path.add(self._layout.pack(self._shared), local, self._sizes)
        return trained

    def evaluate(
        self, round_number: int, coalitions: Sequence[Coalition], clients: Sequence[str]
    ) -> Mapping[str, Mapping[Coalition, Measured]]:
        self._asked += [coalition for coalition in coalitions if coalition not in self._asked]
        if not are_local_models_known(self._asked):
            return self._evaluate_whole([(c, self._aggregate(c)) for c in coalitions], clients)
        if self._federation.mechanism.figures == "measured" or self._adopted not in coalitions:
            return self._evaluate_by_weights(coalitions, clients)
        # Members compare the table of gains with their own scores of the adopted model itself.
        adopted = self._evaluate_whole([(self._adopted, self._shared)], clients)
        others = [coalition for coalition in coalitions if coalition != self._adopted]
        if not others:
            return adopted
        weighed = self._evaluate_by_weights(others, list(adopted))
        return {client: {**adopted[client], **weighed[client]} for client in weighed}

    def path_effects(self, round_number: int, clients: Sequence[str]) -> Mapping[str, ScorerEffects]:
        """Members get the model half-way along the round, and no local model of anybody else."""
        assert self._path is not None, "the path is kept where contributions are measured by it"
        end = self._layout.pack(self._shared)
        model = self._layout.unpack(self._path.midpoint(end))
        digest = fingerprint(model)
        like = end[self._algorithm.averaged].numpy()
        questions: dict[str, tuple[Mapping[str, Any], Sequence[str]]] = {client: ({}, [digest]) for client in clients}
        expected = {"gradient": GroupLimit.like({"gradient": like})}
        answers = self._ask(
            GRADIENT, questions, lambda client, answer: gradient_in(answer, like), {digest: model}, expected=expected
        )
        gradients = {client: torch.from_numpy(gradient) for client, gradient in answers.items()}
        sizes = {client: self._sizes[client] for client in clients}
        with one_thread():
            effects = self._path.effects(list(gradients.values()), sizes)
        return {
            client: ScorerEffects(effects=row, gradient_norm=norm(gradient))
            for row, (client, gradient) in zip(effects, gradients.items(), strict=True)
        }

    def similarities(self, clients: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        raise AssertionError("a federation file is refused if its mechanism reads similarities")

    def adopt(self, coalition: Coalition) -> None:
        self._adopted = coalition
        self._shared = self._aggregate(coalition)
        self._shared_hash = fingerprint(self._shared)
        self._given |= dict.fromkeys(coalition, (self._shared_hash, self._shared))

    def report(
        self, round_number: int, clients: Sequence[str], told: ToldGains | None, rates: AgreedRates | None
    ) -> Mapping[str, ProfitReport]:
        """If a client dropped out late, the others have not scored the adopted model yet: ask for that first."""
        unscored = [client for client in clients if (client, self._shared_hash) not in self._whole]
        if unscored:
            scored = self._evaluate_whole([(frozenset(), self._shared)], unscored)
            clients = [client for client in clients if client not in unscored or client in scored]
        self._rates = rates
        self._valuation += 1  # after a client dropped out, this is another attempt for the others
        adopted = {"adopted": self._shared_hash, "valuation": self._valuation}
        questions = {
            client: ({**adopted, **self._told_fields(client, told), **self._rates_of(client)}, [self._shared_hash])
            for client in clients
        }
        reading = ReportReading(
            federation=self._federation,
            settled=self._settled,
            question=self._report_question(),
            rates=rates,
            told=told,
            table=None if told is None else SignedTable.of(told.gains, round_number),
        )
        expected = {"alone": GroupLimit.of_doubles(1, DRAW_COUNT)}
        reports = self._ask(REPORT, questions, partial(self._report_in, reading), expected=expected)
        self._acknowledge({client: report.signature for client, report in reports.items() if report.signature})
        return reports

    def _acknowledge(self, signatures: Mapping[str, str]) -> None:
        """Send receipts at once, before anything is decided: a member may need one to show that it was not absent."""
        receipts = {
            client: self._settled_in.receipt(self._round, client, signature).decode()
            for client, signature in signatures.items()
        }
        fields = {c: self._common(c) | {"receipt": receipt} for c, receipt in receipts.items() if receipt}
        self._exchange.tell(RECEIPT, fields)

    def _told_fields(self, client: str, told: ToldGains | None) -> dict[str, Any]:
        """The gain that the client's profit is to follow from, with everybody's as measured, so that it can check."""
        if told is None:
            return {}
        pooled, expected = told.gains.used(client)
        table = told.gains.table_document(self._round)
        return {"gains": json.dumps({"table": table, "pooled": pooled, "expected": expected})}

    def _rates_of(self, client: str) -> dict[str, Any]:
        """The agreed rates that the client's profit is to follow from; nothing if profits are private."""
        own = None if self._rates is None else self._rates.of(client)
        return {} if own is None else {"rates": json.dumps(asdict(own))}

    def close_round(self, record: RoundRecord) -> tuple[Event, ...]:
        if self._settled_in.terms_hash != self._terms:
            raise FederationError(
                f"The terms of the ledger changed while round {record.round_number} was under way, so its reports do "
                "not count. Resume: the round is run again under the new terms."
            )
        for client in record.decision.figures.clients:
            if self._whole[client, self._shared_hash].is_defined:  # else the next gain is since the last one known
                self._settled.set_baseline(client, self._whole[client, self._shared_hash])
            report = self._reports[client]
            self._settled.settle(client, record.round_number, self._attempt, self._shared_hash, report)
            self._exchange.has_only(client, [self._shared_hash])
            self._late.forget(client)
            if client in self._new_memories:
                self._settled.memories[client] = self._new_memories[client]
        for client in record.absent:
            self._exchange.has_only(client)
        for client in record.silent:
            is_first = client not in self._settled.rounds
            opening = self._opening_model if is_first else None
            self._late.remember(client, self._owed_by(client), self._given[client][1], opening)
        return self._exchange.why_absent(record.absent)

    def _owed_by(self, client: str) -> OwedReport:
        return OwedReport(
            round_number=self._round,
            attempt=self._attempt,
            valuation=self._valuation + 1,
            model=self._given[client][0],
            opening_model=self._opening_hash,
            terms=self._terms,
            sample_count=self._sample_counts[client],
            **self._rates_of(client),
        )

    def late_reports(self, owing: Mapping[str, list[int]], statement_of: StatementOf) -> Sequence[LateReport]:
        """Who owes a report gets its statement first: it signs no late report of a round that is not settled."""
        there = {client: owing[client] for client in self._exchange.present(owing)}
        for client, rounds in there.items():
            self._round = rounds[-1]
            self._send_statements([client], statement_of, lambda client: _SILENT)
        found = self._late.ask(
            there,
            self._exchange.put,
            lambda client: {
                **self._common(client),
                **self._settlement_of(client),
                "agreed": json.dumps(self._agreed),
            },
            lambda client: self._federation.terms_of(client).profit_bounds,
            self._settings_hash(),
            self._settled_in.hash_of_round,
            self._settled_in.reversals_before,
            self._settled_in.stated_terms,
            self._settled_in.refuses_late,
        )
        for late in found:
            self._say(f"{late.client} reported round {late.round_number} late; the round stays as it was settled")
            self._round = late.round_number
            self._acknowledge({late.client: late.signature})
        return found

    def tell(self, record: RoundRecord, statement_of: StatementOf) -> None:
        """After a round is settled, send every client that took part or was silent what is new on its statement.

        Who is called silent must learn it at once: it may have a receipt, and no later round. A member that is not
        connected gets its statement with that of its next round. If it has left, the operator must send it.
        """
        self.confirmed.check()
        self._statement_of = statement_of
        self._round = record.round_number
        clients = (*record.decision.figures.clients, *record.silent)
        self._send_statements(clients, statement_of, lambda client: _outcome(record, client))

    def _tell_again(self, clients: Sequence[str]) -> None:
        """Send statements to clients that answered none since the federation was resumed: they were not connected then.

        If a round was run twice, since an older backup ran for a while, only its statement tells a client which of its
        reports counts.
        """
        waiting = [client for client in clients if client in self._untold]
        if self._statement_of is None:
            return
        last_rounds = {client: self._settled.rounds[client][0] for client in waiting}
        for number in sorted(set(last_rounds.values())):
            self._round = number
            of_round = [client for client in waiting if last_rounds[client] == number]
            self._send_statements(of_round, self._statement_of, lambda client: _SETTLED)

    def _send_statements(
        self, clients: Sequence[str], statement_of: StatementOf, outcome_of: Callable[[str], str]
    ) -> None:
        def fields_for(client: str, line_count: int) -> dict[str, Any]:
            statement = statement_of(client, line_count)
            return {
                **self._common(client),
                **self._settlement_of(client),
                "statement": statement.decode(),
                "outcome": outcome_of(client),
                "trail": self._heads.trail(client, statement, self._settled_in).decode(),
            }

        connected = self._exchange.connected(clients)
        answers = self._statements.deliver(connected, fields_for, partial(self._exchange.tell, CLOSE))
        self._untold.difference_update(answers)
        self.confirmed.confirm(self._heads.take(answers))

    def save(self) -> State:
        facts = {
            **self._settled.facts(),
            "agreed": self._agreed,
            "statement_lines": self._statements.line_counts,
            "heads": self._heads.save(),
            "owed": self._late.save(),
        }
        state: dict[str, Any] = {f"shared/{name}": array for name, array in self._shared.items()}
        state |= self._settled.arrays() | self._late.arrays()
        return state | {"facts": np.frombuffer(json.dumps(facts).encode(), np.uint8)}

    def restore(self, round_number: int, state: State) -> None:
        facts = json.loads(state["facts"].tobytes())
        self._agreed = facts.get("agreed", {})
        self._statements.line_counts = facts.get("statement_lines", {})
        self._heads.restore(facts.get("heads", {}))
        self.confirmed.restore()
        self._late.restore(facts.get("owed", {}), state)
        self._use(arrays_named("shared/", state))
        self._settled.restore(facts, state)
        self._untold = set(self._settled.rounds)

    def _opening(self, client: str, answer: Message) -> Opening:
        training_count = count_in(answer, "training_count", least=1)
        validation_count = count_in(answer, "validation_count", least=1, most=MOST_VALIDATION_SAMPLES)
        sample_count = count_in(answer, "sample_count")
        most = self._federation.terms_of(client).most_samples
        if most is not None and (sample_count > most or training_count + validation_count > most * self._round):
            raise BrokenRuleError(
                f"it may declare at most {most} samples per round, got {sample_count} new ones and "
                f"{training_count + validation_count} in all in round {self._round}"
            )
        (measured,) = measures_in(
            answer,
            1,
            validation_count,
            self._metric,
            lambda: self._weights(client, validation_count),
            is_smooth=self._federation.mechanism.scores_coalitions_smoothly,
        )
        notice, signature = self._notice(client), text_in(answer, "withdrawal")
        if signature and not notice.is_signed(signature, self._federation.keys[client]):
            raise BrokenRuleError("its notice of withdrawal was not signed with the key of its SuperNode")
        self._sizes[client] = float(training_count)
        self._validation_counts[client] = validation_count
        self._sample_counts[client] = sample_count
        self._whole[client, self._shared_hash] = measured
        if client not in self._settled.rounds:
            self._settled.set_baseline(client, measured)
        self.confirmed.confirm(self._heads.signed_in({client: answer}))
        notes = notes_in(answer)
        if "contradiction" in notes:
            self._say(f"{client} says: {notes['contradiction']}")
        return Opening(
            sample_count=sample_count,
            training_count=training_count,
            validation_count=validation_count,
            measured=measured,
            withdrawal=signature or None,
            events=tuple(Event(kind=kind, client=client, text=text) for kind, text in notes.items()),
        )

    def _training(self, client: str, answer: Message) -> Training:
        model = model_in(answer, self._shared)
        self._local[client] = model
        self._exchange.has(client, fingerprint(model))
        if self._algorithm.server_reads_memories:
            self._new_memories[client] = memory_in(answer, self._first_memory())
        return Training()

    def _report_in(self, reading: ReportReading, client: str, answer: Message) -> ProfitReport:
        now = self._whole[client, self._shared_hash]
        report = reading.report_in(answer, client, sample_count=self._sample_counts[client], now=now)
        assert report.signed is not None, "members sign their reports"
        self._reports[client] = report.signed
        return report

    def _report_question(self) -> ReportQuestion:
        return ReportQuestion(
            ledger=self._ledger,
            round_number=self._round,
            attempt=report_attempt(self._attempt, self._valuation),
            model=self._shared_hash,
            opening_model=self._opening_hash,
            terms=self._terms,
            settings=self._settings_hash(),
            stated_terms=self._settled_in.stated_terms,
            has_gains=self._federation.mechanism.figures != "measured",
        )

    def _settings_hash(self) -> str:
        return settings_hash(self._common(""), self._agreed)

    def _evaluate_whole(
        self, models: Sequence[tuple[Coalition, Model]], clients: Sequence[str]
    ) -> Mapping[str, Mapping[Coalition, Measured]]:
        hashes = {coalition: fingerprint(model) for coalition, model in models}
        at_hand = {hashes[coalition]: model for coalition, model in models}
        questions = {
            client: ({"whole": list(hashes.values()), "parts": []}, list(hashes.values())) for client in clients
        }

        def measured(client: str, answer: Message) -> Mapping[Coalition, Measured]:
            measures = self._measures(client, answer, len(hashes))
            for digest, one in zip(hashes.values(), measures, strict=True):
                self._whole[client, digest] = one
            return dict(zip(hashes, measures, strict=True))

        expected = self._expected_measures(len(hashes), max(self._validation_counts.values()))
        return self._ask(EVALUATE, questions, measured, at_hand, expected=expected)

    def _evaluate_by_weights(
        self, coalitions: Sequence[Coalition], clients: Sequence[str]
    ) -> Mapping[str, Mapping[Coalition, Measured]]:
        """Let members average the coalition models themselves, from local models that are sent once."""
        hashes = {client: fingerprint(model) for client, model in self._local.items()}
        parts = list(hashes.values())
        at_hand = {hashes[client]: model for client, model in self._local.items()}
        rows = np.array([[self._sizes[c] if c in coalition else 0.0 for c in hashes] for coalition in coalitions])
        questions = {client: ({"whole": [], "parts": parts}, parts) for client in clients}

        def measured(client: str, answer: Message) -> Mapping[Coalition, Measured]:
            return dict(zip(coalitions, self._measures(client, answer, len(rows)), strict=True))

        expected = self._expected_measures(len(rows), max(self._validation_counts.values()))
        return self._ask(EVALUATE, questions, measured, at_hand, {"rows": {"rows": rows}}, expected)

    def _measures(self, client: str, answer: Message, count: int) -> list[Measured]:
        samples = self._validation_counts[client]
        return measures_in(
            answer,
            count,
            samples,
            self._metric,
            lambda: self._weights(client, samples),
            is_smooth=self._federation.mechanism.scores_coalitions_smoothly,
        )

    def _weights(self, client: str, sample_count: int) -> NDArray[np.float64]:
        return resampling_weights(self._federation.seed, client, sample_count)

    def _expected_measures(self, rows: int, columns: int) -> dict[str, GroupLimit]:
        """The groups that `measures_in` reads, for so many models and validation samples."""
        computed = GroupLimit.of_doubles(rows, rows * DRAW_COUNT)
        return {"scores": GroupLimit.of_doubles(rows * columns), "measured": computed, "smooth": computed}

    def _first_memory(self) -> NDArray[Any]:
        return self._algorithm.first_memory(self._layout.pack(self._shared)).numpy()

    def _served(self, clients: Sequence[str]) -> NDArray[Any]:
        """What the algorithm sends with the model, from the memories of these clients."""
        memories = {**self._settled.memories, **self._new_memories}
        vectors = [torch.from_numpy(memories.get(client, self._first_memory())) for client in clients]
        with one_thread():
            return self._algorithm.serve(vectors, [self._sizes[client] for client in clients]).numpy()

    def _ask(
        self,
        kind: str,
        questions: Mapping[str, Question],
        read: Callable[[str, Message], Result],
        models: Mapping[str, Model] | None = None,
        groups: Mapping[str, Model] | None = None,
        expected: Mapping[str, GroupLimit] | None = None,
    ) -> dict[str, Result]:
        at_hand = {self._shared_hash: self._shared, **(models or {})}
        return self._exchange.ask(
            kind, questions, read, common=self._common, models=at_hand, groups=groups, expected=expected
        )

    def _common(self, client: str) -> dict[str, Any]:
        return {
            "client": client,
            "book": self._ledger,
            "round": self._round,
            "attempt": self._attempt,
            "seed": self._federation.seed,
            "rounds": self._federation.round_count,
            "metric": self._metric.name,
            "lower_is_better": self._federation.task.lower_is_better,
            "utility": self._federation.mechanism.utility,
            "figures": self._federation.mechanism.figures,
            "smooth": self._federation.mechanism.scores_coalitions_smoothly,
            "learning": json.dumps(self._federation.learning.for_members),
            "settings": json.dumps(dict(self._federation.task.settings)),
        }

    def _settlement_of(self, client: str) -> dict[str, Any]:
        trains_alone = self._federation.mechanism.utility == "advantage"
        return self._settled.fields(client, self._settled_in.rounds_with(client) if trains_alone else ())

    def _notice(self, client: str) -> WithdrawalNotice:
        return WithdrawalNotice(ledger=self._ledger, client=client, round_number=self._round)

    def _aggregate(self, coalition: Coalition) -> Model:
        clients = [client for client in self._federation.client_names if client in coalition]
        models = {client: self._layout.pack(self._local[client]) for client in clients}
        with one_thread():
            return self._layout.unpack(self._algorithm.aggregate(models, self._sizes, None))


def _outcome(record: RoundRecord, client: str) -> str:
    """What the decision means for a client, for its own log."""
    ended = f"; the federation is {FINISHED}" if record.decision.finished else ""
    if client in record.silent:
        left = "; the membership has ended by the terms" if client in record.excluded else ""
        return f"{_SILENT}{left}{ended}"
    if client in record.decision.eliminated:
        how = " as harmful" if client in record.decision.harmful else ""
        return f"eliminated{how}, without a transfer{ended}"
    transfer = record.decision.transfers[client]
    left = ", withdrawn after this round" if client in record.withdrawn else ""
    return f"retained, transfer {transfer:+.6g} in units of utility{left}{ended}"
