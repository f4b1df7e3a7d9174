#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""older.py COMMAND...: runs it as on a kernel before Linux 6.16, which has no SO_PASSRIGHTS.
x86-64."""
import ctypes
import errno
import os
import struct
import sys

SETSOCKOPT, GETSOCKOPT = 54, 55
SOL_SOCKET, SO_PASSRIGHTS = 1, 83
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7fff0000, 0x00050000
code = b"".join(struct.pack("HBBI", *i) for i in (
    (LOAD, 0, 0, 0),                # nr
    (EQUAL, 1, 0, SETSOCKOPT),
    (EQUAL, 0, 5, GETSOCKOPT),
    (LOAD, 0, 0, 24),               # args[1]
    (EQUAL, 0, 3, SOL_SOCKET),
    (LOAD, 0, 0, 32),               # args[2]
    (EQUAL, 0, 1, SO_PASSRIGHTS),
    (RETURN, 0, 0, FAIL | errno.ENOPROTOOPT),
    (RETURN, 0, 0, ALLOW)))
memory = ctypes.create_string_buffer(code, len(code))
program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(memory))
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
for call in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
             (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program)):
    if libc.prctl(*call):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
