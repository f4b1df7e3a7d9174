#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Another user who may write to the directory in which pods find each other.

neighbour.py squat HOW DIR ADDRESS PORT   has names of that address in the directory, and HOW:
                                          says nothing (silent), gives memory at once (ok), or
                                          takes part in the proof without knowing the history
                                          (guess), or goes when it has the asker's (go)
neighbour.py relay THERE DIR ADDRESS PORT the same, and passes on all packets to those who have
                                          such names in THERE, and back
neighbour.py ask HOW DIR ADDRESS PORT     asks for the link of a stream to that address, which
                                          it reads (ADDRESS:PORT of its client) from stdin, and
                                          HOW: guesses (guess), or sends descriptors (descriptors)
It says "ready", then what it got, line by line, and is there until it is killed.  Written from
sockrail-protocol(7), not from the code.
"""
import ctypes.util
import glob
import os
import select
import socket
import struct
import sys
import threading

role, how, directory, address, port = sys.argv[1:5] + [int(sys.argv[5])]
HELLO, PROOF, SHARE = 1, 2, 12
NAMES = 9   # more than an asker asks
USER = 65533
NAME = f"6.tcp4:{address}:{port}."
sodium = ctypes.CDLL(ctypes.util.find_library("sodium"))
descriptors = 0


def say(*words):
    print(*words, flush=True)


def receive(line):
    """A packet, and with how many descriptors it came, which are kept."""
    global descriptors
    try:
        data, fds, _, _ = socket.recv_fds(line, 1000, 16)
    except ConnectionResetError:    # it went without reading what was said last
        return b"", []
    descriptors += len(fds)
    return data, fds


def message(kind, body):
    return struct.pack(">B3xQ", kind, 0) + body


def hello(me, number):
    return message(HELLO, struct.pack(">BB2xI16sQQ20xB3x", 6, me, number, os.urandom(16),
                                      1 << 40, 1 << 40, 1))


def share():
    point = ctypes.create_string_buffer(32)
    sodium.crypto_core_ristretto255_random(point)
    return message(SHARE, point.raw)


def memory():
    fd = os.memfd_create("neighbour", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 1 << 20)
    return fd


def prove(line, me, number):
    """Takes part in the proof, and says which messages came.  True: up to the peer's PROOF."""
    if me == 1:
        line.send(hello(me, number))
        line.send(share())
    while True:
        data, fds = receive(line)
        if not data:
            return False
        kind = data[0]
        say("heard", kind, "with", len(fds))
        if kind == HELLO and me == 2:
            number = struct.unpack(">I", data[16:20])[0]
            line.send(hello(me, number))
            line.send(share())
        if kind == SHARE and me == 1:
            line.send(message(PROOF, os.urandom(32)))
        if kind == PROOF:
            return True


def answer(line):
    offer, _ = receive(line)
    say("offer", len(offer))
    if how == "ok":
        socket.send_fds(line, [b"ok"], [memory()])
    if how in ("guess", "go"):
        line.send(b"prove")
        if prove(line, 2, 0) and how == "guess":
            socket.send_fds(line, [message(PROOF, os.urandom(32))], [memory()])
    if how != "go":
        receive(line)   # until it goes
    line.close()
    say("gone, with", descriptors, "descriptors")


def relay(line):
    """To each of them, until one has the stream."""
    offer, _ = receive(line)
    say("offer", len(offer))
    for name in glob.glob(f"{how}/{NAME}*"):
        there = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        there.connect(name)
        there.send(offer)
        word, fds = receive(there)
        if word == b"prove" or word.startswith(b"there"):
            break
    socket.send_fds(line, [word], fds)
    say("passes on", word.decode())
    ends = [line, there]
    while True:
        for end in select.select(ends, [], [])[0]:
            data, fds = receive(end)
            if not data:
                line.close()
                there.close()
                say("gone, with", descriptors, "descriptors")
                return
            say("passes on", data[0], "with", len(fds))
            socket.send_fds(ends[end is line], [data], fds)


def serve(fn):
    listeners = []
    for i in range(NAMES):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(f"{directory}/{NAME}{i:016x}")
        os.chmod(f"{directory}/{NAME}{i:016x}", 0o666)
        s.listen(10)
        listeners.append(s)
    say("ready")
    while True:
        for s in select.select(listeners, [], [])[0]:
            threading.Thread(target=fn, args=(s.accept()[0],), daemon=True).start()


def ask():
    say("ready")
    for number, text in enumerate(sys.stdin):
        client, sport = text.split(":")
        for name in glob.glob(f"{directory}/{NAME}*"):
            line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            line.connect(name)
            offer = struct.pack(">BBBB2sBBHHI4s12x4s12x4x", 6, 14, 20, 1, b"SR", 6, 4, int(sport),
                                port, number + 1, socket.inet_aton(client),
                                socket.inet_aton(address))
            if how == "descriptors":
                socket.send_fds(line, [offer], [memory()])
            else:
                line.send(offer)
            word, _ = receive(line)
            say("answer", word.decode() or "none")
            if word == b"prove":
                prove(line, 1, number + 1)
            line.close()
        say("gone, with", descriptors, "descriptors")


os.umask(0)
os.setgroups([])
os.setgid(USER)
os.setuid(USER)
if role == "ask":
    ask()
else:
    serve(relay if role == "relay" else answer)
