"""Rank 0's side thread: listens for the other ranks, runs the coordinator, and carries out what it decides."""

from __future__ import annotations

import json
import logging
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rtj.coordinator import CommitSave, Conclude, Coordinator, Effect, Tell
from rtj.errors import ConfigurationError
from rtj.notice import Asked
from rtj.session import Message, Session, line

log = logging.getLogger("rtj")

# A rank whose connection broke is gone if it does not come back within this; sooner when time is short.
RECONNECT_SECONDS = 10.0
RECONNECT_SECONDS_YIELDING = 2.0
HELLO_SECONDS = 5.0
HELLO_BYTES = 64 << 10
TICK_SECONDS = 0.2
PROTOCOL = "rtj-agreement/1"


class Office(Protocol):
    """What the leader's thread has done by others, without being held up by it."""

    def commit(self, effect: CommitSave) -> None:
        """Write a manifest, then post ``committed`` or ``commit_failed``."""

    def conclude(self, effect: Conclude) -> None:
        """Write the result record, then post ``end``."""

    def give_up_recording(self, effect: Conclude) -> None:
        """Post ``end`` although the result record is not written."""

    def save_due(self, now: float) -> bool:
        """Whether a periodic save is due."""

    def gave_up(self) -> None:
        """A save was given up."""


@dataclass
class _Peer:
    rank: int
    token: str
    session: Session = field(default_factory=Session)
    socket: socket.socket | None = None
    lost_at: float | None = None
    why: str = ""


@dataclass
class _Connection:
    socket: socket.socket
    since: float
    inbox: bytes = b""
    outbox: bytes = b""
    peer: _Peer | None = None


class Leader:
    """Owns the listening socket and its thread; :meth:`close` ends both."""

    def __init__(
        self,
        coordinator: Coordinator,
        office: Office,
        local: Callable[[Message], None],
        hello: Message,
        welcome: Message,
    ) -> None:
        """``local`` delivers a message to rank 0 itself; ``hello`` is what a rank of this attempt says."""
        self.coordinator = coordinator
        self._office = office
        self._local = local
        self._hello = hello
        self._welcome = welcome
        self._events: queue.SimpleQueue[Callable[[float], list[Effect]]] = queue.SimpleQueue()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._listener: socket.socket | None = None
        self._peers: dict[int, _Peer] = {}
        self._connections: dict[socket.socket, _Connection] = {}
        self._closing = threading.Event()
        self._told_all = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="rtj-leader", daemon=True)

    def listen(self, address: str, port: int, patience: float = 10.0) -> None:
        """Open the port where the ranks meet. Raises ConfigurationError if it stays taken."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        until = time.monotonic() + patience
        while True:
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((address, port))
                listener.listen(128)
                break
            except OSError as err:
                listener.close()
                if time.monotonic() > until:
                    raise ConfigurationError(
                        f"rank 0 cannot listen on {address}:{port} for the other ranks: {err.strerror}; "
                        "set RTJ_AGREEMENT_PORT to a free port on all ranks"
                    ) from err
                time.sleep(0.2)
        listener.setblocking(False)
        self._listener = listener
        self._selector.register(listener, selectors.EVENT_READ)

    def start(self) -> None:
        """Begin; rank 0 has joined."""
        self.post(lambda now: self.coordinator.joined(0, now))
        self._thread.start()

    def post(self, event: Callable[[float], list[Effect]]) -> None:
        """Have the coordinator told of something, on the leader's thread."""
        self._events.put(event)
        try:
            self._wake_write.send(b"x")
        except OSError:
            pass

    def take(self, rank: int, message: Message) -> None:
        """Take a message of a rank (rank 0's own come this way too)."""
        self.post(lambda now: self._message(rank, message, now))

    def end(self, message: Message) -> None:
        """Tell every rank how the attempt ended."""

        def tell(now: float) -> list[Effect]:
            self._ended = True
            return [Tell(message)]

        self.post(tell)

    def say_goodbye(self, message: Message) -> None:
        """Send a last message to the other ranks, from a rank 0 that ends on its own."""
        self.post(lambda now: [Tell(message, tuple(range(1, self.coordinator.world_size)))])

    def wait_told(self, seconds: float) -> None:
        """Wait until every rank that can still be reached has got everything, at most that long."""
        self._told_all.wait(seconds)

    def close(self) -> None:
        """End the thread and close the sockets."""
        self._closing.set()
        self.post(lambda now: [])
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        last_tick = 0.0
        while not self._closing.is_set():
            for key, mask in self._selector.select(TICK_SECONDS):
                if key.fileobj is self._wake_read:
                    try:
                        self._wake_read.recv(4096)
                    except OSError:
                        pass
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    self._ready(self._connections[key.fileobj], mask)  # type: ignore[index]
            while not self._events.empty():
                self._perform(self._events.get()(time.monotonic()))
            now = time.monotonic()
            if now - last_tick >= TICK_SECONDS:
                last_tick = now
                self._tick(now)
            self._check_told()
        for connection in list(self._connections.values()):
            connection.socket.close()
        if self._listener is not None:
            self._listener.close()
        self._selector.close()

    def _tick(self, now: float) -> None:
        patience = RECONNECT_SECONDS_YIELDING if self.coordinator.asked is not None else RECONNECT_SECONDS
        for peer in self._peers.values():
            if peer.lost_at is not None and now - peer.lost_at >= patience:
                peer.lost_at = None
                self._perform(self.coordinator.gone(peer.rank, peer.why or "its connection broke", now))
        for connection in list(self._connections.values()):
            if connection.peer is None and now - connection.since > HELLO_SECONDS:
                self._drop(connection)
        if self._office.save_due(now):
            self._perform(self.coordinator.wish(now))
        self._perform(self.coordinator.tick(now))
        overdue = self.coordinator.overdue(now)
        if overdue is not None and not self._ended:
            self._office.give_up_recording(overdue)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, CommitSave):
                self._office.commit(effect)
            elif isinstance(effect, Conclude):
                self._office.conclude(effect)
            else:
                if effect.message["type"] == "aborted":
                    self._office.gave_up()
                for rank in range(self.coordinator.world_size) if effect.ranks is None else effect.ranks:
                    self._send(rank, effect.message)

    def _send(self, rank: int, message: Message) -> None:
        if rank == 0:
            self._local(message)
            return
        peer = self._peers.get(rank)
        if peer is None:
            return  # it joins later, and is told of a yield then
        data = peer.session.send(message)
        if peer.socket is not None:
            self._write(self._connections[peer.socket], data)

    def _message(self, rank: int, message: Message, now: float) -> list[Effect]:
        coordinator = self.coordinator
        kind = message["type"]
        if kind == "frozen":
            return coordinator.frozen(rank, message["round"], message["step"], message["place"], now)
        if kind == "heard":
            return coordinator.heard(Asked.read(message, now), now)
        if kind == "wish":
            return coordinator.wish(now, message["step"])
        if kind == "uploaded":
            return coordinator.uploaded(rank, message["nonce"], message["part"], now)
        if kind == "saveFailed":
            return coordinator.save_failed(rank, message["nonce"], message["why"], now)
        if kind == "finishing":
            return coordinator.finishing(rank, message["step"], now)
        if kind == "left":
            return coordinator.left(rank)
        if kind == "restoreFailed":
            return coordinator.restore_failed(rank, message["why"], message["failure"], now)
        if kind == "bye":
            return coordinator.gone(rank, message["why"], now)
        log.warning("rank %d sent a message of unknown type %r", rank, kind)
        return []

    # Connections.

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        accepted.setblocking(False)
        keep_alive(accepted)
        self._connections[accepted] = _Connection(accepted, time.monotonic())
        self._selector.register(accepted, selectors.EVENT_READ)

    def _ready(self, connection: _Connection, mask: int) -> None:
        try:
            if mask & selectors.EVENT_WRITE:
                sent = connection.socket.send(connection.outbox)
                connection.outbox = connection.outbox[sent:]
                if not connection.outbox:
                    self._selector.modify(connection.socket, selectors.EVENT_READ)
            if mask & selectors.EVENT_READ:
                data = connection.socket.recv(1 << 16)
                if not data:
                    raise ConnectionError("it closed the connection")
                self._received(connection, data)
        except BlockingIOError:
            return
        except (OSError, ValueError, KeyError, TypeError) as err:
            self._drop(connection, str(err))

    def _received(self, connection: _Connection, data: bytes) -> None:
        if connection.peer is None:
            connection.inbox += data
            head, newline, rest = connection.inbox.partition(b"\n")
            if not newline:
                if len(head) > HELLO_BYTES:
                    raise ValueError("no hello")
                return
            connection.inbox = b""
            self._greet(connection, json.loads(head))
            if connection.peer is None or not rest:
                return
            data = rest
        peer = connection.peer
        for message in peer.session.receive(data):
            self._perform(self._message(peer.rank, message, time.monotonic()))
        # Confirms what came, so that the other side knows when it may leave.
        self._write(connection, line({"seq": 0, "ack": peer.session.received, "msg": None}))

    def _greet(self, connection: _Connection, hello: Message) -> None:
        rank, token = int(hello["rank"]), str(hello["token"])
        why = refusal(hello, self._hello)
        known = self._peers.get(rank)
        if why is None and not 1 <= rank < self.coordinator.world_size:
            why = f"there is no rank {rank} to join: {self.coordinator.world_size} ranks"
        if why is None and known is not None and known.token != token:
            why = f"rank {rank} is another process, which began earlier; ranks are not restarted within an attempt"
        if why is not None:
            log.warning("refused a connection: %s", why)
            connection.outbox += line({"type": "refused", "why": why})
            connection.socket.send(connection.outbox)
            self._drop(connection)
            return
        if known is None:
            known = self._peers[rank] = _Peer(rank, token)
        elif known.socket is not None:
            self._drop(self._connections[known.socket])
        known.socket, known.lost_at = connection.socket, None
        connection.peer = known
        self._write(connection, line({**self._welcome, "received": known.session.received}))
        self._write(connection, known.session.resume(int(hello["received"])))
        now = time.monotonic()
        log.debug("rank %d joined", rank)
        self._perform(self.coordinator.joined(rank, now))

    def _write(self, connection: _Connection, data: bytes) -> None:
        if not data or connection.socket not in self._connections:
            return
        connection.outbox += data
        self._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _drop(self, connection: _Connection, why: str = "") -> None:
        if self._connections.pop(connection.socket, None) is None:
            return
        self._selector.unregister(connection.socket)
        connection.socket.close()
        peer = connection.peer
        if peer is not None and peer.socket is connection.socket:
            peer.socket, peer.lost_at, peer.why = None, time.monotonic(), why

    def _check_told(self) -> None:
        if self._ended and all(p.session.confirmed or p.socket is None for p in self._peers.values()):
            self._told_all.set()


def refusal(theirs: Message, ours: Message) -> str | None:
    """Return why two processes are not ranks of the same attempt, or None. A zombie of an older one is told so."""
    for key, name in (("protocol", "protocol"), ("run", "run"), ("attempt", "attempt"), ("worldSize", "world size")):
        if theirs.get(key) != ours.get(key):
            return f"{name} is {theirs.get(key)!r}, here it is {ours.get(key)!r}"
    return None


def keep_alive(connection: socket.socket) -> None:
    """Notice within half a minute that the other host is gone, and send small messages at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 25000)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
