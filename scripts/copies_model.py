"""A model that samples, for scripts/copies.sh: four times of five it works as the
script of the sample pack says, whatever the pack tells it; else it shrugs. It
also judges: every pack is a policy, and who shrugged did nothing right.

usage: copies_model.py SCRIPT PORTFILE
"""

import http.server
import json
import os
import random
import re
import sys

SHRUG = "I have nothing to add."
BEGUN = []  # a row for each play


def load(path):
    """The rules of the sample's own policy, without the words of that policy."""
    rules = []
    for r in json.load(open(path))["rule"]:
        if r.get("task_re", "").startswith(r"(?s)\#\ Office\ policy.*"):
            rules.append((re.compile(r["task_re"].split(".*", 1)[1]), r["turn"], r.get("content"), r.get("tool_calls") or []))
    if not rules:
        sys.exit("copies_model.py: the script has no rule of the sample's policy")
    return rules


def text(m):
    c = m.get("content") or ""
    return c if isinstance(c, str) else "".join(p.get("text", "") for p in c)


def judge(messages):
    """A verdict on a pack or on an episode, or None: nobody asked for one."""
    told = text(messages[0])
    if told.startswith("You decide whether a policy pack"):
        return {"integrity_passed": True, "flags": [], "summary": "It is a policy."}
    if not told.startswith("You judge what an office agent did."):
        return None
    doc = next(json.loads(t[t.index("{") : t.rindex("}") + 1]) for t in map(text, messages[1:]) if "{" in t)
    word = "FAIL" if SHRUG in doc["response"] else "PASS"
    return {"criteria_results": [{"id": c["id"], "verdict": word, "grounded": True, "justification": "By the answer."} for c in doc["criteria"]]}


def reply(rules, messages):
    """Content and tool calls of the next message."""
    verdict = judge(messages)
    if verdict is not None:
        return json.dumps(verdict), []
    turn = sum(m["role"] == "assistant" for m in messages)
    if turn == 0:
        first = not BEGUN  # it takes the empty seat
        BEGUN.append(True)
        if not first and random.random() < 0.2:
            return SHRUG, []
    task = "\n".join(text(m) for m in messages if m["role"] in ("system", "user"))
    for task_re, at, content, calls in rules:
        if at == turn and task_re.search(task):
            return content, [
                {"id": "call_%d_%d" % (turn, i), "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])}} for i, c in enumerate(calls)
            ]
    return SHRUG, []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, doc):
        body = json.dumps(doc).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "lucky", "object": "model", "created": 0, "owned_by": "copies"}]})

    def do_POST(self):
        q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content, calls = reply(self.server.rules, q["messages"])
        message = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = calls
        asked = sum(len(text(m)) for m in q["messages"]) // 4 + 1
        said = len(json.dumps(message)) // 4
        self.answer(
            {
                "id": "chatcmpl-%d" % random.randrange(1 << 48),
                "object": "chat.completion",
                "created": 0,
                "model": "lucky",
                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
                "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
            }
        )

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
server.rules = load(sys.argv[1])
with open(sys.argv[2] + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(sys.argv[2] + ".new", sys.argv[2])
server.serve_forever()
