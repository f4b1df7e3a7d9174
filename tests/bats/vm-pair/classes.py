# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# classes.py INTERFACE: counts the packets of RoCE v2 (UDP to port 4791) that go out or come
# in, until the standard input ends; then prints each traffic class and its number of packets.
# It prints "ready" first.
import collections
import select
import socket
import struct
import sys

ETH_P_ALL, IPV4, UDP, ROCE = 3, 0x0800, 17, 4791
packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
packets.bind((sys.argv[1], ETH_P_ALL))
print("ready", flush=True)
count = collections.Counter()
while True:
    able, _, _ = select.select([packets, sys.stdin], [], [])
    if packets in able:
        data, address = packets.recvfrom(128)
        header = 4 * (data[0] & 15)
        if (address[1] == IPV4 and data[9] == UDP and
                struct.unpack_from("!H", data, header + 2)[0] == ROCE):
            way = "out" if address[2] == socket.PACKET_OUTGOING else "in"
            count[way, data[1]] += 1
    elif sys.stdin in able and not sys.stdin.buffer.read1(1):
        break
for (way, traffic_class), n in sorted(count.items()):
    print(way, "%#04x" % traffic_class, n)
