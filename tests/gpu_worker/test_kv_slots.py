"""Which kept sequence is taken, and which ones go. Pure."""

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.kv_slots import KvSlots, Slot, SlotBounds, Taken, Wanted, common_length
from ipc.messages import PrefixReuse

SYSTEM = list(range(1_000, 1_030))


@dataclass
class Sequence:
    name: str = ""
    closed: int = 0

    def close(self) -> None:
        self.closed += 1


def slot(
    tokens: list[int],
    *,
    name: str = "",
    conversation: str | None = None,
    scope: str = "",
    size: int = 10,
    prompt: int | None = None,
    capacity: int = 1_000,
    expires_at: float = 100.0,
    traits: str = "greedy",
) -> Slot[Sequence]:
    return Slot(
        sequence=Sequence(name),
        tokens=tokens,
        prompt_length=len(tokens) if prompt is None else prompt,
        reuse=PrefixReuse(scope=scope, conversation=conversation),
        traits=traits,
        capacity=capacity,
        size_bytes=size,
        expires_at=expires_at,
    )


def wanted(
    tokens: list[int], *, conversation: str | None = None, scope: str = "", length: int | None = None, size: int = 10
) -> Wanted:
    return Wanted(
        tokens=tokens,
        reuse=PrefixReuse(scope=scope, conversation=conversation),
        traits="greedy",
        length=len(tokens) + 10 if length is None else length,
        size_bytes=size,
    )


def kept(*slots: Slot[Sequence], max_slots: int = 4, max_bytes: int = 1_000) -> KvSlots[Sequence]:
    pool: KvSlots[Sequence] = KvSlots(SlotBounds(max_slots, max_bytes))

    for each in slots:
        pool.keep(each)

    return pool


def name_of(taken: Taken[Sequence] | None) -> str | None:
    return None if taken is None else taken.slot.sequence.name


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40))
def test_the_common_length_is_that_of_the_common_prefix(first: list[int], second: list[int]) -> None:
    length = common_length(first, second)
    assert first[:length] == second[:length]
    assert length == min(len(first), len(second)) or first[length] != second[length]


class TestChoice:
    def test_the_longest_common_prefix_decides_among_unnamed_ones(self) -> None:
        pool = kept(slot([1, 2, 3, 4], name="short"), slot([1, 2, 3, 4, 5, 6], name="long"), slot([9, 9], name="other"))
        taken = pool.take(wanted([1, 2, 3, 4, 5, 6, 7]), 0)
        assert taken is not None
        assert (taken.slot.sequence.name, taken.length) == ("long", 6)
        assert len(pool) == 2

    def test_among_equals_the_one_used_last(self) -> None:
        assert name_of(kept(slot([1, 2], name="old"), slot([1, 2], name="new")).take(wanted([1, 2, 3]), 0)) == "new"

    def test_a_name_finds_its_own_though_another_shares_more(self) -> None:
        pool = kept(slot([1, 2, 3], name="own", conversation="a"), slot([1, 2, 3, 4], name="other", conversation="b"))
        assert name_of(pool.take(wanted([1, 2, 3, 4, 5], conversation="a"), 0)) == "own"

    @pytest.mark.parametrize("conversation", [None, "b"])
    def test_the_sequence_of_a_named_conversation_is_nobody_elses_while_a_slot_is_free(
        self, conversation: str | None
    ) -> None:
        pool = kept(slot([1, 2, 3], conversation="a"))
        assert pool.take(wanted([1, 2, 3, 4], conversation=conversation), 0) is None
        assert len(pool) == 1

    def test_one_name_for_many_conversations_keeps_them_apart_by_their_prefix(self) -> None:
        first = [*SYSTEM, *range(30)]
        second = [*SYSTEM, *range(50, 80)]
        pool = kept(slot(first, name="first", conversation="app"), slot(second, name="second", conversation="app"))
        assert name_of(pool.take(wanted([*first, 7], conversation="app"), 0)) == "first"
        assert name_of(pool.take(wanted([*second, 7], conversation="app"), 0)) == "second"

    def test_a_new_conversation_with_the_same_system_prompt_does_not_cost_a_long_one(self) -> None:
        pool = kept(slot([*SYSTEM, *range(100)]))
        assert pool.take(wanted([*SYSTEM, 500, 501]), 0) is None
        assert len(pool) == 1

    def test_a_regenerated_answer_counts_by_its_prompt_however_long_it_was(self) -> None:
        taken = kept(slot(list(range(500)), prompt=20)).take(wanted(list(range(20))), 0)
        assert taken is not None
        assert taken.length == 19

    def test_another_key_and_another_search_share_nothing(self) -> None:
        pool = kept(slot([1, 2, 3], scope="x"), slot([1, 2, 3], traits="sampled"), max_slots=2)
        assert pool.take(wanted([1, 2, 3, 4]), 0) is None

    def test_a_sequence_without_the_room_is_not_taken_and_goes_when_its_conversation_outgrew_it(self) -> None:
        own, other = slot([1, 2, 3], capacity=10), slot([1, 2, 9, 9], capacity=10)
        pool = kept(own, other)
        assert pool.take(wanted([1, 2, 3, 4], length=11), 0) is None
        assert (own.sequence.closed, other.sequence.closed) == (1, 0)

    @pytest.mark.parametrize("tokens", [[1], [5, 6]])
    def test_nothing_in_common_is_nothing_to_continue(self, tokens: list[int]) -> None:
        assert kept(slot([1, 2, 3])).take(wanted(tokens), 0) is None


class TestRoom:
    def test_the_one_used_least_recently_goes(self) -> None:
        oldest, newer = slot([1, 2, 3]), slot([4, 5, 6])
        pool = kept(oldest, newer, max_slots=2)
        assert pool.take(wanted([7, 8, 9]), 0) is None
        assert (oldest.sequence.closed, newer.sequence.closed) == (1, 0)

    def test_the_one_that_goes_is_continued_if_it_begins_alike(self) -> None:
        pool = kept(slot([*SYSTEM, *range(90)], name="oldest", conversation="a"), slot([4]), max_slots=2)
        taken = pool.take(wanted([*SYSTEM, 500, 501], conversation="b"), 0)
        assert taken is not None
        assert (taken.slot.sequence.name, taken.length) == ("oldest", len(SYSTEM))

    def test_but_not_under_another_key(self) -> None:
        pool = kept(slot([1, 2, 3], scope="x"), max_slots=1)
        assert pool.take(wanted([1, 2, 3, 4], scope="y"), 0) is None
        assert len(pool) == 0

    def test_memory_bounds_it_as_the_number_does(self) -> None:
        pool = kept(slot([1, 2], size=600), slot([3, 4], size=300))
        assert pool.take(wanted([5, 6], size=200), 0) is None
        assert pool.size_bytes == 300

    def test_a_sequence_larger_than_all_memory_costs_no_other(self) -> None:
        giant = slot([3], size=1_001)
        pool = kept(slot([1]), giant)
        assert (len(pool), giant.sequence.closed) == (1, 1)

    def test_expired_ones_go_first(self) -> None:
        pool = kept(slot([1, 2, 3], expires_at=5), slot([1, 2, 3], expires_at=9), max_slots=2)
        assert pool.forget_expired(5) == 4
        assert pool.take(wanted([1, 2, 3]), 9) is None
        assert pool.forget_expired(9) is None

    def test_everything_can_be_given_up(self) -> None:
        pool = kept(slot([1]), slot([2]))
        assert pool.forget_all()
        assert not pool.forget_all()


@given(seed=st.integers(0, 1 << 32), max_slots=st.integers(0, 4), max_bytes=st.integers(0, 60))
def test_bounds_hold_and_each_sequence_has_one_owner(seed: int, max_slots: int, max_bytes: int) -> None:
    random = Random(seed)
    pool = kept(max_slots=max_slots, max_bytes=max_bytes)
    made: list[Slot[Sequence]] = []

    for now in range(60):
        asked = wanted(
            [random.randrange(2) for _ in range(random.randint(1, 8))],
            conversation=random.choice([None, "a"]),
            scope=random.choice(["x", "y"]),
            size=random.randint(0, 30),
        )
        taken = pool.take(asked, now)

        if taken is not None:
            source = taken.slot
            assert 0 < taken.length < len(asked.tokens)
            assert source.tokens[: taken.length] == asked.tokens[: taken.length]
            assert (source.reuse.scope, source.sequence.closed) == (asked.reuse.scope, 0)
            assert source.expires_at > now
            source.sequence.close()
        elif max_slots > 0 and asked.size_bytes <= max_bytes:
            assert len(pool) < max_slots
            assert pool.size_bytes + asked.size_bytes <= max_bytes

        fresh = slot(
            list(asked.tokens),
            scope=asked.reuse.scope,
            conversation=asked.reuse.conversation,
            size=random.randint(0, 30),
            expires_at=now + random.randint(1, 9),
        )
        made.append(fresh)
        pool.keep(fresh)
        assert len(pool) <= max_slots
        assert pool.size_bytes <= max_bytes

    pool.forget_all()
    assert [each.sequence.closed for each in made] == [1] * len(made)
