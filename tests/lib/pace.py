#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A cat that goes slowly until a stream has its link, so that a transfer in policy lazy is
not over before.

pace.py BYTES LOG <IN >OUT

BYTES are expected.  The stream has its link when LOG, a log of Sockrail at level debug, says
so of the end that sends.  Until then at most half of the bytes pass, and for 90 seconds at
most."""

import sys
import time

STEP = 0.02


def linked(log):
    try:
        with open(log, encoding="utf-8", errors="replace") as f:
            return "tx on the link" in f.read()
    except OSError:
        return False


def main():
    slow, log = int(sys.argv[1]) // 2, sys.argv[2]
    inp, out = sys.stdin.buffer, sys.stdout.buffer
    end = time.monotonic() + 90
    fast = False
    while True:
        if not fast:
            time.sleep(STEP)
            fast = linked(log) or time.monotonic() > end
        # A part of what is left of the first half, which so never ends.
        piece = inp.read1(1 << 16 if fast else max(slow // 100, 1))
        if not piece:
            break
        slow -= len(piece)
        out.write(piece)
        out.flush()


if __name__ == "__main__":
    main()
