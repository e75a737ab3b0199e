"""An agent that works through a model: it lists, reads, searches, edits and runs tests by tool calls, in a loop.

It speaks the OpenAI chat protocol with the gateway at $AI_PROXY_URL and needs nothing but the standard library. Which
model answers is the arena's choice ($AGON_MODEL, else the first of /v1/models). Without a key the demo answers from script.json beside this file.
"""
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request

REPO = "/repo"
PROXY = os.getenv("AI_PROXY_URL", "http://127.0.0.1:8000")
MODEL = None  # set when the agent starts
DEADLINE = time.monotonic() + 0.85 * float(os.getenv("AGENT_TIMEOUT", "120"))
MAX_STEPS = 40
MAX_TEXT = 12000  # characters of one tool result

SYSTEM = """You are a careful software engineer. A Python repository with a bug is at /repo. Use the tools to find the cause, \
change the code with edit_file, and check with run_tests. Keep the change small; do not edit tests to make them pass. \
Hidden tests will check the behaviour that the issue asks for, edge cases included. Call finish when you are done."""


def tool(name, description, **parameters):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": {k: {"type": "string", "description": v} for k, v in parameters.items()},
        "required": [k for k, v in parameters.items() if not v.startswith("optional")]}}}


TOOLS = [
    tool("list_files", "List the files of the repository."),
    tool("read_file", "Read a file, with line numbers.", path="path relative to /repo", lines="optional range, as in 10-80"),
    tool("search", "Search all files for a regular expression.", pattern="Python regular expression"),
    tool("edit_file", "Replace one exact, unique piece of text in a file; an empty old text creates the file.",
         path="path relative to /repo", old="text to replace, exactly as in the file", new="text to put there"),
    tool("run_tests", "Run unittest and return the end of its output.", names="optional test names, separated by spaces; all if left out"),
    tool("finish", "Say that the work is done.", summary="what was wrong and what was changed"),
]


def first_model():
    """The model to ask for: the arena's word, else the first that the gateway offers."""
    if os.getenv("AGON_MODEL"):
        return os.environ["AGON_MODEL"]
    with urllib.request.urlopen(PROXY + "/v1/models", timeout=30) as r:
        return json.load(r)["data"][0]["id"]


def agent_main(input):
    global MODEL
    MODEL = first_model()
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": input["problem_statement"]}]
    reminded = False
    for step in range(MAX_STEPS):
        if time.monotonic() > DEADLINE:
            print("out of time")
            break
        reply = ask(messages)
        if reply is None:
            break
        messages.append(reply)
        calls = reply.get("tool_calls") or []
        if not calls:
            if reminded or diff():
                break
            reminded = True
            messages.append({"role": "user", "content": "Go on with the tools, or call finish."})
            continue
        done = False
        for call in calls:
            function = call.get("function") or {}
            name, result = function.get("name"), ""
            try:
                arguments = json.loads(function.get("arguments") or "{}")
                result = run_tool(name, arguments if isinstance(arguments, dict) else {})
            except Exception as e:  # the model shall see what it did wrong
                result = "error: %s: %s" % (type(e).__name__, e)
            done = done or name == "finish"
            print("step %d: %s %s" % (step, name, str(function.get("arguments"))[:200]))
            messages.append({"role": "tool", "tool_call_id": call.get("id", ""), "content": result[:MAX_TEXT]})
        if done:
            break
    return diff()


def ask(messages):
    """One completion, tried again for a while when the provider is busy."""
    body = json.dumps({"model": MODEL, "messages": messages, "tools": TOOLS, "temperature": 0, "max_tokens": 4096}).encode()
    for wait in (1, 3, 8, 0):
        request = urllib.request.Request(PROXY + "/v1/chat/completions", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=max(5, DEADLINE - time.monotonic())) as response:
                message = json.load(response)["choices"][0]["message"]
            return {k: v for k, v in message.items() if k in ("role", "content", "tool_calls") and v is not None}
        except urllib.error.HTTPError as e:
            print("model: HTTP %d %s" % (e.code, e.read(500).decode(errors="replace")))
            if e.code not in (429, 500, 502, 503, 504):
                return None
        except (OSError, ValueError, KeyError, IndexError) as e:
            print("model: %s" % e)
        if not wait or time.monotonic() + wait > DEADLINE:
            return None
        time.sleep(wait)
    return None


def inside(path):
    full = os.path.realpath(os.path.join(REPO, path))
    if not full.startswith(REPO + "/") or "/.git/" in full:
        raise ValueError("%s is not in the repository" % path)
    return full


def files():
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=REPO, capture_output=True, text=True, errors="replace").stdout
    return [f for f in out.split("\0") if f]


def run_tool(name, a):
    if name == "list_files":
        return "\n".join(files())
    if name == "read_file":
        with open(inside(a["path"]), encoding="utf-8", errors="replace", newline="") as f:
            lines = f.read().split("\n")
        first, last = 1, len(lines)
        m = re.match(r"(\d+)-(\d+)$", a.get("lines") or "")
        if m:
            first, last = int(m[1]), int(m[2])
        return "\n".join("%d: %s" % (i, lines[i - 1]) for i in range(max(1, first), min(last, len(lines)) + 1))
    if name == "search":
        pattern, found = re.compile(a["pattern"]), []
        for path in files():
            try:
                with open(inside(path), encoding="utf-8") as f:
                    found += ["%s:%d: %s" % (path, i, line.rstrip()) for i, line in enumerate(f, 1) if pattern.search(line)]
            except (OSError, ValueError):
                continue
            if len(found) > 200:
                break
        return "\n".join(found[:200]) or "nothing found"
    if name == "edit_file":
        full = inside(a["path"])
        if not a["old"]:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "x", encoding="utf-8", newline="") as f:
                f.write(a["new"])
            return "created"
        with open(full, encoding="utf-8", errors="surrogateescape", newline="") as f:
            text = f.read()
        old, new = a["old"], a["new"]
        if old not in text and "\r\n" in text:  # models write plain line ends
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        if text.count(old) != 1:
            return "error: the old text stands %d times in the file; it must stand there once" % text.count(old)
        with open(full, "w", encoding="utf-8", errors="surrogateescape", newline="") as f:
            f.write(text.replace(old, new))
        return "edited"
    if name == "run_tests":
        src = os.path.join(REPO, "src")
        env = dict(os.environ, PYTHONPATH=src if os.path.isdir(src) else REPO)
        try:
            p = subprocess.run(["python3", "-m", "unittest"] + (a.get("names") or "").split(), cwd=REPO, env=env, capture_output=True, text=True,
                               errors="replace", timeout=max(1, min(60, DEADLINE - time.monotonic())))
        except subprocess.TimeoutExpired:
            return "timed out"
        return "exit status %d\n%s" % (p.returncode, (p.stdout + p.stderr)[-6000:])
    if name == "finish":
        return "ok"
    return "error: there is no tool %s" % name


def diff():
    subprocess.run(["git", "add", "-A", "-N"], cwd=REPO, capture_output=True)
    out = subprocess.run(["git", "diff", "--no-color", "--no-ext-diff"], cwd=REPO, capture_output=True).stdout
    return out.decode("utf-8", "surrogateescape")
