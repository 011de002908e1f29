"""The same from Python, with nothing but ctypes: a binding in sixty lines, and an echo test with it.

    python3 echo.py libtidegate_c.so token.bin
"""

import ctypes
import sys
import time
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint64, c_void_p

ABI = 1  # the TIDEGATE_ABI of the header that this was written by
SOCKET = 1
CONNECTED, CLOSED = 2, 4
ENDED_HERE = 1
ERROR_FULL = -2


class Message(ctypes.Structure):
    _fields_ = [("payload", c_void_p), ("length", c_size_t), ("channel", c_uint8), ("reliable", c_uint8)]


class Stats(ctypes.Structure):
    _fields_ = (
        [(name, c_uint64) for name in ("rtt_latest", "rtt", "rtt_min", "rtt_variation")]
        + [("loss", ctypes.c_double), ("in_bad_mode", ctypes.c_uint32), ("outbox_messages", ctypes.c_uint32)]
        + [(name, c_uint64) for name in ("packets_sent", "packets_received", "packets_lost",
                                         "messages_sent", "messages_resent", "messages_received")]
    )


class Client:
    def __init__(self, library, token):
        self.lib = ctypes.CDLL(library)
        if self.lib.tidegate_abi() != ABI:
            raise RuntimeError(f"{library} is of another tidegate than this binding")
        for name, result, *arguments in [
            ("now", c_uint64),
            ("error_text", c_char_p, c_int32),
            ("ended_text", c_char_p, c_int32),
            ("client_yojimbo", c_int32, c_char_p, c_size_t, c_int32, c_uint64, POINTER(c_void_p)),
            ("client_update", c_int32, c_void_p, c_uint64),
            ("client_flush", c_int32, c_void_p, c_uint64),
            ("client_send", c_int32, c_void_p, c_uint64, c_char_p, c_size_t),
            ("client_send_unreliable", c_int32, c_void_p, c_uint64, c_char_p, c_size_t),
            ("client_poll_message", c_int32, c_void_p, POINTER(Message)),
            ("client_finish", c_int32, c_void_p, c_uint64, c_uint64),
            ("client_ended", c_int32, c_void_p),
            ("client_unconfirmed", c_int64, c_void_p),
            ("client_stats", c_int32, c_void_p, POINTER(Stats), c_size_t),
            ("client_free", None, c_void_p),
        ]:
            function = getattr(self.lib, "tidegate_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, "_" + name, function)
        self.handle = c_void_p()
        self.check(self._client_yojimbo(token, len(token), SOCKET, self._now(), byref(self.handle)))

    def check(self, error):
        if error < 0:
            raise RuntimeError(self._error_text(error).decode())
        return error

    def update(self):
        return self.check(self._client_update(self.handle, self._now()))

    def queued(self, error):
        return error != ERROR_FULL and self.check(error) == 0

    def send(self, payload):
        """False when the queue is full, or before the handshake is over: try again in a later frame."""
        return self.queued(self._client_send(self.handle, self._now(), payload, len(payload)))

    def send_unreliable(self, payload):
        return self.queued(self._client_send_unreliable(self.handle, self._now(), payload, len(payload)))

    def receive(self):
        """The next message, or None. The bytes are a copy: the library's are gone with the next call."""
        message = Message()
        if self.check(self._client_poll_message(self.handle, byref(message))) == 0:
            return None
        return ctypes.string_at(message.payload, message.length)

    def flush(self):
        self.check(self._client_flush(self.handle, self._now()))

    def finish(self, seconds=5):
        self.check(self._client_finish(self.handle, self._now(), int(seconds * 1e9)))

    def ended(self):
        return self.check(self._client_ended(self.handle))

    def stats(self):
        stats = Stats()
        self.check(self._client_stats(self.handle, byref(stats), ctypes.sizeof(stats)))
        return stats

    def close(self):
        self._client_free(self.handle)
        self.handle = c_void_p()


def main(library, token_file):
    with open(token_file, "rb") as file:
        client = Client(library, file.read())
    messages, said, heard = 200, 0, 0
    patience = time.monotonic() + 60
    while client.update() != CLOSED and time.monotonic() < patience:
        if said < messages and client.send(b"message %d" % said):
            said += 1
        while (message := client.receive()) is not None:
            if message != b"message %d" % heard:
                raise RuntimeError(f"not what was sent: {message}")
            heard += 1
        if heard == messages:
            client.finish()
        client.flush()
        time.sleep(0.005)  # a frame
    ended, stats = client.ended(), client.stats()
    print(f"{heard} of {messages} came back; {client._ended_text(ended).decode()}; "
          f"rtt {stats.rtt / 1e6:.1f} ms, loss {stats.loss * 100:.0f} %")
    client.close()
    return 0 if heard == messages and ended == ENDED_HERE else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: echo.py LIBRARY TOKENFILE")
    sys.exit(main(sys.argv[1], sys.argv[2]))
