#!/usr/bin/env python3
"""A client for a gaffer listener with messages, from docs/wire/gaffer.md alone.

    gaffer_client.py HOST PORT [--protocol-id 0x11223344] [--loss 0.2] TEXT...

Connects, sends each TEXT as a reliable message, prints what the server sends, and says goodbye
when as many messages came back as went out (or --expect, or after --seconds). Ten seconds without a
packet mean that the server is gone. Its protocol id must be the listener's: `tidegate init gaffer` has the
articles' 0x11223344, and `tidegate serve --listen gaffer://...`, without a file, 0x74696465.
"""

import argparse
import random
import socket
import struct
import sys
import time

HEADER = struct.Struct(">IIII")
TIMEOUT = 10.0
KEEP_ALIVE, RELIABLE, UNRELIABLE, FRAGMENT, GOODBYE = range(5)


def newer(a, b):
    return 0 < (a - b) & 0xFFFFFFFF <= 0x7FFFFFFF


class Client:
    def __init__(self, address, protocol_id, loss):
        family = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        self.socket = socket.socket(family[0], socket.SOCK_DGRAM)
        self.socket.connect(family[4])
        self.protocol_id, self.loss = protocol_id, loss
        self.sequence, self.newest, self.seen = 0, 0, set()
        self.messages = {}  # id -> [payload, last sent]; until acknowledged
        self.next_send_id, self.next_receive_id = 0, 0
        self.in_packets = {}  # sequence -> ids it carried
        self.waiting, self.pieces, self.inbox = {}, {}, []
        self.heard, self.goodbye = None, False

    def send(self, payload):
        self.messages[self.next_send_id] = [payload, 0.0]
        self.next_send_id = (self.next_send_id + 1) & 0xFFFF

    def packet(self, payload):
        bits = sum(1 << n - 1 for n in range(1, 33) if (self.newest - n) & 0xFFFFFFFF in self.seen)
        header = HEADER.pack(self.protocol_id, self.sequence, self.newest, bits)
        self.sequence = (self.sequence + 1) & 0xFFFFFFFF
        try:
            if random.random() >= self.loss:
                self.socket.send(header + payload)
        except ConnectionRefusedError:
            pass  # nobody is there: silence, and the timeout, say so

    def tick(self, now):
        """One packet: the oldest messages that were not sent in the last 0.1 s, or a keep-alive."""
        payload, ids = b"", []
        for id, entry in list(self.messages.items())[:64]:
            if self.heard is None or now - entry[1] < 0.1 or len(payload) + len(entry[0]) > 1100:
                continue
            payload += struct.pack(">BHH", RELIABLE, id, len(entry[0])) + entry[0]
            entry[1] = now
            ids.append(id)
        self.in_packets[self.sequence] = ids
        self.packet(payload or bytes([KEEP_ALIVE]))

    def receive(self, now):
        self.socket.settimeout(0.01)
        try:
            datagram = self.socket.recv(2048)
        except (socket.timeout, ConnectionRefusedError):
            return
        if random.random() < self.loss or len(datagram) <= HEADER.size:
            return
        protocol_id, sequence, ack, ack_bits = HEADER.unpack_from(datagram)
        if protocol_id != self.protocol_id or sequence in self.seen:
            return
        self.heard = now
        for n in range(33):
            if n == 0 or ack_bits >> n - 1 & 1:
                for id in self.in_packets.pop((ack - n) & 0xFFFFFFFF, ()):
                    self.messages.pop(id, None)
        self.records(datagram[HEADER.size:])
        self.seen.add(sequence)
        if newer(sequence, self.newest):
            self.newest = sequence
            self.seen = {s for s in self.seen if (sequence - s) & 0xFFFFFFFF < 256}

    def records(self, rest):
        while rest:
            kind = rest[0]
            if kind == RELIABLE:
                id, length = struct.unpack_from(">HH", rest, 1)
                self.take(id, rest[5:5 + length])
                rest = rest[5 + length:]
            elif kind == UNRELIABLE:
                (length,) = struct.unpack_from(">H", rest, 1)
                self.inbox.append(rest[3:3 + length])
                rest = rest[3 + length:]
            elif kind == FRAGMENT:
                id, index, last, length = struct.unpack_from(">HBBH", rest, 1)
                if id == self.next_receive_id:
                    self.pieces[index] = rest[7:7 + length]
                    if len(self.pieces) == last + 1:
                        self.take(id, b"".join(self.pieces[i] for i in range(last + 1)))
                rest = rest[7 + length:]
            else:
                self.goodbye |= kind == GOODBYE
                rest = rest[1:]

    def take(self, id, payload):
        if (id - self.next_receive_id) & 0xFFFF < 1024:
            self.waiting[id] = payload
        while self.next_receive_id in self.waiting:
            self.inbox.append(self.waiting.pop(self.next_receive_id))
            self.next_receive_id = (self.next_receive_id + 1) & 0xFFFF
            self.pieces = {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("text", nargs="+")
    parser.add_argument("--protocol-id", type=lambda text: int(text, 0), default=0x11223344)
    parser.add_argument("--loss", type=float, default=0.0, help="drop this share, both ways")
    parser.add_argument("--expect", type=int, help="messages to wait for")
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    expected = arguments.expect or len(arguments.text)
    client = Client((arguments.host, arguments.port), arguments.protocol_id, arguments.loss)
    for text in arguments.text:
        client.send(text.encode())
    start, next_tick, came = time.monotonic(), 0.0, 0
    while (now := time.monotonic()) < start + arguments.seconds and not client.goodbye:
        if now >= next_tick:
            client.tick(now)
            next_tick = now + 1 / 30
        client.receive(now)
        for payload in client.inbox:
            print(payload.decode(errors="replace"), flush=True)
        came += len(client.inbox)
        client.inbox.clear()
        if came >= expected and not client.messages:
            break
        if now - (client.heard or start) > TIMEOUT:
            print("the server is gone", file=sys.stderr)
            return 1
    if client.heard is None:
        print(f"nothing came: is the listener there, and its protocol_id {client.protocol_id:#x}?", file=sys.stderr)
    for _ in range(6):
        client.packet(bytes([GOODBYE]))
    return 0 if came >= expected and not client.messages else 1


if __name__ == "__main__":
    sys.exit(main())
