"""Sums vectors over all ranks, in rank order, so that every rank gets the same bits every time.

A star over plain sockets: rank 0 adds what the others send and sends the sum back. It is small enough to read; a
real trainer has NCCL, gloo or MPI here.
"""

from __future__ import annotations

import socket
import struct
import time

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_HELLO = struct.Struct("!IIQ")


class AllReduce:
    """Joins the ranks of one attempt. Rank 0 listens on its pod's own address."""

    def __init__(
        self, rank: int, world_size: int, attempt: int, *, leader: str, port: int, own: str, patience: float = 120.0
    ) -> None:
        self._rank = rank
        self._peers: list[socket.socket] = []
        if world_size == 1:
            return
        until = time.monotonic() + patience
        if rank > 0:
            self._peers = [_connect(leader, port, _HELLO.pack(rank, world_size, attempt), until)]
            return
        with _listen(own, port, until) as listener:
            joined: dict[int, socket.socket] = {}
            while len(joined) < world_size - 1:
                listener.settimeout(max(0.1, until - time.monotonic()))
                peer, _ = listener.accept()
                peer.settimeout(5.0)
                try:
                    who, size, theirs = _HELLO.unpack(_receive(peer, _HELLO.size))
                except OSError:
                    peer.close()
                    continue
                if (size, theirs) != (world_size, attempt):
                    peer.close()  # a zombie of an older attempt
                    continue
                peer.sendall(b"\1")
                peer.settimeout(None)
                joined[who] = peer
        self._peers = [joined[rank] for rank in sorted(joined)]

    def sum(self, own: Vector) -> Vector:
        """Return own + all others', added in rank order. Raises ConnectionError when a rank is gone."""
        if not self._peers:
            return own
        if self._rank > 0:
            self._peers[0].sendall(own.tobytes())
            return np.frombuffer(_receive(self._peers[0], own.nbytes), np.float64).copy()
        total = own.copy()
        for peer in self._peers:
            total += np.frombuffer(_receive(peer, own.nbytes), np.float64)
        for peer in self._peers:
            peer.sendall(total.tobytes())
        return total

    def close(self) -> None:
        """Close the connections."""
        for peer in self._peers:
            peer.close()


def _listen(address: str, port: int, until: float) -> socket.socket:
    while True:
        try:
            return socket.create_server((address, port), backlog=128)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def _connect(host: str, port: int, hello: bytes, until: float) -> socket.socket:
    while True:
        try:
            peer = socket.create_connection((host, port), timeout=5.0)
            try:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer.sendall(hello)
                _receive(peer, 1)
                peer.settimeout(None)
                return peer
            except OSError:
                peer.close()
                raise
        except OSError as err:
            if time.monotonic() > until:
                raise ConnectionError(f"no rank 0 at {host}:{port}: {err}") from err
            time.sleep(0.1)


def _receive(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise ConnectionError("another rank closed its connection")
        data += piece
    return bytes(data)
