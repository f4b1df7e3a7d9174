#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# streams.py - a process with both ends of a stream, and their listener.
#
# Usage: streams.py [fork]
# Each end sends 300 messages of 1,000 bytes, slowly once the stream is worth a link, so
# that the link is there for most of them on a busy host, too.  Then it prints "ready PORT", and at SIGUSR1
# closes all and prints "closed".  fork: a child uses a stream of its own after that.

import os
import signal
import socket
import sys
import time

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])


def exchange(a, b):
    for x, y in (a, b), (b, a):
        x.sendall(b"x" * 1000)
        left = 1000
        while left:
            left -= len(y.recv(left))


def make(listener):
    a = socket.create_connection(listener.getsockname())
    b, _ = listener.accept()
    for i in range(300):
        exchange(a, b)
        time.sleep(0.002 if i > 50 else 0)
    return a, b


with socket.socket() as listener:
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    ends = make(listener)
    if "fork" in sys.argv and os.fork() == 0:
        ends = make(listener)
    print("ready", listener.getsockname()[1], flush=True)
    signal.sigwait([signal.SIGUSR1])
    for end in ends:
        end.close()
    print("closed", flush=True)
    signal.sigwait([signal.SIGUSR1])
