#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# page.py - a process with a page of statistics that is none of this version.
#
# Usage: page.py other | unsealed | noise | devices PAGE
# other: of version 99.  unsealed: PAGE, a copy of a real one, but it could be cut off.
# noise: the same, sealed, with a head that makes sense and all else 0xee.  devices: the same, sealed,
# with its streams over shared memory on queue pairs with one number, each of another device.

import fcntl
import mmap
import os
import struct
import sys
import time

F_ADD_SEALS, SEALS = 1033, 1 | 2 | 4
HEAD, PROGRAM, HIGH = 4096, 48, 192
SLOT_SIZE, DIRECTIONS, DIRECTION_SIZE, QP, LINK = 16, 64, 192, 108, 112  # base/page.h

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
if how == "devices":
    size, streams = struct.unpack_from("I", page, SLOT_SIZE)[0], 0
    for slot in range(HEAD, len(page) - size + 1, size):
        for at in slot + DIRECTIONS, slot + DIRECTIONS + DIRECTION_SIZE:
            if page[at + LINK:at + LINK + 4] != b"shm\0":
                break
            struct.pack_into("I", page, at + QP, 17)
            struct.pack_into("16s", page, at + LINK, b"verbs:rxe%d" % streams)
        else:
            streams += 1
    assert streams == 2
if how != "unsealed":
    fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
print("ready", flush=True)
time.sleep(60)
