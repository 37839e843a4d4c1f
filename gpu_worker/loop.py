"""The worker's life after loading: one request after the other, for ever. Runs in the worker's only thread; called by `worker.py`."""

import logging
from collections.abc import Callable
from typing import NoReturn

from gpu_worker.engine_port import Engine
from gpu_worker.errors import EngineFault, RequestFault
from gpu_worker.fault_text import engine_fault
from gpu_worker.generation import Generation, GenerationSettings
from gpu_worker.inbox import Channel, Inbox
from ipc.errors import IpcError
from ipc.messages import Failed, FinishReason, Generate, Rejected, Terminal

logger = logging.getLogger(__name__)


class Loop:
    """Takes requests and ends each with exactly one terminal message.

    is_front_gone: tells at any time whether the front has ended.
    """

    def __init__(
        self, channel: Channel, engine: Engine, settings: GenerationSettings, is_front_gone: Callable[[], bool]
    ) -> None:
        self._channel = channel
        self._engine = engine
        self._settings = settings
        self._inbox = Inbox(channel, is_front_gone)
        self._has_just_failed = False

    def run(self) -> NoReturn:
        """Raises ChannelClosed when the front is gone, ProtocolError when it sent what is no message."""
        while True:
            self._channel.send(self._serve(self._inbox.take()))

    def _serve(self, request: Generate) -> Terminal:
        try:
            finished = Generation(request, self._engine, self._inbox, self._channel, self._settings).run()
        except RequestFault as fault:
            return Rejected(request_id=request.request_id, code=fault.code, message=str(fault))
        except EngineFault as fault:
            return self._failed(request, fault)
        except IpcError:
            raise
        except Exception as error:  # nothing that a request holds may end the worker
            logger.exception("[request %d] broke", request.request_id)
            return self._failed(request, engine_fault(error))

        if finished.reason is FinishReason.LOOP:
            logger.warning(
                "[request %d] stopped in a loop after %d tokens", request.request_id, finished.completion_tokens
            )

        self._has_just_failed = False
        return finished

    def _failed(self, request: Generate, fault: EngineFault) -> Failed:
        # An engine that fails twice in a row has something broken that outlives a request.
        is_fatal = fault.is_fatal or self._has_just_failed
        self._has_just_failed = True
        logger.error("[request %d] failed: %s", request.request_id, fault)
        return Failed(request_id=request.request_id, code=fault.code, message=str(fault), is_fatal=is_fatal)
