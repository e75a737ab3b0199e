"""The fixed agent of policy-pack arenas. The pack changes what it is told and
which tools it may use, never this program. Reads a job (JSON) on stdin, writes
one JSON object to the file that the job names.

Standard library only. Everything that a model says is data: it can call the
tools that are offered, and nothing else.
"""

import fnmatch
import json
import os
import sys
import time
import urllib.error
import urllib.request

MAX_REPLY = 8 << 20  # bytes of one HTTP answer
MAX_SHOWN = 24_000  # characters of a tool's answer that the model sees
MAX_DEPTH = 1  # a skill calls no further skill

TOOLS = {
    "exec": ("Run a shell command: himalaya (mail), gcalcli and the calendar API (calendar), the Notion API by curl (tasks, documents).", {"command": "string"}, ["command"]),
    "slack": (
        "Use the team chat. Actions: readMessages, sendMessage, editMessage, deleteMessage, react, reactions, pinMessage, unpinMessage, listPins, memberInfo, listChannels, emojiList.",
        {"action": "string", "channelId": "string", "to": "string", "content": "string", "messageId": "string", "userId": "string", "emoji": "string", "limit": "integer"},
        ["action"],
    ),
    "memory_search": ("Search the notes that are kept between days.", {"query": "string", "maxResults": "integer"}, ["query"]),
    "memory_get": ("Read a file of notes.", {"path": "string", "from": "integer", "lines": "integer"}, ["path"]),
    "web_search": ("Search the web.", {"query": "string", "count": "integer"}, ["query"]),
    "web_fetch": ("Read a web page.", {"url": "string", "extractMode": "string"}, ["url"]),
    "read": ("Read a file of the workspace.", {"path": "string", "from": "integer", "lines": "integer"}, ["path"]),
}
GROUPS = {"group:runtime": ["exec", "shell"], "group:memory": ["memory_search", "memory_get"], "group:web": ["web_search", "web_fetch"], "group:fs": ["read"]}


def matches(name, patterns):
    for p in patterns:
        if name in GROUPS.get(p, ()) or fnmatch.fnmatchcase(name, p):
            return True
    return False


def offered(job):
    """The tools of the scenario that the pack allows and does not deny."""
    out = []
    for name in TOOLS:
        if job["tools"] and name not in job["tools"]:
            continue
        if job["allow"] is not None and not matches(name, job["allow"]):
            continue
        if matches(name, job["deny"] or []):
            continue
        out.append(name)
    return out


def schema(name, texts):
    text, fields, required = TOOLS[name]
    text = texts.get(name, text)
    props = {k: {"type": v} for k, v in fields.items()}
    return {"type": "function", "function": {"name": name, "description": text, "parameters": {"type": "object", "properties": props, "required": required}}}


def delegate_schema(skills):
    lines = "; ".join("%s: %s" % (s["name"], s["description"]) for s in skills)
    props = {"skill": {"type": "string", "enum": [s["name"] for s in skills]}, "task": {"type": "string"}}
    return {
        "type": "function",
        "function": {"name": "delegate", "description": "Hand a part of the work to a skill. " + lines, "parameters": {"type": "object", "properties": props, "required": ["skill", "task"]}},
    }


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(url, body, timeout):
    data = json.dumps(body).encode()
    req = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with OPENER.open(req, timeout=timeout) as r:
            return r.status, json.loads(r.read(MAX_REPLY))
    except urllib.error.HTTPError as e:
        raw = e.read(MAX_REPLY)
        try:
            return e.code, json.loads(raw)
        except ValueError:
            return e.code, {}


class ModelError(Exception):
    pass


class Agent:
    def __init__(self, job):
        self.job = job
        self.turns = 0
        self.calls = 0
        self.stopped = ""
        self.absent = set()  # models that nobody offers

    def chat(self, messages, tools, model):
        if model in self.absent:
            model = self.job["model"]
        body = {"messages": messages, "temperature": 0, "max_tokens": self.job["max_tokens"]}
        if model:
            body["model"] = model
        if tools:
            body["tools"] = tools
        wait = 0.5
        for attempt in range(4):
            try:
                status, reply = post(self.job["gateway"] + "/v1/chat/completions", body, self.job["model_timeout"])
            except (OSError, ValueError) as e:
                status, reply = 0, {"error": str(e)}
            if status == 200:
                try:
                    return reply["choices"][0]["message"]
                except (KeyError, IndexError, TypeError):
                    raise ModelError("the reply is no chat completion")
            if status == 404 and model and model != self.job["model"]:
                self.absent.add(model)  # the skill runs on the agent's own
                return self.chat(messages, tools, model)
            if status and status < 500 and status != 429 or "budget" in json.dumps(reply):
                raise ModelError("status %d" % status)
            time.sleep(wait)
            wait *= 2
        raise ModelError("no answer")

    def tool(self, name, args):
        if not isinstance(args, dict):
            args = {}
        self.calls += 1
        try:
            status, reply = post(self.job["mock"] + "/tools/" + name, args, self.job["tool_timeout"])
        except (OSError, ValueError) as e:
            return "tool failed: %s" % e
        text = json.dumps(reply, ensure_ascii=False)
        if status != 200:
            return "tool failed (%d): %s" % (status, text[:500])
        if len(text) > MAX_SHOWN:
            text = text[:MAX_SHOWN] + "\n... [cut, %d characters in all]" % len(text)
        return text

    def limit(self):
        if self.turns >= self.job["max_turns"]:
            return "turn limit"
        if self.calls >= self.job["max_calls"]:
            return "stop rule: tool calls"
        return ""

    def work(self, system, task, model, skills, depth):
        names = offered(self.job)
        tools = [schema(n, self.job["texts"] or {}) for n in names]
        if skills and depth < MAX_DEPTH:
            tools.append(delegate_schema(skills))
        messages = [{"role": "system", "content": system}, {"role": "user", "content": task}]
        while True:
            stop = self.limit()
            if stop:
                self.stopped = stop
                messages.append({"role": "user", "content": "Stop here (%s). Answer now with what you have." % stop})
                return str(self.chat(messages, None, model).get("content") or "")
            self.turns += 1
            reply = self.chat(messages, tools, model)
            asked = reply.get("tool_calls") or []
            if not isinstance(asked, list) or not asked:
                return str(reply.get("content") or "")
            asked = asked[:16]
            messages.append({"role": "assistant", "content": reply.get("content"), "tool_calls": asked})
            for c in asked:
                messages.append({"role": "tool", "tool_call_id": str(c.get("id") or ""), "content": self.answer(c, names, skills, depth)})

    def answer(self, c, names, skills, depth):
        f = c.get("function") or {}
        name = f.get("name")
        try:
            args = json.loads(f.get("arguments") or "{}")
        except (ValueError, TypeError):
            return "the arguments are not JSON"
        if name == "delegate" and skills and depth < MAX_DEPTH and isinstance(args, dict):
            for s in skills:
                if s["name"] == args.get("skill"):
                    return self.work(s["text"], str(args.get("task") or ""), s["model"], [], depth + 1)
            return "there is no such skill"
        if name not in names:
            return "the tool %r is not allowed" % name
        if self.calls >= self.job["max_calls"]:
            return "no more tool calls are allowed"
        return self.tool(name, args)


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError:
        return ""


def main():
    job = json.load(sys.stdin)
    for name, text in job["files"].items():
        path = os.path.normpath(os.path.join(job["workspace"], name))
        if os.path.commonpath([path, job["workspace"]]) != job["workspace"] or path == job["workspace"]:
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(text)
    parts = [read(os.path.join(job["workspace"], n)) for n in job["system_files"]]
    if job["stop_rules"]:
        parts.append("## Stop rules\n" + "\n".join("- " + r for r in job["stop_rules"]))
    agent = Agent(job)
    out = {"outcome": "ok", "response": "", "error": ""}
    try:
        out["response"] = agent.work("\n\n".join(p for p in parts if p.strip()), job["prompt"], job["model"], job["skills"], 0)
    except ModelError as e:
        out["outcome"], out["error"] = "model_error", str(e)
    out["turns"], out["calls"], out["stopped"] = agent.turns, agent.calls, agent.stopped
    if out["outcome"] == "ok" and not out["response"].strip():
        out["outcome"] = "empty_response"
    with open(job["result"], "w", encoding="utf-8") as f:
        json.dump(out, f)


main()
