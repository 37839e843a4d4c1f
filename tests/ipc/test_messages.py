"""The list of messages is whole, and each belongs to one direction."""

from typing import get_args

import msgspec

import ipc.messages as module
from ipc.messages import FromWorker, RequestMessage, Terminal, ToWorker
from tests.ipc.message_strategies import EACH

# Every tagged struct of the file is a message; a struct without a tag is a part of one.
TAGGED = {
    value
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__struct_config__.tag is not None
}


def test_every_message_type_goes_in_exactly_one_direction() -> None:
    down, up = set(get_args(ToWorker)), set(get_args(FromWorker))

    assert down | up == TAGGED
    assert not down & up
    assert set(EACH) == TAGGED, "each message has a strategy, so that each is tested"


def test_tags_are_unique_over_both_directions() -> None:
    tags = [kind.__struct_config__.tag for kind in TAGGED]
    assert len(set(tags)) == len(tags)


def test_every_message_is_frozen() -> None:
    assert all(kind.__struct_config__.frozen for kind in TAGGED)


def test_terminals_are_request_messages_and_request_messages_come_from_workers() -> None:
    assert set(get_args(Terminal)) < set(get_args(RequestMessage)) < set(get_args(FromWorker))
    assert all("request_id" in kind.__struct_fields__ for kind in get_args(RequestMessage))
