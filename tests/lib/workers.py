#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Several processes accept at one address, and a client of all of them.

workers.py fork N ADDR PORT    N children accept from their parent's listening socket
workers.py reuse N ADDR PORT   each has one of its own (SO_REUSEPORT)
workers.py exec N ADDR PORT    as fork, and the parent was executed with the socket
                               Each process prints its pid, the first one first.
workers.py later N ADDR PORT   a child for each stream, which sleeps for 0.7 s first
workers.py late N ADDR PORT    as fork, but echoes only, and accepts each stream 0.1 s late
workers.py anew N ADDR PORT    N streams one after the other, and each time it listens anew,
                               before it serves the stream
workers.py in-CALL N ADDR PORT a daemon: its first process has listened, and ends; the other one
                               prints its pid, waits for a connection in accept, poll, select or
                               epoll, and echoes what N streams send, one after the other
workers.py defer N ADDR PORT   the same with TCP_DEFER_ACCEPT, and without the sleep;
                               as www-data if it may
workers.py steady N ADDR PORT  a client: its first bytes come one after the other, and
                               N times 100,000 follow, ten times a second
workers.py client N ADDR PORT  N streams at once.  Each echoes 3 x 100,000 bytes; then
                               a line for each on stdout: its worker's pid.  At "again"
                               on stdin all do it again.  Lost streams: "-".
"""
import os
import select
import selectors
import socket
import sys
import time

BYTES = 100000


def listener(addr, port, reuse):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuse:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((addr, port))
    s.listen(100)
    return s


def work(s):
    """Tells each client its pid, and echoes what it sends."""
    os.write(1, b"%d\n" % os.getpid())
    s.setblocking(False)
    sel = selectors.DefaultSelector()
    sel.register(s, selectors.EVENT_READ)
    while True:
        for key, _ in sel.select():
            c = key.fileobj
            if c is s:
                try:
                    c, _ = s.accept()
                except BlockingIOError:
                    continue  # another was faster
                c.setblocking(True)
                sel.register(c, selectors.EVENT_READ)
                c.sendall(b"%8d" % os.getpid())
                continue
            data = c.recv(65536)
            if data:
                c.sendall(data)
            else:
                sel.unregister(c)
                c.close()


def echo(c, pause):
    time.sleep(pause)
    while data := c.recv(65536):
        c.sendall(data)


def work_late(s):
    os.write(1, b"%d\n" % os.getpid())
    while True:
        select.select([s], [], [])
        time.sleep(0.1)
        c, _ = s.accept()
        echo(c, 0)
        c.close()


def serve_each(how, addr, port):
    if how == "defer" and os.getuid() == 0:
        os.setuid(33)
    s = listener(addr, port, False)
    if how == "defer":
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 30)
    os.write(1, b"%d\n" % os.getpid())
    while True:
        c, _ = s.accept()
        if os.fork() == 0:
            s.close()
            echo(c, 0.7 if how == "later" else 0)
            os._exit(0)
        c.close()


def await_connection(s, call):
    if call == "poll":
        p = select.poll()
        p.register(s, select.POLLIN)
        p.poll()
    elif call == "select":
        select.select([s], [], [])
    elif call == "epoll":
        p = select.epoll()
        p.register(s, select.EPOLLIN)
        p.poll()


def serve_in_background(call, n, addr, port):
    s = listener(addr, port, False)
    if os.fork():
        os._exit(0)
    os.write(1, b"%d\n" % os.getpid())
    for _ in range(n):
        await_connection(s, call)
        c, _ = s.accept()
        echo(c, 0)
        c.close()


def serve_anew(n, addr, port):
    s = listener(addr, port, False)
    os.write(1, b"%d\n" % os.getpid())
    for _ in range(n):
        c, _ = s.accept()
        s.close()
        s = listener(addr, port, False)
        c.sendall(b"%8d" % os.getpid())
        echo(c, 0)
        c.close()
        os.write(1, b"served\n")


def serve(how, n, addr, port):
    if how == "exec":
        s = listener(addr, port, False)
        os.set_inheritable(s.fileno(), True)
        os.execv(sys.executable, [sys.executable, __file__, "inherited", str(n),
                                  str(s.fileno()), "0"])
    s = None
    if how in ("fork", "late"):
        s = listener(addr, port, False)
    elif how == "inherited":
        s = socket.socket(fileno=int(addr))
    os.write(1, b"%d\n" % os.getpid())
    for _ in range(n):
        if os.fork() == 0:
            (work_late if how == "late" else work)(s or listener(addr, port, True))
    while True:
        os.wait()


def exchange(c):
    data = os.urandom(BYTES)
    for _ in range(3):
        c.sendall(data)
        got = b""
        while len(got) < BYTES:
            part = c.recv(BYTES - len(got))
            if not part:
                return False
            got += part
        if got != data:
            sys.exit("other bytes")
    return True


def steady(n, addr, port):
    c = socket.create_connection((addr, port))
    c.sendall(bytes(BYTES))
    for _ in range(12):
        time.sleep(0.05)
        c.sendall(bytes(1000))
    if len(c.recv(BYTES + 12000, socket.MSG_WAITALL)) != BYTES + 12000:
        sys.exit("lost")
    for _ in range(n):
        time.sleep(0.1)
        if not exchange(c):
            sys.exit("lost")


def client(n, addr, port):
    streams = []
    for _ in range(n):
        c = socket.create_connection((addr, port))
        streams.append((c, c.recv(8, socket.MSG_WAITALL).decode().strip()))
    while True:
        for c, pid in streams:
            try:
                ok = exchange(c)
            except OSError:
                ok = False
            print(pid if ok else "-", flush=True)
        if sys.stdin.readline() != "again\n":
            return


how, count, addr, port = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
try:
    if how == "client":
        client(count, addr, port)
    elif how == "steady":
        steady(count, addr, port)
    elif how == "anew":
        serve_anew(count, addr, port)
    elif how.startswith("in-"):
        serve_in_background(how[3:], count, addr, port)
    elif how in ("later", "defer"):
        serve_each(how, addr, port)
    else:
        serve(how, count, addr, port)
except (KeyboardInterrupt, ChildProcessError):
    pass
