"""A member that answers just in time, message after message, costs the others a stated time per round and no more."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.messages.lateness import TOO_LATE, RoundLateness, Waiting, half_time, lateness
from commonweal.remote.transport import Answers, NoAnswer
from tests.remote.memory_transport import MemoryTransport
from tests.remote.toy import NAMES, make_toy

LATE, ANSWER_SECONDS = "east", 5.0  # of the toy federation


class SlowTransport(MemoryTransport):
    """Answers take what `seconds_of` says, on a clock of its own."""

    clock = 0.0
    question_count = 0

    def ask(self, kind, questions, *, seconds):
        answers = super().ask(kind, questions, seconds=seconds)
        waiting = Waiting(
            seconds=seconds,
            late_seconds={client: question.limit.late_seconds for client, question in questions.items()},
        )
        given, missing, last = {}, dict(answers.missing), 0.0
        for client in sorted(answers.given, key=self.seconds_of):
            took = self.seconds_of(client)
            if waiting.is_over(client, took):
                missing[client] = NoAnswer(kind="absent", reason=TOO_LATE)
                half = half_time(waiting.times, len(questions))
                last = max(last, min(seconds, half + waiting.late_seconds[client]))
            else:
                given[client] = answers.given[client]
                waiting.times[client] = last = took
        self.clock += last
        self.question_count += 1
        return Answers(given=given, missing=missing, seconds=waiting.times)


def slow_toy(folder, seconds, waiting=""):
    toy = make_toy(folder, rounds=2, learning="iteration_limit = 3\nstop_below = 0.0", mechanism='mu = "inf"')
    toy.transport = SlowTransport(toy.transport.members)
    toy.transport.seconds_of = lambda client: seconds.get(client, 0.1)
    file = toy.folder / "federation.toml"
    file.write_text(file.read_text().replace("join_seconds = 1", f"join_seconds = 1\n{waiting}"))
    return toy


def test_just_in_time_again_and_again_is_absent(tmp_path):
    toy = slow_toy(tmp_path / "f", {LATE: 4.9})
    run_report, said = toy.coordinate()
    for told in run_report.rounds:
        assert told.record.absent == (LATE,), "and it may return in the next round"
        (event,) = told.events
        assert event.kind == "absent"
        assert event.text in said
        assert "it kept the others waiting for longer than late_seconds allows" in event.text
    assert toy.transport.question_count > 8
    assert toy.transport.clock <= 2 * ANSWER_SECONDS + 0.1 * toy.transport.question_count


def test_without_the_limit_every_message_waits_for_it(tmp_path):
    toy = slow_toy(tmp_path / "f", {LATE: 4.9}, "late_seconds = 1000000")
    run_report, _ = toy.coordinate()
    assert [told.record.absent for told in run_report.rounds] == [(), ()]
    assert toy.transport.clock == pytest.approx(4.9 * toy.transport.question_count)


def test_what_takes_everybody_long_is_nobodys_fault(tmp_path):
    toy = slow_toy(tmp_path / "f", dict.fromkeys(NAMES, 4.9), "late_seconds = 1")
    run_report, _ = toy.coordinate()
    assert [told.record.absent for told in run_report.rounds] == [(), ()]


def test_a_little_late_is_in_time(tmp_path):
    toy = slow_toy(tmp_path / "f", {LATE: 0.2})
    run_report, _ = toy.coordinate()
    assert [told.record.absent for told in run_report.rounds] == [(), ()]


def test_waiting_is_no_part_of_the_terms(tmp_path):
    """So a federation may be resumed with more patience."""
    toy = make_toy(tmp_path / "f")
    federation = read_federation(toy.folder / "federation.toml")
    assert federation.late_seconds is None
    assert replace(federation, late_seconds=7.0).digest() == federation.digest()


TIMES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1000), min_size=1)


@given(TIMES, st.integers(0, 3))
def test_at_least_half_of_those_asked_are_never_late(times, silent):
    asked = len(times) + silent
    late = lateness(times, asked)
    in_time = sum(seconds == 0 for seconds in late.values())
    assert in_time >= min(len(times), math.ceil(asked / 2))
    for client, seconds in late.items():
        assert seconds <= times[client]


@given(st.lists(TIMES, max_size=20), st.floats(1, 100))
def test_nobody_is_granted_more_than_the_limit(questions, limit):
    """Whoever answers at the last moment that is granted, in every question, is late by the limit in all."""
    used = RoundLateness(limit=limit)
    for times in questions:
        half = half_time(times, len(times) + 1)
        if half < math.inf:
            late = {**times, "last": half + used.left("last")}
            assert not Waiting(
                seconds=math.inf, late_seconds=dict.fromkeys(late, used.left("last")), times=times
            ).is_over("last", late["last"])
            used.add(late, len(late))
    assert used.used.get("last", 0.0) <= limit * (1 + 1e-9)
    assert used.left("last") >= 0
