#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Threaded TCP echo, as people write it in Python.

echo.py server ADDRESS PORT STREAMS     serves so many streams, then ends
echo.py client ADDRESS PORT STREAMS     all at once, a thread for each
"""
import hashlib
import random
import socket
import sys
import threading

role, address, port, streams = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def serve(conn):
    with conn:
        while data := conn.recv(65536):
            conn.sendall(data)


def receive(conn, size):
    parts = []
    while size:
        data = conn.recv(size)
        if not data:
            raise EOFError
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def talk(number, results):
    rand = random.Random(number)
    total = hashlib.sha256()
    with socket.create_connection((address, port)) as conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(10):
            data = rand.randbytes(rand.randint(1, 20000))
            conn.sendall(data)
            if receive(conn, len(data)) != data:
                raise ValueError("echo differs")
            total.update(data)
        conn.shutdown(socket.SHUT_WR)
        if conn.recv(1):
            raise ValueError("no end")
    results[number] = total.hexdigest()


threads = []
if role == "server":
    with socket.create_server((address, port), backlog=128) as listener:
        print("ready", flush=True)
        for _ in range(streams):
            threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
            threads[-1].start()
else:
    found = {}
    for i in range(streams):
        threads.append(threading.Thread(target=talk, args=(i, found)))
        threads[-1].start()
for t in threads:
    t.join()
if role == "client":
    print(len(found), hashlib.sha256("".join(found[i] for i in sorted(found)).encode()).hexdigest())
    sys.exit(len(found) != streams)
