"""Tests of what needs no trainer: figures, the rule of rewards, the small model's form."""

import json
import os
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
from http.server import BaseHTTPRequestHandler, HTTPServer

from agon import distill, enter, mini, report, stats
from agon.env import Client, Reply, Task
from agon.policy import Hermes, Trace


class Play:
    """An episode that answers searches from a list; the real one is played in Go's tests."""

    def __init__(self, found):
        self.found, self.calls = found, []

    def call(self, tool, args):
        self.calls.append((tool, args))
        return Reply("", done=True, reward=1.0) if tool == "terminate" else Reply(json.dumps(self.found))


class Tokens:
    """One token a character; a template of the small model's form."""

    unk_token_id, eos_token_id = -1, ord("$")

    def convert_tokens_to_ids(self, t):
        return ord("$")

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [ord(c) for c in text]}

    def apply_chat_template(self, messages, tools=None, add_generation_prompt=False, tokenize=True):
        return "".join(f"<{m['role'][0]}>{m['content']}$" for m in messages) + ("<a>" if add_generation_prompt else "")


class Figures(unittest.TestCase):
    def test_paired(self):
        # 12 gained, 3 lost: the two-sided binomial tail of 3 of 15 is 2 * 576 / 2**15.
        before = [False] * 12 + [True] * 3 + [True] * 9
        after = [True] * 12 + [False] * 3 + [True] * 9
        self.assertAlmostEqual(stats.paired_p(before, after), 2 * (1 + 15 + 105 + 455) / 2**15)
        self.assertEqual(stats.paired_p(before, before), 1)
        self.assertAlmostEqual(stats.difference(before, after)[0], 9 / 24)
        with self.assertRaises(ValueError):
            stats.paired_p([True], [])

    def test_shares(self):
        lo, hi = stats.interval(0, 10)
        self.assertEqual(lo, 0)
        self.assertAlmostEqual(hi, 0.2775, 3)
        self.assertAlmostEqual(stats.pass_at([[True, False, False, False]], 2), .5)
        self.assertIsNone(stats.pass_at([[True]], 2))


class Rules(unittest.TestCase):
    rows = [{"task": "a", "reward": 1, "ids": [1]}, {"task": "a", "reward": 0, "ids": [2]}, {"task": "b", "reward": None, "ids": [3]}, {"task": "b", "reward": .5, "ids": [4]}]

    def test_keeps(self):
        self.assertEqual([len(distill.keeps(m, self.rows)) for m in ("sft", "rft", "kto", "dpo")], [1, 1, 3, 1])
        self.assertEqual([r["label"] for r in distill.keeps("kto", self.rows)], [True, False, False])

    def test_distinct(self):
        self.assertEqual(len(distill.distinct(self.rows + self.rows[:1])), 4)

    def test_masks(self):
        said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ask"}, {"role": "tool", "content": "no"}, {"role": "assistant", "content": "end"}]
        ids, mask = distill.conversation(Tokens(), said, None)
        self.assertEqual("".join(map(chr, ids)), "<u>hi$<a>ask$<t>no$<a>end$")
        self.assertEqual("".join(chr(i) for i, m in zip(ids, mask) if m), "ask$end$")
        ids, mask = distill.conversation(Tokens(), said, None, {1})  # the agent's code said "ask"
        self.assertEqual("".join(chr(i) for i, m in zip(ids, mask) if m), "end$")

    def test_teaches(self):
        for method, marks, want in (
            ("sft", [], True), ("sft", [False], False), ("sft", [False, True, False], True),
            ("kto", [], True), ("kto", [False, True], True), ("kto", [True, False, True], False), ("dpo", [True, False], False),
        ):
            self.assertEqual(distill.teaches(method, marks), want, (method, marks))

    def test_report(self):
        plays = [{"task": "t", "seed": 0, "reward": 1, "why": "done", "calls": [["find", {}], ["end", {}]]}]
        f = distill.figure(plays, 1)
        r = {"method": "sft", "arena": "x", "kept": 1, "rows": 2, "steps": 3, "loss": .1, "contaminated": 0, "held_out": 1, "before": f, "after": f, "gain": (0, 0, 0), "p": 1.0, "base": "b"}
        self.assertIn("| before | 1 (100.0 %) |", report.markdown(r))
        self.assertIn("Not measured", report.card(r, {"rows": "f"}))


class Forms(unittest.TestCase):
    wish = "heavy duty travel kettle, of the brand vengor, priced between 100 and 1701 pesos, with free shipping, capacity: 1.7l, to be had in color red"

    def test_reading(self):
        got = mini.parts("I need this, and only one: " + self.wish.capitalize() + "?")
        self.assertEqual(got, self.wish.split(", "))
        self.assertEqual(mini.parts("lunch box, for at most 70 pesos, material: glass"), ["lunch box", "for at most 70 pesos", "material: glass"])
        self.assertEqual(mini.wish(got[:2]), "a heavy duty travel b of the brand")
        self.assertEqual(mini.search(got), {"q": "heavy duty travel kettle vengor 1.7l color red", "price": "100-1701", "service": "freeShipping"})
        self.assertEqual(mini.search(["that costs at least 3 pesos"]), {"q": "any", "price": "3-"})
        self.assertEqual(mini.read(got), ("a b c d e", [("brand", "vengor"), ("capacity", "1.7l"), ("color", "red")]))
        self.assertEqual(mini.shown([{"title": "Doxzu lunch box Z616 best"}]), "1 doxzu lunch box best")

    def test_turns(self):
        d, p = mini.Mini(Tokens()), Play([{"product_id": "7", "title": "A box"}])
        d.begin(Task("t", "box, of the brand x"), [])
        self.assertEqual(d.act("take 1", p)[1:], ("none", None))  # nothing was found yet
        self.assertEqual(d.act("find b h", p)[:2], ([("find_product", {"q": "x"})], "1 a box"))
        self.assertEqual(d.act("take 2", p)[1], "none")
        calls, _, last = d.act("take 1", p)
        self.assertTrue(last.done)
        self.assertEqual(p.calls[-2:], [("recommend_product", {"product_ids": "7"}), ("terminate", {})])
        self.assertEqual(calls[0][0], "recommend_product")

    def test_hermes(self):
        d, p = Hermes(Tokens()), Play([])
        calls, told, last = d.act('<tool_call>{"name": "find", "arguments": {"q": "x"}}</tool_call><tool_call>{"name": 3}</tool_call>', p)
        self.assertEqual((calls, last), ([("find", {"q": "x"})], None))
        self.assertIn("not a call", told)
        self.assertEqual(d.act("no call", p), ([], "", None))

    def test_trace(self):
        t = Trace("a", 0)
        t.told([1, 2])
        t.said([3], [-.5])
        self.assertEqual((t.ids, t.mask, t.logprobs), ([1, 2, 3], [0, 0, 1], [0, 0, -.5]))

    def test_address(self):
        with self.assertRaises(ValueError):
            Client("https://example.org")


class Entry(unittest.TestCase):
    """The agent that enters with a trained model plays as agon.mini does."""

    def test_agent(self):
        asked, called = [], []
        says = iter(["find b", "take 9", "take 1"])

        class Proxy:
            def __init__(self, url, max_retries):
                pass

            def post(self, path, body):
                asked.append(body)
                return {"choices": [{"message": {"content": next(says)}}]}

            def get(self, path, args):
                return [{"product_id": "7", "title": "A Z616 box"}]

        def execute(name, args):
            called.append((name, args))
            return {"result": tools[name](**args)}

        tools = {}
        face, proxy = types.ModuleType("agent_interface"), types.ModuleType("proxy_client")
        face.Tool = lambda f: tools.setdefault(f.__name__, f)
        face.create_dialogue_step = lambda think, done, answer, query, n: (think, done)
        face.execute_tool_call = execute
        proxy.ProxyClient = Proxy
        with unittest.mock.patch.dict(sys.modules, {"src": types.ModuleType("src"), "src.agent": types.ModuleType("agent"), "src.agent.agent_interface": face, "src.agent.proxy_client": proxy}):
            space = {}
            exec(compile(enter.agent("m"), "agent.py", "exec"), space)
        steps = space["agent_main"]({"query": "Box, of the brand x. Which one fits?"})
        self.assertEqual([think for think, _ in steps], ["find b", "take 1"])
        self.assertEqual(called, [("find_product", {"q": "x"}), ("recommend_product", {"product_ids": "7"}), ("terminate", {"status": "success"})])
        self.assertEqual([m["content"] for m in asked[-1]["messages"]], ["a box b of the brand", "find b", "1 a box", "take 9", "none"])
        self.assertEqual((asked[0]["model"], asked[0]["temperature"]), ("m", 0))

    def test_log(self):
        with tempfile.TemporaryDirectory() as d:
            log = os.path.join(d, "log")
            with enter.process([sys.executable, "-uc", "print('up at 7'); import time; time.sleep(600)"], r"up at (\d)", log) as got:
                self.assertEqual(got, "7")
            with self.assertRaises(SystemExit), enter.process([sys.executable, "-c", "print('no')"], r"up at (\d)", log):
                pass


class Losing(BaseHTTPRequestHandler):
    """Answers a call, but its first answer is lost."""

    asked: list[str] = []

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/call":
            self.asked.append(body["task_id"])
            if len(self.asked) == 1:
                self.close_connection = True
                return
        out = json.dumps({"ok": True, "output": {"blocks": [], "reward": 1, "finished": True}})
        b = f"event: task_id\ndata: x\n\nevent: end\ndata: {out}\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(b)))
        self.end_headers()
        self.wfile.write(b)


class Lost(unittest.TestCase):
    def test_answer(self):
        server = HTTPServer(("127.0.0.1", 0), Losing)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with Client(f"http://127.0.0.1:{server.server_address[1]}", timeout=30) as c, c.open("a") as play:
                self.assertEqual(play.call("terminate", {}).reward, 1)
                play.call("terminate", {})
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        self.assertEqual(len(Losing.asked), 3)
        self.assertEqual(Losing.asked[0], Losing.asked[1])  # the same call
        self.assertNotEqual(Losing.asked[1], Losing.asked[2])


if __name__ == "__main__":
    unittest.main()
