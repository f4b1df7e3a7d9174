#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# page.py - a process with a page of statistics that is none of this version.
#
# Usage: page.py other | unsealed | noise PAGE
# other: of version 99.  unsealed: PAGE, a copy of a real one, but it could be cut off.
# noise: the same, sealed, with a head that makes sense and all else 0xee.

import fcntl
import mmap
import os
import struct
import sys
import time

F_ADD_SEALS, SEALS = 1033, 1 | 2 | 4
HEAD, PROGRAM, HIGH = 4096, 48, 192

how = sys.argv[1]
old = open(sys.argv[2], "rb").read()
fd = os.memfd_create("sockrail-stat", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.ftruncate(fd, len(old))
page = mmap.mmap(fd, len(old))
page[:] = old
page[32:36] = struct.pack("i", os.getpid())
if how == "other":
    page[8:12] = struct.pack("I", 99)
if how == "noise":
    page[PROGRAM:PROGRAM + 128] = b"\x1b[31m\"}" + b"\xff" * 121
    page[HIGH:] = b"\xee" * (len(old) - HIGH)
if how != "unsealed":
    fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
print("ready", flush=True)
time.sleep(60)
