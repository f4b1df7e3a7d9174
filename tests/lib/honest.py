#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Streams that go on, and new ones, while somebody attacks others or them.

honest.py server ADDRESS PORT               echo, until it is killed
honest.py client ADDRESS PORT STREAMS FILE  so many at a time, until FILE is there
honest.py script ADDRESS PORT STREAMS FILE WORDS
                                            the same, each of which sends WORDS, a file: 1,000
                                            bytes, 64 more, and 16 at a time when FILE is
                                            there; or each 0.1 s, if there is FILE.ticks.
                                            With "ready" come their ports

A client says "ready" when each has moved bytes, and in the end how many streams and
exchanges there were, and the longest time that one took.  What comes back is compared.
"""
import os
import random
import socket
import sys
import threading
import time

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
EXCHANGES = 50      # of a stream
lock = threading.Lock()
streams = exchanges = 0
longest = 0.0


def serve(conn):
    with conn:
        while data := conn.recv(65536):
            conn.sendall(data)


def receive(conn, size):
    data = b""
    while len(data) < size:
        more = conn.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def exchange(conn, data):
    global exchanges, longest
    start = time.monotonic()
    conn.sendall(data)
    if receive(conn, len(data)) != data:
        raise ValueError("echo differs")
    with lock:
        exchanges += 1
        longest = max(longest, time.monotonic() - start)


def follow(words, begun, ports):
    at = 0
    with socket.create_connection((address, port)) as conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in (1000, 64) + (16,) * 5:
            if at == 1064:
                ports.append(conn.getsockname()[1])
                begun.set()
            while at >= 1064 and not os.path.exists(sys.argv[5]):
                time.sleep(0.1)
                if os.path.exists(sys.argv[5] + ".ticks"):
                    exchange(conn, words[at:at + 16])
                    at += 16
            exchange(conn, words[at:at + size])
            at += size


def talk(begun):
    global streams
    while not os.path.exists(sys.argv[5]):
        with socket.create_connection((address, port)) as conn:
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(EXCHANGES):
                exchange(conn, random.randbytes(random.choice((1, 64, 4000, 20000))))
                begun.set()
                time.sleep(0.02)
            conn.shutdown(socket.SHUT_WR)
            if conn.recv(1):
                raise ValueError("no end")
        with lock:
            streams += 1


def failed(args):
    sys.__excepthook__(args.exc_type, args.exc_value, args.exc_traceback)
    os._exit(1)


threading.excepthook = failed
if role == "server":
    with socket.create_server((address, port), backlog=128) as listener:
        print("ready", flush=True)
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
begun = [threading.Event() for _ in range(int(sys.argv[4]))]
ports = []
if role == "script":
    with open(sys.argv[6], "rb") as file:
        data = file.read()
    threads = [threading.Thread(target=follow, args=(data, b, ports)) for b in begun]
else:
    threads = [threading.Thread(target=talk, args=(b,)) for b in begun]
for t in threads:
    t.start()
for b in begun:
    b.wait()
print("ready", *ports, flush=True)
for t in threads:
    t.join()
print(f"{streams} streams, {exchanges} exchanges, the longest {longest * 1000:.0f} ms")
sys.exit(longest > 5)
