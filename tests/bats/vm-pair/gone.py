#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A client whose peer's host is cut off in mid-stream: which error ends it?

gone.py HOW ADDRESS PORT   HOW: user-timeout, when it sends, or keepalive, when it waits
gone.py echo ADDRESS PORT  the peer
It says "ready" when the peer has echoed 200 kB, waits for a line, and prints the error.
"""
import errno
import socket
import sys

how, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if how == "echo":
    c = socket.create_server((address, port)).accept()[0]
    while data := c.recv(4096):
        c.sendall(data)
    sys.exit()
s = socket.create_connection((address, port))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
if how == "user-timeout":
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 3000)
else:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT):
        s.setsockopt(socket.IPPROTO_TCP, option, 2)
for _ in range(200):
    s.sendall(bytes(1000))
    left = 1000
    while left:
        left -= len(s.recv(left))
print("ready", flush=True)
sys.stdin.readline()
try:
    if how == "user-timeout":
        while True:
            s.sendall(bytes(1000))
    print("received", len(s.recv(1)))
except OSError as e:
    print(errno.errorcode[e.errno])
