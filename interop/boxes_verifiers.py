"""verifiers provisions a runtime that is a box of agon's."""
import asyncio

from verifiers.v1 import runtimes
from verifiers.v1.errors import SandboxError

from agon_boxes import Client
from agon_boxes.verifiers import AgonConfig, install

install()


async def refused(what, text):
    try:
        await what
    except SandboxError as e:
        assert text in str(e), e
        return
    raise AssertionError("nothing was refused")


async def main():
    async with runtimes.provision_runtime(AgonConfig(memory_mb=256), env={"A": "b"}) as r:
        p = await r.run(["sh", "-c", "pwd; echo $A $B; exit 3"], {"B": "c"})
        assert (p.exit_code, p.stdout) == (3, "/app\nb c\n"), p
        await r.write("d/x", b"hello")
        assert await r.read("d/x") == b"hello" and await r.read("d/x", 5) == b"hello"
        await refused(r.read("d/x", 4), "over the 4 byte limit")
        await refused(r.read("none"), "not there")
        await r.run_background(["sh", "-c", "echo up; sleep 60"], {}, "log.txt")
        for _ in range(200):
            p = await r.run(["cat", "log.txt"], {})
            if p.stdout == "up\n":
                break
            await asyncio.sleep(0.05)
        assert p.stdout == "up\n", p
        assert (await r.with_user("1000").run(["id", "-u"], {})).stdout == "1000\n"
        assert await r.alive()
    assert Client().json("GET", "/v1/boxes") == {"items": []}


asyncio.run(main())
