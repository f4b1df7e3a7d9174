#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python's own ways to have many processes: servers that echo, and clients.

processes.py forking ADDR PORT     socketserver.ForkingMixIn
processes.py listener ADDR PORT    multiprocessing.connection, a process a connection
processes.py manager ADDR PORT     multiprocessing.managers, threads
processes.py futures ADDR PORT N   client of the first: N tasks of concurrent.futures,
                                   each of which echoes 12 MB; prints how many
processes.py pool ADDR PORT N      client of the second, multiprocessing.Pool
processes.py proxies ADDR PORT N   client of the third, each in a process
"""
import concurrent.futures
import multiprocessing
import multiprocessing.connection
import multiprocessing.managers
import os
import signal
import socket
import socketserver
import sys

ROUNDS, BYTES = 120, 100000
KEY = b"key"


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Forking(socketserver.ForkingMixIn, socketserver.TCPServer):
    allow_reuse_address = True


def forking(address):
    with Forking(address, Echo) as server:
        server.serve_forever(0.1)


def echo(conn):
    try:
        while True:
            conn.send_bytes(conn.recv_bytes())
    except EOFError:
        conn.close()


def listener(address):
    with multiprocessing.connection.Listener(address, authkey=KEY, backlog=50) as server:
        while True:
            conn = server.accept()
            multiprocessing.Process(target=echo, args=(conn,)).start()
            conn.close()
            multiprocessing.active_children()  # reaps


class Manager(multiprocessing.managers.BaseManager):
    pass


class Store:
    def echo(self, data):
        return data


Manager.register("Store", Store)


def manager(address):
    Manager(address, KEY).get_server().serve_forever()


def rounds(exchange):
    for _ in range(ROUNDS):
        data = os.urandom(BYTES)
        if exchange(data) != data:
            sys.exit("other bytes")
    return 1


def by_socket(address):
    with socket.create_connection(address) as s:
        def exchange(data):
            s.sendall(data)
            return s.recv(len(data), socket.MSG_WAITALL)
        return rounds(exchange)


def by_connection(address):
    with multiprocessing.connection.Client(address, authkey=KEY) as conn:
        def exchange(data):
            conn.send_bytes(data)
            return conn.recv_bytes()
        return rounds(exchange)


def by_proxy(address):
    m = Manager(address, KEY)
    m.connect()
    return rounds(m.Store().echo)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    what, address = sys.argv[1], (sys.argv[2], int(sys.argv[3]))
    tasks = [address] * int(sys.argv[4]) if len(sys.argv) > 4 else []
    if what == "futures":
        with concurrent.futures.ProcessPoolExecutor(4) as pool:
            print(sum(pool.map(by_socket, tasks)))
    elif what == "pool":
        with multiprocessing.Pool(4) as pool:
            print(sum(pool.map(by_connection, tasks)))
            pool.close()
            pool.join()
    elif what == "proxies":
        with concurrent.futures.ProcessPoolExecutor(4) as pool:
            print(sum(pool.map(by_proxy, tasks)))
    else:
        {"forking": forking, "listener": listener, "manager": manager}[what](address)
