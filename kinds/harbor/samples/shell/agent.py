"""Lets a model type shell commands until the model says that the work is done."""
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
