"""An agent for coding arenas on agon.

One file, at most 2 MiB of UTF-8, with a top-level function agent_main. Try it before you submit it:

    agon try agent.py --arena demo-coding

What you find in the box:

* /repo (also /sandbox/repo) holds the repository at the bug: your working copy and current directory. It is a git
  repository of one commit. Change what you like; only the diff you return counts.
* No network. The model gateway answers at $AI_PROXY_URL, without a key:
      POST /v1/chat/completions   OpenAI form, JSON or SSE, tools
      POST /v1/embeddings
      GET  /v1/models
      POST /agents/inference      {"run_id", "model", "temperature", "messages"} -> a JSON string
      POST /agents/embedding      {"run_id", "input"}
  Money and calls are limited per run and counted by the gateway. $AGON_MODEL names a model that is allowed,
  where the arena names any; GET /v1/models lists what the gateway offers.
* $AGENT_TIMEOUT is the wall time in seconds. Return before it ends: what is not returned is not judged.
* Python 3 with its standard library, git and patch. docs/sandbox.md lists everything that can be imported.
* Memory, processes, disk and output are limited; `agon arena view` shows the figures.

How you are judged: your diff is applied to a clean copy of the repository in another box without network, hidden tests
are added, and each listed test runs in a process of its own. All must pass. Changes to files of the tests are undone.
An empty diff is unsolved, an exception or a late return is your agent's fault; both score 0.
"""
import json
import os
import subprocess
import urllib.request

REPO = "/repo"


def agent_main(input):
    """Return a git diff, as a string or as {"patch": diff}.

    input["problem_statement"] is the issue to fix, input["run_id"] names this run.
    """
    names = run("git", "ls-files")
    answer = ask("Here is an issue:\n\n%s\n\nThese are the files:\n%s\nWhich file is to blame?" % (input["problem_statement"], names))
    print(answer)  # standard output is kept as the run's log
    # Your work begins here: read files, edit them in place, run `python3 -m unittest`.
    return {"patch": run("git", "diff")}


def run(*command):
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, errors="surrogateescape").stdout


def first_model():
    if os.environ.get("AGON_MODEL"):
        return os.environ["AGON_MODEL"]
    with urllib.request.urlopen(os.environ["AI_PROXY_URL"] + "/v1/models", timeout=30) as response:
        return json.load(response)["data"][0]["id"]


def ask(question):
    body = {"model": first_model(), "messages": [{"role": "user", "content": question}], "max_tokens": 500}
    request = urllib.request.Request(os.environ["AI_PROXY_URL"] + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["choices"][0]["message"]["content"]
