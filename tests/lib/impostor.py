#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A peer that breaks off, or lies, at one step of attaching a shared memory link.

impostor.py answer HOW ADDRESS PORT     serves one stream: echo, and takes requests
impostor.py ask HOW ADDRESS PORT        talks to an echo server, and asks for a link

On TCP it is honest, and says so in the end: what it sent came back.  Written from
sockrail-protocol(7) and src/link/shm/shm.h, not from the code.
"""
import contextlib
import fcntl
import mmap
import os
import socket
import struct
import sys
import threading
import time

HELLO, SWITCH, ACKSW, END, ACKEND = 1, 3, 4, 5, 6
ASKER, ANSWERER = 1, 2
PAGE, RING = 4096, 16384
DROPPED, CTL, GENS, SLOTS, SLOT = 20, 16, 24, 384, 132
SEALS = 1 | 2 | 4  # seal, shrink, grow

OTHER = 65533  # a user

role, how, address, port = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
FOREIGN = how.startswith("foreign")     # the stream, too, is the other user's


class Link:
    """One end of the shared memory, as shm.h lays it out."""

    def __init__(self, me, line, memory):
        self.me, self.line = me, line
        size = os.fstat(memory).st_size
        self.map = mmap.mmap(memory, size)
        self.own, self.peer = (0, PAGE) if me == ASKER else (PAGE, 0)
        self.token = os.urandom(16)

    def say(self, kind, body=b""):
        at = self.own + SLOTS + SLOT * kind
        message = struct.pack(">BBHQ", kind, 0, 0, 0) + body
        self.map[at:at + 4] = struct.pack("=I", len(message))
        self.map[at + 4:at + 4 + len(message)] = message
        self.flag(CTL, self.word(self.own + CTL) | 1 << kind)

    def flag(self, where, value):
        self.map[self.own + where:self.own + where + 4] = struct.pack("=I", value)
        try:
            self.line.send(b"\0")
        except BrokenPipeError:
            pass    # it has looked without being told, and hung up

    def word(self, at):
        return struct.unpack("=I", self.map[at:at + 4])[0]

    def heard(self, kind):
        """The body of the peer's message, once it is there."""
        until(lambda: self.word(self.peer + CTL) & 1 << kind, f"message {kind}")
        at = self.peer + SLOTS + SLOT * kind
        return self.map[at + 16:at + 4 + self.word(at)]

    def drop(self):
        self.flag(DROPPED, 1)

    def await_drop(self):
        until(lambda: self.word(self.peer + DROPPED), "drop")

    def hello(self, number, version=6, me=None):
        self.say(HELLO, struct.pack(">BBHI16s40x", version, me or self.me, 0, number,
                                    self.token))


def until(true, what):
    for _ in range(1000):
        if true():
            return
        time.sleep(0.01)
    raise TimeoutError(what)


@contextlib.contextmanager
def as_other(ever=True):
    if ever:
        os.seteuid(OTHER)
    yield
    os.seteuid(os.getuid())


def send_lingering(line, word, n):
    """n times a socket whose last close(2), which is not ours, takes an hour."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as full:
        full.connect(listener.getsockname())
        full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
        kept.append(listener.accept()[0])
        full.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                full.send(bytes(65536))
        full.setblocking(True)
        socket.send_fds(line, [word], [full.fileno()] * n)


kept = []


def name():
    return f"\0sockrail-6/tcp4:{address}:{port}"


# ------------------------------------------------------------------- answer


def memory_of(first, last):
    """For rings of these sizes, and those between."""
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(min(sizes[-1] * 4, last))
    memory = os.memfd_create("impostor", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, 2 * (PAGE + sum(sizes)))
    if how != "not-sealed":
        fcntl.fcntl(memory, 1033, SEALS)
    return memory


def take_requests(listener):
    """Deals with the first; later ones find nobody."""
    line, _ = listener.accept()
    offer = line.recv(100)
    while FOREIGN and not offer:    # it came before the stream was accepted
        line, _ = listener.accept()
        offer = line.recv(100)
    if how == "other-user":
        if offer:
            raise ValueError("an offer")
        return
    if how in ("hang-up", "other-word"):
        if how == "other-word":
            line.send(b"tired")
        line.close()
        return
    if how == "silent":
        line.recv(1)
        return
    listener.close()
    if how in ("foreign-file", "foreign-more"):
        send_lingering(line, b"ok", 1 if how == "foreign-file" else 200)
        line.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            if line.recv(1):
                raise ValueError("no end")
        return
    memory = memory_of(1 << offer[1], 1 << offer[2])
    doorbell, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if offer[3] != FOREIGN:
        raise ValueError("alone")
    socket.send_fds(line, [b"ok"],
                    [memory, other.fileno()][:1 if FOREIGN or how == "one-only" else 2])
    other.close()
    if how in ("not-sealed", "one-only"):
        if line.recv(1):
            raise ValueError("no end")
        return
    if how == "no-hello":
        line.close()
        doorbell.close()
        return
    link = Link(ANSWERER, line, memory)
    number = struct.unpack(">I", offer[12:16])[0]
    link.heard(HELLO)
    link.hello(number, version=4 if how == "other-version" else 6)
    if how == "other-version":
        link.await_drop()
        return
    link.heard(SWITCH)
    if how == "foreign-doorbell":
        send_lingering(line, b"", 1)
    elif how in ("drop", "foreign"):
        link.drop()
    link.await_drop()


def answer():
    with socket.create_server((address, port)) as tcp, \
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(name())
        with as_other(FOREIGN or how == "other-user"):
            listener.listen()
        print("ready", flush=True)
        with as_other(FOREIGN):
            conn, _ = tcp.accept()
        if how != "plain":
            threading.Thread(target=take_requests, args=(listener,), daemon=True).start()
        with conn:
            while data := conn.recv(65536):
                conn.sendall(data)


# ---------------------------------------------------------------------- ask


def receive(conn, size):
    back = b""
    while len(back) < size:
        piece = conn.recv(65536)
        if not piece:
            raise EOFError
        back += piece
    return back


def talk(conn, data):
    conn.sendall(data)
    if receive(conn, len(data)) != data:
        raise ValueError("echo differs")


def ask_for_link(conn, said):
    if how == "other-name":     # its own, but not with this server
        elsewhere = socket.create_server((address, 0))
        conn = socket.create_connection(elsewhere.getsockname())
    sport, dport = conn.getsockname()[1], conn.getpeername()[1]
    if how == "no-user":
        sport ^= 1
    here = socket.inet_aton(address)
    offer = struct.pack(">BBBB2sBBHHI4s12x4s12x4x", 4 if how == "other-offer" else 6, 14, 14, 0,
                        b"SR", 6, 4, sport, dport, 1, here, here)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with as_other(FOREIGN or how in ("other-user", "no-user")):
        line.connect(name())
    word, fds = b"", []
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        line.send(offer)
        word, fds, _, _ = socket.recv_fds(line, 100, 3)
    print("the answer:", word.decode())
    if word != b"ok":
        return
    link = Link(ASKER, line, fds[0])
    link.hello(1, me=ANSWERER if how == "other-role" else ASKER)
    if how == "other-role":
        link.await_drop()
        return
    answerer = link.heard(HELLO)
    link.map[link.own:link.own + 8] = struct.pack("=Q", len(said))  # tx_w
    link.say(SWITCH, struct.pack(">QIIBxxx", len(said), 0, 1, 0xf5))
    link.heard(ACKSW)
    if how == "foreign-doorbell":
        send_lingering(socket.socket(fileno=fds[1]), b"", 1)
        send_lingering(line, b"", 1)
    elif how in ("foreign", "no-mark"):
        link.drop()
    if FOREIGN or how == "no-mark":
        link.await_drop()
        return
    mark = struct.pack(">B11sI", 0xf5, b"sockrailMRK", 1)
    if how == "end-lost":
        conn.sendall(mark + answerer[8:24])
        end_by_link(conn, link, len(said))
        return
    # But for the token, which came by the link and is not told here.
    talk(conn, mark + bytes(16))
    link.await_drop()


def end_by_link(conn, link, at):
    """All has arrived by the link, its end too; and is sent again as if it had not, piece
    by piece, when the other program has closed long since."""
    data = os.urandom(1000)
    ring = 2 * PAGE
    link.map[ring + at:ring + at + len(data)] = data
    link.map[link.own + GENS:link.own + GENS + 4] = struct.pack("=I", 1)
    link.map[link.own:link.own + 8] = struct.pack("=Q", at + len(data))  # tx_w
    link.say(END, struct.pack(">Q", at + len(data)))
    if receive(conn, len(data)) != data:
        raise ValueError("echo differs")
    link.heard(ACKEND)
    time.sleep(0.2)
    link.drop()
    for piece in struct.pack(">8sQQ8x", b"sockrlRS", at, at + len(data)), data[:500], data[500:]:
        conn.sendall(piece)
        time.sleep(0.2)


def ask():
    with contextlib.ExitStack() as more:
        with as_other(FOREIGN):
            conn = more.enter_context(socket.socket())
        conn.connect((address, port))
        if how == "end-lost":   # keeps the server's process
            more.enter_context(socket.create_connection((address, port)))
        said = os.urandom(100)
        talk(conn, said)
        if how != "plain":
            ask_for_link(conn, said)
        if how != "end-lost":
            talk(conn, os.urandom(100000))
        conn.shutdown(socket.SHUT_WR)
        if conn.recv(1):
            raise ValueError("no end")
    print("all came back")


answer() if role == "answer" else ask()
