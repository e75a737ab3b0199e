"""Inspect runs an evaluation whose sandbox is a box of agon's."""
import sys
import tempfile

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer
from inspect_ai.solver import solver
from inspect_ai.util import sandbox

import agon_boxes.inspect  # makes the sandbox known


@solver
def work():
    async def solve(state, generate):
        s = sandbox()
        r = await s.exec(["sh", "-c", "cat; pwd; echo $A"], input="in ", env={"A": "b"})
        assert r.success and r.stdout == "in /app\nb\n", r
        await s.write_file("deep/x.txt", "text\r\n")
        assert await s.read_file("deep/x.txt") == "text\r\n"
        await s.write_file("b.bin", b"\x00\xff")
        assert await s.read_file("b.bin", text=False) == b"\x00\xff"
        for path, wanted in [("none", FileNotFoundError), ("deep", IsADirectoryError)]:
            try:
                await s.read_file(path)
            except wanted:
                continue
            raise AssertionError(f"{path} was read")
        try:
            await s.exec(["sleep", "30"], timeout=1)
        except TimeoutError:
            state.metadata["ok"] = True
        return state

    return solve


@scorer(metrics=[accuracy()])
def found():
    async def score(state, target):
        r = await sandbox().exec(["cat", "deep/x.txt"])
        return Score(value=CORRECT if state.metadata.get("ok") and r.stdout == "text\r\n" else INCORRECT)

    return score


with tempfile.TemporaryDirectory() as logs:
    log = eval(Task(dataset=[Sample(input="x", target="y")], solver=work(), scorer=found(), sandbox="agon"), model="mockllm/model", display="none", log_dir=logs)[0]
if log.status != "success" or log.results.scores[0].metrics["accuracy"].value != 1:
    sys.exit(f"{log.status} {log.error}")
