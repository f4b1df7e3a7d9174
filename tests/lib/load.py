#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""load.py ADDR PORT PATH N FILE SHA256: N clients of an HTTP server, until FILE is there

Each asks for PATH again and again, by one stream as long as the server keeps it.  A
server that closes it instead of an answer did not take the request, which is then
asked again, as RFC 9112 says.  What else goes wrong is a failed request.  Prints
"started", and in the end a line for each that failed.
"""
import hashlib
import http.client
import os
import sys
import threading
import time

addr, port, path, count, stop, digest = sys.argv[1:]
over = threading.Event()
lock = threading.Lock()
good, bad = [0], []


def ask(c):
    """The answer's digest, or None: there was no answer."""
    try:
        c.request("GET", path)
        answer = c.getresponse()
    except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
        c.close()
        return None
    got = hashlib.sha256(answer.read()).hexdigest()
    if answer.will_close:
        c.close()
    return got


def client():
    c = http.client.HTTPConnection(addr, int(port), timeout=30)
    tries = 0
    while not over.is_set():
        try:
            got = ask(c)
        except (OSError, http.client.HTTPException) as e:
            got = repr(e)
            c.close()
        tries = tries + 1 if got is None else 0
        with lock:
            if got == digest:
                good[0] += 1
                if good[0] == 100:
                    print("started", flush=True)
            elif got or tries > 5:
                bad.append(got)
                return


threads = [threading.Thread(target=client) for _ in range(int(count))]
for t in threads:
    t.start()
while not os.path.exists(stop) and any(t.is_alive() for t in threads):
    time.sleep(0.05)
over.set()
for t in threads:
    t.join()
print(*bad, sep="\n")
print(good[0], "good", file=sys.stderr)
