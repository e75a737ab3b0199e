"""An agent for Harbor tasks: it lets a model type shell commands until the model says that the work is done.

Try it with `agon try agent.py --arena demo-harbor`, or on any Harbor task: `agon try agent.py --task ./a-task`.
"""
import json
import os
import re
import subprocess
import urllib.request

RULES = "You work in a Linux shell. Answer with one bash block (```bash ... ```) to run, or with DONE once the work is finished."


def ask(messages):
    body = {"model": os.environ.get("AGON_MODEL", "default"), "messages": messages}
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
