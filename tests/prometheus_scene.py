"""Both ends of the tidegate that prometheus.sh runs beside the demo: a TCP server behind it, and
callers in front who come and go, with a stranger who sends junk to its UDP port.

    prometheus_scene.py backend              prints its address
    prometheus_scene.py callers TUNNEL UDP   the addresses of both
"""

import asyncio
import random
import socket
import sys

CALLERS = 20


async def echo(reader, writer):
    try:
        while data := await reader.read(4096):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def backend():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    print("{}:{}".format(*server.sockets[0].getsockname()), flush=True)
    await server.serve_forever()


async def caller(tunnel, chance):
    """Says something ten times a second, hangs up after a while, and calls again."""
    while True:
        try:
            reader, writer = await asyncio.open_connection(*tunnel)
            for _ in range(chance.randrange(20, 80)):
                writer.write(b"x" * chance.randrange(20, 200))
                await writer.drain()
                await asyncio.wait_for(reader.read(4096), 5)
                await asyncio.sleep(0.1)
            writer.close()
        except (OSError, asyncio.TimeoutError):
            pass
        await asyncio.sleep(0.5)


async def stranger(udp, chance):
    junk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        try:
            junk.sendto(chance.randbytes(chance.randrange(1, 200)), udp)
        except OSError:
            pass
        await asyncio.sleep(0.05)


async def callers(tunnel, udp):
    chance = random.Random(1)
    await asyncio.gather(stranger(udp, chance), *(caller(tunnel, chance) for _ in range(CALLERS)))


if __name__ == "__main__":
    role, *addresses = sys.argv[1:]
    pairs = (address.split(":") for address in addresses)
    asyncio.run({"backend": backend, "callers": callers}[role](*((host, int(port)) for host, port in pairs)))
