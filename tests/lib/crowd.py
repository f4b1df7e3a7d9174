#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""crowd.py server ADDRESS PORT STREAMS       serves so many streams, then ends
crowd.py client ADDRESS PORT BUSY IDLE     first busy streams, and beside them idle ones

A busy one sends 1 MB and gets it back, again and again; an idle one does the same with
100 bytes, once.  All are open until the last idle one has been served; and if $CROWD_HOLD is set,
the client says so then, and waits until there is a file of that name.
"""
import os
import socket
import struct
import sys
import threading
import time

role, address, port, *numbers = sys.argv[1:]
numbers = [int(n) for n in numbers]
over = threading.Event()
turns = threading.Semaphore(0)


def receive(conn, size):
    data = bytearray()
    while len(data) < size:
        got = conn.recv(min(65536, size - len(data)))
        if not got:
            raise EOFError
        data += got
    return bytes(data)


def serve(conn):
    with conn:
        try:
            while True:
                conn.sendall(receive(conn, *struct.unpack("I", receive(conn, 4))))
        except EOFError:
            pass


def ask(conn, data):
    conn.sendall(struct.pack("I", len(data)) + data)
    if receive(conn, len(data)) != data:
        raise ValueError("echo differs")


def busy(number):
    data = bytes([number]) * (1 << 20)
    with socket.create_connection((address, int(port))) as conn:
        while not over.is_set():
            ask(conn, data)
            turns.release()


if role == "server":
    with socket.create_server((address, int(port)), backlog=128) as listener:
        for _ in range(*numbers):
            threading.Thread(target=serve, args=(listener.accept()[0],)).start()
else:
    for i in range(numbers[0]):
        threading.Thread(target=busy, args=(i,)).start()
    for i in range(numbers[0] * 4):
        turns.acquire()
    idle = []
    for i in range(numbers[1]):
        idle.append(socket.create_connection((address, int(port))))
        ask(idle[-1], b"x" * 100)
    if "CROWD_HOLD" in os.environ:
        print("served", flush=True)
        while not os.path.exists(os.environ["CROWD_HOLD"]):
            time.sleep(0.05)
    over.set()
