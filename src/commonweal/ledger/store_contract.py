"""The tests that every store must pass.

To test another store, subclass `StoreContract` and say how to create one and how to open it a second time:

    class TestMyStore(StoreContract):
        def make_store(self) -> Store:
            return MyStore(path=tempfile.mkdtemp())

        def reopen(self, store: Store) -> Store:
            return MyStore(path=store.path)

With pytest, call `pytest.register_assert_rewrite("commonweal.ledger.store_contract")` before the import, so that
failures show both sides of a comparison. Each test closes the stores it was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import closing, contextmanager, suppress
from threading import Event

from commonweal.errors import CommonwealError
from commonweal.ledger.entries import Posting, StoredEntry
from commonweal.ledger.store import Store, StoredPosting

PATIENCE = 30.0  # seconds after which a writer counts as stuck
MOMENT = 0.3  # seconds in which a writer would finish, or a second one be let in by mistake

LETTERS = (
    'O\'Neil "Ann" \\ `x`; DROP TABLE entries; --',
    "%s %(name)s :name ? $1 {0} %%",
    "line\nline\r\nline\ttab  ",
    "Zoë Zoe\u0308 ß Ж 銀行 بنك 𝄞 🏦",  # one character in two encodings; characters beyond 16 bits
    "\x01 \x7f \u2028 \ufeff \uffff",
    " ",
)
LARGEST = 2**63 - 1  # the largest 64-bit integer: sums of many amounts of 10^15


class StoreContract(ABC):
    """What `Store` promises. A store need not support NUL characters, which no name or content has."""

    @abstractmethod
    def make_store(self) -> Store:
        """A new, empty store."""

    @abstractmethod
    def reopen(self, store: Store) -> Store:
        """Another handle on the same data, as another process would have it."""

    def test_a_new_store_is_empty(self) -> None:
        with self._stores() as (store, other):
            assert _content(store) == _content(other) == ([], [])
            with store.reading() as reading:
                assert not reading.faults()

    def test_entries_come_back_as_added(self) -> None:
        first = StoredEntry(number=1, content='{"number":1}', hash="ab" * 32, signature="cd" * 64)
        second = StoredEntry(number=2, content='{"number":2}', hash="ef" * 32, signature="01" * 64)
        with self._stores() as (store, other):
            _add(store, first, [Posting("clients/ann", 5), Posting("clients/bob", -5)])
            _add(store, second, [])
            kept = ([first, second], [_row(1, 0, "clients/ann", 5), _row(1, 1, "clients/bob", -5)])
            assert _content(store) == _content(other) == kept

    def test_entries_come_in_the_order_of_their_numbers(self) -> None:
        numbers = [2, 10, 1, 9, 100]
        with self._stores() as (store, other):
            with store.writing() as writing:
                for number in numbers:
                    writing.add(_entry(number), [])
            assert [entry.number for entry in _content(other)[0]] == sorted(numbers)

    def test_postings_come_by_entry_and_position(self) -> None:
        accounts = ["zoe", "ann", "zoe", "Ann", "bob"]  # an account may appear twice
        postings = [Posting(account, amount) for amount, account in enumerate(accounts)]
        with self._stores() as (store, other):
            with store.writing() as writing:
                for number in (2, 1):
                    writing.add(_entry(number), postings)
            expected = [_row(number, place, accounts[place], place) for number in (1, 2) for place in range(5)]
            assert _content(other)[1] == expected

    def test_after_leaves_out_what_is_known(self) -> None:
        with self._stores() as (store, _):
            for number in (1, 2, 3):
                _add(store, _entry(number), [Posting("ann", number), Posting("bob", -number)])
            for after in range(5):
                left = [number for number in (1, 2, 3) if number > after]
                for block in (store.reading, store.writing):
                    with block() as reading:
                        assert [entry.number for entry in reading.entries(after=after)] == left
                        assert [row.entry for row in reading.postings(after=after)] == sorted(left * 2)

    def test_rows_are_entries_and_postings(self) -> None:
        with self._stores() as (store, other):
            with store.writing() as writing:
                assert writing.row_count() == 0
                writing.add(_entry(1), [Posting("ann", 1), Posting("bob", -1)])
                writing.add(_entry(2), [])
                assert writing.row_count() == 4
            with other.reading() as reading:
                assert reading.row_count() == 4

    def test_text_of_any_characters(self) -> None:
        long = LETTERS[3] * 50_000
        added = [_entry(number, content) for number, content in enumerate((*LETTERS, long), start=1)]
        postings = [Posting(letters, 1) for letters in LETTERS]
        with self._stores() as (store, other):
            for entry in added:
                _add(store, entry, postings)
            entries, rows = _content(other)
            assert entries == added
            assert [row.posting for row in rows] == postings * len(added)

    def test_amounts_up_to_64_bits(self) -> None:
        amounts = [0, 1, -1, 10**15, -(10**15), 2**53 + 1, -(2**53) - 1, LARGEST, -LARGEST]
        with self._stores() as (store, other):
            _add(store, _entry(1), [Posting("ann", amount) for amount in amounts])
            assert [row.posting.amount for row in _content(other)[1]] == amounts

    def test_a_thousand_postings_in_an_entry(self) -> None:
        postings = [Posting(f"clients/{place}", place - 500) for place in range(1000)]
        with self._stores() as (store, other):
            _add(store, _entry(1), postings)
            assert [row.posting for row in _content(other)[1]] == postings

    def test_entries_and_postings_are_read_side_by_side(self) -> None:
        """More of them than a store fetches at once."""
        numbers = range(1, 1502)
        with self._stores() as (store, other):
            with store.writing() as writing:
                for number in numbers:
                    writing.add(_entry(number), [Posting("ann", number)])
            with other.reading() as reading:
                pairs = zip(reading.entries(), reading.postings(), strict=True)
                assert [(entry.number, row.entry) for entry, row in pairs] == [(number, number) for number in numbers]

    def test_a_writer_sees_what_it_adds(self) -> None:
        with self._stores() as (store, _), store.writing() as writing:
            writing.add(_entry(1), [Posting("ann", 1)])
            assert [entry.number for entry in writing.entries()] == [1]
            writing.add(_entry(2), [Posting("ann", 2)])
            assert [entry.number for entry in writing.entries()] == [1, 2]
            assert [row.posting.amount for row in writing.postings()] == [1, 2]

    def test_a_reader_beside_a_writer_sees_nothing_unfinished(self) -> None:
        """Even if the reader is the writer: a ledger reads old entries while it adds a new one."""
        with self._stores() as (store, other):
            _add(store, _entry(1), [Posting("ann", 1)])
            with store.writing() as writing:
                writing.add(_entry(2), [Posting("ann", 2)])
                assert _numbers(store) == _numbers(other) == [1]
            assert _numbers(store) == _numbers(other) == [1, 2]

    def test_a_reader_sees_one_moment_while_others_add(self) -> None:
        """The writer may have to wait until the reader is done."""
        with self._stores() as (store, other), ThreadPoolExecutor(1) as pool:
            _add(store, _entry(1), [Posting("ann", 1)])
            with store.reading() as reading:
                assert [entry.number for entry in reading.entries()] == [1]
                adding = pool.submit(_add, other, _entry(2), [Posting("ann", 2)])
                wait_for([adding], timeout=MOMENT)
                assert [entry.number for entry in reading.entries()] == [1]
                assert [row.entry for row in reading.postings()] == [1]
            adding.result(timeout=PATIENCE)
            assert _numbers(store) == _numbers(other) == [1, 2]

    def test_a_reader_that_stops_halfway_blocks_nobody(self) -> None:
        with self._stores() as (store, other), ThreadPoolExecutor(1) as pool:
            for number in (1, 2, 3):
                _add(store, _entry(number), [Posting("ann", number)])
            with store.reading() as reading:
                entries, postings = reading.entries(), reading.postings()
                assert next(entries).number == next(postings).entry == 1
            pool.submit(_add, other, _entry(4), []).result(timeout=PATIENCE)
            assert _numbers(store) == [1, 2, 3, 4]
            del entries, postings  # alive until here, as they would be in a traceback

    def test_a_block_that_fails_leaves_nothing(self) -> None:
        with self._stores() as (store, other):
            _add(store, _entry(1), [Posting("ann", 1)])
            before = _content(store)
            for kind in (ValueError, KeyboardInterrupt):
                with suppress(kind), store.writing() as writing:
                    writing.add(_entry(2), [Posting("ann", 2)])
                    writing.add(_entry(3), [Posting("ann", 3)])
                    raise kind
                assert _content(store) == _content(other) == before
            _add(other, _entry(2), [Posting("bob", 2)])
            assert _numbers(store) == [1, 2]

    def test_a_number_is_given_once(self) -> None:
        with self._stores() as (store, other):
            _add(store, _entry(7), [Posting("ann", 1), Posting("bob", -1)])
            before = _content(store)
            refused = False
            try:
                with other.writing() as writing:
                    writing.add(_entry(6), [Posting("ann", 2)])
                    writing.add(_entry(7, "other content"), [Posting("ann", 3)])
            except CommonwealError:
                refused = True
            assert refused, "a second entry with number 7 was accepted"
            assert _content(store) == _content(other) == before
            _add(other, _entry(8), [])
            assert _numbers(store) == [7, 8]

    def test_a_second_writer_waits_for_the_first_in_another_process(self) -> None:
        with self._stores() as (store, other):
            _check_the_second_waits(store, other)

    def test_a_second_writer_waits_for_the_first_in_this_process(self) -> None:
        with self._stores() as (store, _):
            _check_the_second_waits(store, store)

    def test_concurrent_writers_build_on_each_other(self) -> None:
        """No writer chooses its number while another is adding an entry."""
        with self._stores() as (store, other), ThreadPoolExecutor(4) as pool:
            adding = [pool.submit(_add_next, each) for each in (store, other) * 10]
            for done in adding:
                done.result(timeout=PATIENCE)
            assert sorted(done.result() for done in adding) == _numbers(store) == list(range(1, 21))

    def test_what_was_added_is_still_there_when_the_store_is_reopened(self) -> None:
        store = self.make_store()
        _add(store, _entry(1), [Posting("ann", 1)])
        kept = _content(store)
        other = self.reopen(store)
        store.close()
        assert _content(other) == kept
        other.close()

    @contextmanager
    def _stores(self) -> Iterator[tuple[Store, Store]]:
        """Two handles on a new store."""
        with closing(self.make_store()) as store, closing(self.reopen(store)) as other:
            yield store, other


def _check_the_second_waits(first: Store, second: Store) -> None:
    let_in = Event()

    def add_second() -> list[int]:
        with second.writing() as writing:
            let_in.set()
            seen = [entry.number for entry in writing.entries()]
            writing.add(_entry(2), [])
        return seen

    with ThreadPoolExecutor(1) as pool:
        with first.writing() as writing:
            writing.add(_entry(1), [])
            adding = pool.submit(add_second)
            assert not let_in.wait(MOMENT), "two writers at the same time"
        assert adding.result(timeout=PATIENCE) == [1], "the second writer must see what the first added"
    assert _numbers(first) == _numbers(second) == [1, 2]


def _entry(number: int, content: str | None = None) -> StoredEntry:
    return StoredEntry(number=number, content=content or f"content {number}", hash=f"hash {number}", signature="none")


def _row(entry: int, position: int, account: str, amount: int) -> StoredPosting:
    return StoredPosting(entry=entry, position=position, posting=Posting(account, amount))


def _add(store: Store, entry: StoredEntry, postings: Sequence[Posting]) -> None:
    with store.writing() as writing:
        writing.add(entry, postings)


def _add_next(store: Store) -> int:
    with store.writing() as writing:
        number = max((entry.number for entry in writing.entries()), default=0) + 1
        writing.add(_entry(number), [Posting("ann", number)])
    return number


def _content(store: Store) -> tuple[list[StoredEntry], list[StoredPosting]]:
    with store.reading() as reading:
        return list(reading.entries()), list(reading.postings())


def _numbers(store: Store) -> list[int]:
    with store.reading() as reading:
        return [entry.number for entry in reading.entries()]
