#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP echo with asyncio, one thread.

echo_async.py server ADDRESS PORT             serves until it is ended
echo_async.py client ADDRESS PORT STREAMS     all at once; with any echo server
"""
import asyncio
import hashlib
import random
import signal
import sys

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])


async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve():
    server = await asyncio.start_server(echo, address, port, backlog=256)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    server.close()


async def talk(number):
    rand = random.Random(number)
    total = hashlib.sha256()
    reader, writer = await asyncio.open_connection(address, port)
    for _ in range(5):
        data = rand.randbytes(rand.randint(1, 8000))
        writer.write(data)
        if await reader.readexactly(len(data)) != data:
            raise ValueError("echo differs")
        total.update(data)
    # More than fits into the socket buffers, written while it comes back.
    data = rand.randbytes(3000000 if number == 0 else 20000)
    writer.write(data)
    writer.write_eof()
    if await reader.read() != data:
        raise ValueError("echo differs")
    total.update(data)
    writer.close()
    return total.hexdigest()


async def ask(streams):
    found = await asyncio.gather(*(talk(i) for i in range(streams)))
    print(len(found), hashlib.sha256("".join(found).encode()).hexdigest())


asyncio.run(serve() if role == "server" else ask(int(sys.argv[4])))
