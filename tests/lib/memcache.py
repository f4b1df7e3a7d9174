#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A client of memcached that checks each answer.

memcache.py ADDRESS PORT STREAMS ROUNDS     all streams at once, a thread for each
"""
import hashlib
import random
import socket
import sys
import threading

address = sys.argv[1]
port, streams, rounds = map(int, sys.argv[2:5])


def same(got, wanted):
    if got != wanted:
        raise ValueError(f"{got[:80]!r}, wanted {wanted[:80]!r}")


def talk(number, results):
    rand = random.Random(number)
    total = hashlib.sha256()
    with socket.create_connection((address, port)) as conn:
        answers = conn.makefile("rb")

        def ask(request, wanted):
            conn.sendall(request)
            same(answers.read(len(wanted)), wanted)
            total.update(wanted)

        def value(key, data):
            return b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(data), data)

        for size in (1, 100, 2000, 40000, 700000) * rounds:
            key, data = b"k%d.%d" % (number, size), rand.randbytes(size)
            ask(b"set %s 0 0 %d\r\n%s\r\n" % (key, size, data), b"STORED\r\n")
            ask(b"get %s\r\n" % key, value(key, data) + b"END\r\n")
        # Many requests before the first answer is read; keys that all threads use
        keys = [b"n%d.%d" % (number, i) for i in range(200)]
        ask(b"".join(b"set %s 0 0 1\r\n7\r\n" % k for k in keys), b"STORED\r\n" * 200)
        ask(b"".join(b"incr %s 5\r\n" % k for k in keys), b"12\r\n" * 200)
        ask(b"get " + b" ".join(keys[:50]) + b"\r\n",
            b"".join(value(k, b"12") for k in keys[:50]) + b"END\r\n")
        ask(b"add all 0 0 1 noreply\r\n0\r\nget none\r\n", b"END\r\n")
        for _ in range(50):
            ask(b"incr all 1 noreply\r\nget none\r\n", b"END\r\n")
    results[number] = total.hexdigest()


found = {}
threads = [threading.Thread(target=talk, args=(i, found)) for i in range(streams)]
for t in threads:
    t.start()
for t in threads:
    t.join()
with socket.create_connection((address, port)) as conn:
    conn.sendall(b"get all\r\nquit\r\n")
    count = conn.makefile("rb").read().split()[4].decode()
print(len(found), count, hashlib.sha256("".join(found[i] for i in sorted(found)).encode()).hexdigest())
sys.exit(len(found) != streams)
