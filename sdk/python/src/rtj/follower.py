"""The side thread of every rank but 0: keeps a conversation with rank 0, whatever the main thread does."""

from __future__ import annotations

import json
import logging
import queue
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable

from rtj.coordinator import AGREEMENT_SECONDS
from rtj.leader import RECONNECT_SECONDS, RECONNECT_SECONDS_YIELDING, keep_alive, refusal
from rtj.session import Message, Session, line

log = logging.getLogger("rtj")

CONNECT_SECONDS = 2.0
WELCOME_SECONDS = 5.0
TICK_SECONDS = 0.2


class Follower:
    """Owns the connection and its thread; :meth:`close` ends both."""

    def __init__(
        self,
        address: tuple[str, int],
        hello: Message,
        deliver: Callable[[Message], None],
        lost: Callable[[str], None],
        yielding: Callable[[], bool],
        tick: Callable[[], None],
    ) -> None:
        """``deliver`` takes rank 0's messages; ``lost`` is told why, when rank 0 is gone for good."""
        self._address = address
        self._hello = {**hello, "token": secrets.token_hex(8)}
        self._deliver = deliver
        self._lost = lost
        self._yielding = yielding
        self._tick = tick
        self._session = Session()
        self._outgoing: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._closing = threading.Event()
        self._welcomed = threading.Event()
        self._flushed = threading.Event()
        self._flush_asked = False
        self.welcome: Message = {}
        self._thread = threading.Thread(target=self._run, name="rtj-follower", daemon=True)

    def start(self) -> None:
        """Begin to connect; rank 0 may come up much later."""
        self._thread.start()

    def wait_welcome(self, seconds: float) -> bool:
        """Wait until rank 0 has welcomed this rank, at most that long."""
        return self._welcomed.wait(seconds)

    def send(self, message: Message) -> None:
        """Send a message to rank 0, now or when there is a connection again."""
        self._outgoing.put(message)
        self._wake()

    def flush(self, seconds: float) -> bool:
        """Wait until rank 0 has confirmed everything, at most that long."""
        self._flushed.clear()
        self._flush_asked = True
        self._wake()
        return self._flushed.wait(seconds)

    def close(self) -> None:
        """End the thread and close the connection."""
        self._closing.set()
        self._wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)

    def _wake(self) -> None:
        try:
            self._wake_write.send(b"x")
        except OSError:
            pass

    def _run(self) -> None:
        lost_at: float | None = None
        complained = time.monotonic()
        while not self._closing.is_set():
            connection, why = self._connect()
            if connection is not None:
                try:
                    self._converse(connection)
                    return
                except (OSError, ValueError, KeyError, TypeError) as err:
                    lost_at, why = time.monotonic(), str(err)
                finally:
                    connection.close()
            self._tick()
            now = time.monotonic()
            if lost_at is None and self._yielding():
                # Never met: from now on it is as if the connection had broken, with the time of an agreement.
                lost_at = now + AGREEMENT_SECONDS - RECONNECT_SECONDS_YIELDING
            patience = RECONNECT_SECONDS_YIELDING if self._yielding() else RECONNECT_SECONDS
            if lost_at is not None and now - lost_at >= patience:
                self._lost(why)
                return
            if now - complained > 10.0:
                complained = now
                log.info("rank 0 at %s:%d cannot be reached yet: %s", *self._address, why)
            self._closing.wait(TICK_SECONDS)

    def _connect(self) -> tuple[socket.socket | None, str]:
        """Return a connection on which rank 0 has said welcome, or why not."""
        try:
            connection = socket.create_connection(self._address, CONNECT_SECONDS)
        except OSError as err:
            return None, str(err)
        try:
            keep_alive(connection)
            connection.settimeout(WELCOME_SECONDS)
            connection.sendall(line({**self._hello, "received": self._session.received}))
            answer = b""
            while not answer.endswith(b"\n"):
                piece = connection.recv(1)
                if not piece:
                    raise ConnectionError("rank 0 closed the connection")
                answer += piece
            welcome = json.loads(answer)
            why = welcome.get("why") if welcome["type"] == "refused" else refusal(welcome, self._hello)
            if why is not None:
                raise ConnectionError(f"refused: {why}")
            connection.sendall(self._session.resume(int(welcome["received"])))
        except (OSError, ValueError, KeyError, TypeError) as err:
            connection.close()
            return None, str(err)
        self.welcome = welcome
        self._welcomed.set()
        return connection, ""

    def _converse(self, connection: socket.socket) -> None:
        """Pass messages until close(). Raises OSError or ValueError when the connection is of no more use."""
        while not self._closing.is_set():
            readable, _, _ = select.select([connection, self._wake_read], [], [], TICK_SECONDS)
            if connection in readable:
                data = connection.recv(1 << 16)
                if not data:
                    raise ConnectionError("rank 0 closed the connection")
                for message in self._session.receive(data):
                    self._deliver(message)
                    connection.sendall(line({"seq": 0, "ack": self._session.received, "msg": None}))
            if self._wake_read in readable:
                self._wake_read.recv(4096)
            while not self._outgoing.empty():
                connection.sendall(self._session.send(self._outgoing.get()))
            if self._flush_asked and self._session.confirmed:
                self._flushed.set()
            self._tick()
