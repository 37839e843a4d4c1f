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


def taken(inbox: Inbox) -> int:
    if inbox.is_empty:
        inbox.wait()

    return inbox.take().request_id


def test_requests_are_taken_in_order() -> None:
    inbox, _ = inbox_of(request(number=1), request(number=2))
    assert [taken(inbox), taken(inbox)] == [1, 2]


def test_a_request_that_comes_while_another_runs_is_kept() -> None:
    inbox, _ = inbox_of(request(number=1), polled=[request(number=2), request(number=3)])
    taken(inbox)
    inbox.look()
    assert inbox.take_cancelled() == []
    assert [taken(inbox), taken(inbox)] == [2, 3]
    assert inbox.is_empty


def test_a_cancel_of_a_begun_request_is_told_once() -> None:
    inbox, channel = inbox_of(request(number=1), polled=[Cancel(1)])
    taken(inbox)
    inbox.look()
    assert inbox.take_cancelled() == [1]
    assert inbox.take_cancelled() == []
    assert channel.sent == []


def test_a_cancel_of_a_waiting_request_ends_it_once() -> None:
    inbox, channel = inbox_of(request(number=1), polled=[request(number=2), Cancel(2)])
    taken(inbox)
    inbox.look()
    assert inbox.is_empty
    assert inbox.take_cancelled() == []
    assert channel.sent == [cancelled_unbegun(2)]


def test_a_cancel_that_comes_after_the_end_is_forgotten_while_idle() -> None:
    inbox, channel = inbox_of(request(number=1), Cancel(1), Cancel(9), request(number=2))
    taken(inbox)
    assert taken(inbox) == 2
    assert inbox.take_cancelled() == []
    assert channel.sent == []


def test_the_end_of_the_front_is_noticed_between_tokens() -> None:
    inbox = Inbox(ScriptedChannel([request()]), lambda: True)
    taken(inbox)

    with pytest.raises(ChannelClosed):
        inbox.look()
