#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Another user on this host, who is in the way of those that set up a shared memory link.

stranger.py squat HOW ADDRESS PORT   takes the rendezvous name; HOW: open, or full, when
                                     nobody else can connect to it
stranger.py keep N ADDRESS PORT      takes the keeper's name, asks each worker for all
                                     streams of others to that port, and N times for one
                                     that is not there; for 3 seconds
stranger.py call HOW ADDRESS PORT    connects to it, and HOW: says nothing (silent), or
                                     sends sockets that take long to close, and goes
                                     (leave) or stays (stay), or sockets whose close is a
                                     reset (reset)
stranger.py own HOW ADDRESS PORT     as call, but has streams, and a link to each
stranger.py flood N ADDRESS PORT     connects N times, as fast as it can, says something
                                     at random, and stays or goes
stranger.py requeue N ADDRESS PORT   under Sockrail: has N streams, by a link each, moves the
                                     threads that sleep on its memory to another futex of
                                     it, and is killed
stranger.py crowd N ADDRESS PORT     connects N times to it and to the keeper's, and stays
stranger.py heir HOW ADDRESS PORT    joins the keeper as root, and then says of each stream
                                     that it has it; HOW: have, or that it claims it, too
                                     (claim); or it has claimed one as root, whose client
                                     resets it: then it says its port (reuse), and does not
                                     wait until the keeper has read the claim (unread).  Says
                                     "found" for each, and "called" if an asker was sent to it
It says "ready", and is there until it is killed.  flood and keep say then what they got.
"""
import contextlib
import ctypes
import fcntl
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

role, how, address, port = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
VERSION = 6
NAME = f"\0sockrail-{VERSION}/tcp4:{address}:{port}"
USER = 65533
PLACE = "0123456789abcdef"
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


def streams():
    """Of others, with that port, as anybody can read them."""
    with open("/proc/net/tcp", "rb") as table:
        rows = [line.split() for line in table][1:]
    for here, there in (row[1:3] for row in rows if row[3] == b"01"):
        if int(there.split(b":")[1], 16) == port:
            yield int(here.split(b":")[1], 16)


def name(sport, number=1):
    here = socket.inet_aton(address)
    return struct.pack(">2sBBHHI4s12x4s12x", b"SR", VERSION, 4, sport, port, number, here,
                       here)


def cookie(sport):
    """Of the server's socket that has this peer."""
    sockets = subprocess.check_output(
        ["ss", "-tneH", "src", f"{address}:{port}", "dst", f"{address}:{sport}"], text=True)
    return int(re.search(r"\bsk:([0-9a-f]+)", sockets)[1], 16)


def find(line, sport):
    line.send(struct.pack("B44s56x", 2, name(sport)))


def keep():
    """Connections that say which streams they have, which is what he learns."""
    got = {"joins": 0, "streams": 0, "descriptors": 0}
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(NAME + "/keeper")
    listener.listen(100)
    print("ready", flush=True)
    line, _ = listener.accept()
    left, due = int(how), 0
    end = time.monotonic() + 3
    while time.monotonic() < end or not got["streams"]:
        if select.select([line], [], [], 0.001)[0]:
            packet, fds, _, _ = socket.recv_fds(line, 100, 10)
            if not packet:
                break
            got["joins"] += packet[0] == 1
            got["streams"] += packet[0] == 3
            got["descriptors"] += len(fds)
        if time.monotonic() > due:
            due = time.monotonic() + 0.1
            for sport in streams():
                find(line, sport)
        for _ in range(min(left, 10)):
            find(line, 1)
            left -= 1
    print("got", ", ".join(f"{n} {what}" for what, n in got.items()), flush=True)
    return listener, line


def lingering(to):
    """A socket whose last close(2) takes an hour, or is a reset."""
    full = socket.socket()
    full.connect(to)
    full.setblocking(False)
    try:
        while True:
            full.send(bytes(65536))
    except BlockingIOError:
        pass
    full.setblocking(True)
    full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                    struct.pack("ii", 1, 0 if how == "reset" else 3600))
    return full.detach()


def send_lingering(line, to, word=bytes(48)):
    """Two of them, of which no copy stays here."""
    fds = [lingering(to), lingering(to)]
    socket.send_fds(line, [word], fds)
    os.closerange(min(fds), max(fds) + 1)


def link(stream, line):
    """Asks for one.  The answerer's doorbell."""
    line.setblocking(True)
    line.send(bytes((VERSION, 14, 14, 0)) + name(stream.getsockname()[1]) + bytes(4))
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


def answer(line):
    """Is it more than a refusal?"""
    try:
        word, fds, _, _ = socket.recv_fds(line, 100, 10)
    except OSError:     # none
        return 0
    finally:
        line.close()
    for fd in fds:
        os.close(fd)
    return word == b"ok" or bool(fds)


def flood():
    """Requests of all kinds; the latest hundred stay."""
    kept, made, got = [], 0, 0
    for i in range(int(how)):
        if not i % 100:
            theirs = list(streams()) or [1]
        try:
            line = connection()
        except OSError:     # it is full, or nobody is there
            time.sleep(0.001)
            continue
        sport = random.choice((random.randrange(1024, 65536), *theirs))
        offer = bytes((VERSION, 14, 14, i & 1)) + name(sport, i) + bytes((i & 2 and 1, 0, 0, 0))
        with contextlib.suppress(OSError):
            line.send((offer, os.urandom(len(offer)), offer[:7], b"", b"ok", offer)[i % 6])
        made += 1
        kept.append(line)
        if len(kept) > 100:
            got += answer(kept.pop(random.randrange(100)))
    print(f"made {made} requests, got {got} links or descriptors", flush=True)
    return kept


def requeue():
    """In the page of an end (struct sr_shm_page) `asleep` is byte 64, and `core` 68."""
    streams = [socket.socket() for _ in range(int(how))]
    for stream in streams:
        stream.connect((address, port))
        stream.sendall(b"x")
        stream.recv(1)
    with open("/proc/self/maps", "rb") as maps:
        pages = [int(line.split(b"-")[0], 16) for line in maps if b"/memfd:sockrail (" in line]
    libc, moved, end = ctypes.CDLL(None), 0, time.monotonic() + 2
    while moved < len(pages) and time.monotonic() < end:
        for page in pages:
            word, other = page + 4096 + 64, page + 68
            asleep = ctypes.c_uint32.from_address(word)
            moved += libc.syscall(202, ctypes.c_void_p(word), 4, 0, ctypes.c_void_p(1),
                                  ctypes.c_void_p(other), asleep) > 0  # FUTEX_CMP_REQUEUE
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def join():
    """What a worker has that is root's."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0sockrail-{VERSION}/there/{PLACE}")
    listener.listen(5)
    line = connection("/keeper")
    line.send(struct.pack("B44x28s28x", 1, f"{PLACE} {USER}".encode()))
    if how in ("reuse", "unread"):
        reset_claimed(line)
    return line, listener


def bound(sport):
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stream.bind((address, sport))
    return stream


def reset_claimed(line):
    held.append(bound(0))   # so that no other program gets that port meanwhile
    stream = bound(held[0].getsockname()[1])
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.connect((address, port))
    sport = stream.getsockname()[1]
    for _ in range(2):  # once the second one has been read the first one counts
        line.send(struct.pack("=B44sQ48x", 4, name(sport), cookie(sport)))
        while how == "reuse" and any(fcntl.ioctl(line, termios.TIOCOUTQ, bytes(4))):
            time.sleep(0.01)
    print(sport, flush=True)
    stream.close()


def heir():
    line, listener = as_root
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([line, listener], [], [])
        if listener in ready:
            listener.accept()
            print("called", flush=True)
        if line in ready:
            packet = line.recv(200)
            if not packet:
                raise EOFError
            if how == "claim":
                sport = int.from_bytes(packet[5:7], "big")
                line.send(struct.pack("=B44sQ48x", 4, packet[1:45], cookie(sport)))
            line.send(struct.pack("B44s56x", 3, packet[1:45]))
            print("found", flush=True)


held = []
as_root = join() if role == "heir" else None
os.setgroups([])
os.setgid(USER)
os.setuid(USER)
kept = {"squat": squat, "keep": keep, "call": call, "own": call, "flood": flood,
        "crowd": crowd, "heir": heir, "requeue": requeue}[role]()
print("ready", flush=True)
signal.pause()
