#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Another user on this host, who is in the way of those that set up a shared memory link.

stranger.py squat HOW ADDRESS PORT   takes the rendezvous name; HOW: open, or full, when
                                     nobody else can connect to it
stranger.py call HOW ADDRESS PORT    connects to it, and HOW: says nothing (silent), or
                                     sends sockets that take long to close, and goes
                                     (leave) or stays (stay)
stranger.py own HOW ADDRESS PORT     as call, but has streams, and a link to each
stranger.py flood N ADDRESS PORT     connects N times, as fast as it can, says something
                                     at random, and stays or goes
stranger.py crowd N ADDRESS PORT     connects N times to it and to the keeper's, and stays
It says "ready", and is there until it is killed.
"""
import contextlib
import os
import random
import select
import signal
import socket
import struct
import sys
import time

role, how, address, port = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
VERSION = 4
NAME = f"\0sockrail-{VERSION}/tcp4:{address}:{port}"
USER = 65533
CALLS = 3   # less than the server closes at one time


def connection(suffix=""):
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.setblocking(False)
    line.connect(NAME + suffix)
    return line


def crowd():
    return [connection(suffix) for suffix in ("", "/keeper") for _ in range(int(how))]


def squat():
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(NAME)
    listener.listen(5)
    lines = [listener]
    try:
        while how == "full":
            lines.append(connection())
    except BlockingIOError:
        pass
    return lines


def lingering(to):
    """A socket whose last close(2) takes an hour."""
    full = socket.socket()
    full.connect(to)
    full.setblocking(False)
    try:
        while True:
            full.send(bytes(65536))
    except BlockingIOError:
        pass
    full.setblocking(True)
    full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    return full.detach()


def send_lingering(line, to, word=bytes(48)):
    """Two of them, of which no copy stays here."""
    fds = [lingering(to), lingering(to)]
    socket.send_fds(line, [word], fds)
    os.closerange(min(fds), max(fds) + 1)


def link(stream, line):
    """Asks for one.  The answerer's doorbell."""
    here = socket.inet_aton(address)
    line.setblocking(True)
    line.send(struct.pack(">BBBB2sBBHHI4s12x4s12x", VERSION, 14, 14, 0, b"SR", VERSION, 4,
                          stream.getsockname()[1], port, 1, here, here))
    word, fds, _, _ = socket.recv_fds(line, 100, 2)
    if word != b"ok":
        raise ValueError(word)
    return socket.socket(fileno=fds[1])


def one_call(to, done):
    stream = socket.socket()
    if role == "own":
        stream.connect((address, port))
        stream.sendall(b"hello")
        stream.recv(5)
    line = connection()
    if role == "own":
        send_lingering(link(stream, line), to, b"")
    if how != "silent":
        send_lingering(line, to)
    if how == "leave":
        line.close()
    os.write(done, b"x")
    signal.pause()


def call():
    """Each in a process of its own, which has to wait if its close(2) was the last one."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen(100)
    done, done_write = os.pipe()
    for _ in range(CALLS):
        if not os.fork():
            one_call(listener.getsockname(), done_write)
    left = CALLS
    while left and select.select([done], [], [], 2)[0]:
        left -= len(os.read(done, left))
    return listener     # and the connections that nobody accepts


def flood():
    """Requests of all kinds; the latest hundred stay."""
    here = socket.inet_aton(address)
    kept, made = [], 0
    for i in range(int(how)):
        try:
            line = connection()
        except OSError:     # it is full, or nobody is there
            time.sleep(0.001)
            continue
        offer = struct.pack(">BBBB2sBBHHI4s12x4s12x", VERSION, 14, 14, i & 1, b"SR",
                            VERSION, 4, random.randrange(1024, 65536), port, i, here, here)
        with contextlib.suppress(OSError):
            line.send((offer, os.urandom(len(offer)), offer[:7], b"", b"ok", offer)[i % 6])
        made += 1
        kept.append(line)
        if len(kept) > 100:
            kept.pop(random.randrange(100)).close()
    print(f"made {made} requests", flush=True)
    return kept


os.setgroups([])
os.setgid(USER)
os.setuid(USER)
kept = {"squat": squat, "call": call, "own": call, "flood": flood,
        "crowd": crowd}[role]()
print("ready", flush=True)
signal.pause()
