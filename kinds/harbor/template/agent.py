"""An agent for Harbor tasks: it lets a model type shell commands until the model says that the work is done.

One file, at most 256 KiB of UTF-8, with a top-level function agent_main. Try it before you submit it:

    agon try agent.py --arena demo-harbor       # the tasks of an arena
    agon try agent.py --task ./a-task           # any Harbor task directory

What you get: input["instruction"], the text of instruction.md (of one step, in a task of several), input["workdir"], the
task's work directory and your current one, and input["step"], input["mcp_servers"], input["skills_dir"]. Everything can be
written but the system's own programs and libraries.

What counts is what you leave when agent_main returns. What it returns is not read. The task's own verifier looks at a copy
in another box; processes that you started and reward files that you left count for nothing. An exception, a limit or an
exit before the return scores 0.

The box has no network. A model answers at $OPENAI_BASE_URL in OpenAI's form, without a key; $AGON_MODEL names one that is
allowed, where the arena names any, and GET $OPENAI_BASE_URL/models lists them. Money and calls are limited per run.
Standard output is kept as the run's log.
"""
import json
import os
import re
import subprocess
import urllib.request

RULES = "You work in a Linux shell. Answer with one bash block (```bash ... ```) to run, or with DONE once the work is finished."


def first_model():
    if os.environ.get("AGON_MODEL"):
        return os.environ["AGON_MODEL"]
    with urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/models", timeout=30) as reply:
        return json.load(reply)["data"][0]["id"]


def ask(messages):
    body = {"model": first_model(), "messages": messages}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


def agent_main(input):
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": input["instruction"]}]
    for _ in range(20):
        answer = ask(messages)
        print(answer)
        command = re.search(r"```(?:bash|sh)\n(.*?)```", answer, re.S)
        if not command:
            return
        done = subprocess.run(["sh", "-c", command[1]], capture_output=True, text=True, timeout=60, cwd=input["workdir"])
        said = (done.stdout + done.stderr)[-8000:]
        print(said)
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "exit code %d\n%s" % (done.returncode, said)}]
