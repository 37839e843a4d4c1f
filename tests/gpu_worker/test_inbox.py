"""What was asked for, and what is no longer wanted."""

import pytest

from gpu_worker.inbox import Inbox, cancelled_unbegun
from ipc.errors import ChannelClosed
from ipc.messages import Cancel, ToWorker
from tests.gpu_worker.scripted import ScriptedChannel, request


def inbox_of(*waiting: ToWorker, polled: list[ToWorker] | None = None) -> tuple[Inbox, ScriptedChannel]:
    late = list(polled or [])
    channel = ScriptedChannel(waiting, lambda sent: late.pop(0) if late else None)
    return Inbox(channel, lambda: False), channel


def test_requests_are_taken_in_order() -> None:
    inbox, _ = inbox_of(request(number=1), request(number=2))
    assert [inbox.take().request_id, inbox.take().request_id] == [1, 2]


def test_a_request_that_comes_while_another_runs_is_kept() -> None:
    inbox, _ = inbox_of(request(number=1), polled=[request(number=2), request(number=3)])
    inbox.take()
    assert not inbox.is_cancelled()
    assert [inbox.take().request_id, inbox.take().request_id] == [2, 3]


def test_a_cancel_of_the_running_request_is_seen_and_stays_seen() -> None:
    inbox, channel = inbox_of(request(number=1), polled=[Cancel(1)])
    inbox.take()
    assert inbox.is_cancelled()
    assert inbox.is_cancelled()
    assert channel.sent == []


def test_a_cancel_does_not_reach_the_next_request() -> None:
    inbox, _ = inbox_of(request(number=1), request(number=2), polled=[Cancel(1)])
    inbox.take()
    assert inbox.is_cancelled()
    inbox.take()
    assert not inbox.is_cancelled()


def test_a_cancel_of_a_waiting_request_ends_it_once() -> None:
    inbox, channel = inbox_of(request(number=1), polled=[request(number=2), Cancel(2), Cancel(2)])
    inbox.take()
    assert not inbox.is_cancelled()
    assert channel.sent == [cancelled_unbegun(2)]

    with pytest.raises(ChannelClosed):
        inbox.take()


def test_a_cancel_of_an_unknown_request_is_ignored() -> None:
    inbox, channel = inbox_of(Cancel(9), request(number=1), polled=[Cancel(8)])
    assert inbox.take().request_id == 1
    assert not inbox.is_cancelled()
    assert channel.sent == []


def test_a_cancel_that_comes_after_the_end_is_ignored() -> None:
    inbox, channel = inbox_of(request(number=1), Cancel(1), request(number=2))
    inbox.take()
    assert inbox.take().request_id == 2
    assert not inbox.is_cancelled()
    assert channel.sent == []


def test_the_end_of_the_front_is_noticed_between_tokens() -> None:
    inbox = Inbox(ScriptedChannel([request()]), lambda: True)
    inbox.take()

    with pytest.raises(ChannelClosed):
        inbox.is_cancelled()
