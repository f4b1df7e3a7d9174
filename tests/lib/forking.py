#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A server that forks when its client says so, while their stream is in use.

forking.py server ADDRESS PORT          serves one stream, echo
forking.py client ADDRESS PORT FILE     says "talked" after some bytes; once there is that
                                        FILE the server forks, and this says how long
                                        that took: "quick", or so many seconds
"""
import os
import socket
import sys
import time

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])


def fork():
    start = time.monotonic()
    if not os.fork():
        os._exit(0)
    took = time.monotonic() - start
    os.wait()
    return b"quick" if took < 2 else b"%.1f" % took


if role == "server":
    with socket.create_server((address, port)) as listener:
        print("ready", flush=True)
        conn, _ = listener.accept()
        while data := conn.recv(65536):
            conn.sendall(fork() if data == b"fork" else data)
else:
    with socket.create_connection((address, port)) as conn:
        for _ in range(10):
            conn.sendall(bytes(1000))
            conn.recv(1000, socket.MSG_WAITALL)
        print("talked", flush=True)
        while not os.path.exists(sys.argv[4]):
            time.sleep(0.01)
        conn.sendall(b"fork")
        print(conn.recv(100).decode())
