"""A conversation of two processes that survives a broken connection.

Frames are JSON, one a line: ``{"seq": n, "ack": m, "msg": {...}}``. Messages are numbered from 1. What the other
side has not confirmed is kept and sent again after a reconnect; what was received before is not delivered twice.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

Message = dict[str, Any]

# A rank of a job of many hundreds sends the description of its objects in one message.
LONGEST_LINE = 16 << 20


class Session:
    """One side of the conversation. It makes and takes bytes; sockets are somebody else's."""

    def __init__(self) -> None:
        self._sent = 0
        self._unconfirmed: deque[tuple[int, Message]] = deque()
        self.received = 0
        self._rest = b""

    def send(self, message: Message) -> bytes:
        """Return the bytes to write for a message, which is remembered until it is confirmed."""
        self._sent += 1
        self._unconfirmed.append((self._sent, message))
        return self._frame(self._sent, message)

    def resume(self, confirmed: int) -> bytes:
        """Return the bytes to write on a new connection, where the other side has received that many messages."""
        self._rest = b""
        self._confirm(confirmed)
        return b"".join(self._frame(number, message) for number, message in self._unconfirmed)

    def receive(self, data: bytes) -> list[Message]:
        """Take bytes from the connection; return the messages that are complete and new. Raises ValueError."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise ValueError("a line is too long")
        messages = []
        for line in lines:
            frame = json.loads(line)
            self._confirm(int(frame["ack"]))
            if int(frame["seq"]) == self.received + 1:
                self.received += 1
                messages.append(frame["msg"])
        return messages

    @property
    def confirmed(self) -> bool:
        """Whether everything that was sent is known to have arrived."""
        return not self._unconfirmed

    def _confirm(self, number: int) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self._unconfirmed.popleft()

    def _frame(self, number: int, message: Message) -> bytes:
        return line({"seq": number, "ack": self.received, "msg": message})


def line(value: Message) -> bytes:
    """Return a JSON object as one line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
