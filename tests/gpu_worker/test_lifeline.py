"""The tie to the front: a pipe that tells by its end, and the parent's identity."""

import os

from gpu_worker.lifeline import Lifeline, is_abandoned, is_orphan


def test_the_line_is_whole_while_the_front_holds_its_end_and_cut_after() -> None:
    read_fd, write_fd = os.pipe()

    try:
        lifeline = Lifeline(read_fd)
        assert not lifeline.is_cut()
        os.close(write_fd)
        assert lifeline.is_cut()
        assert lifeline.is_cut()
    finally:
        os.close(read_fd)


def test_another_parent_than_the_front_makes_an_orphan() -> None:
    assert not is_orphan(os.getppid())
    assert is_orphan(os.getpid())


def test_a_pipe_without_a_writer_is_abandoned_also_with_an_unread_spec() -> None:
    read_fd, write_fd = os.pipe()

    try:
        os.write(write_fd, b"spec")
        assert not is_abandoned(read_fd)
        os.close(write_fd)
        assert is_abandoned(read_fd)
    finally:
        os.close(read_fd)
