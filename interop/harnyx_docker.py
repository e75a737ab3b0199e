#!/usr/bin/env python3
"""What Harnyx's validators ask of Docker's command line, without Docker.

A container is a process of the image's server on an address of its own in 127/8, with
the volumes' paths in its environment put back to where they are. It is not a sandbox:
the scripts of the tests are ours.

DOCKER_STANDIN_DIR is where it keeps what runs; DOCKER_STANDIN_SERVER is the command of
the image's server, a JSON list.
"""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

DIR = Path(os.environ["DOCKER_STANDIN_DIR"])


def path(container):
    for p in DIR.glob("*.json"):
        row = json.loads(p.read_text())
        if container in (row["Id"], row["Name"]):
            return p
    return None


def run(args):
    env, mounts, name, network, labels, published = dict(os.environ), [], "", "none", [], False
    takes = {"--pull", "--user", "--add-host", "--security-opt", "--ulimit", "--cap-drop", "--pids-limit", "--memory", "--cpus", "--cpuset-cpus", "--tmpfs", "-w"}
    i = 0
    while i < len(args):
        a = args[i]
        if a == "-e":
            key, _, value = args[i + 1].partition("=")
            env[key] = value
        elif a == "-v":
            mounts.append(args[i + 1].split(":")[:2])
        elif a == "--name":
            name = args[i + 1]
        elif a == "--network":
            network = args[i + 1]
        elif a == "--label":
            labels.append(args[i + 1])
        elif a == "-p":
            published = True
        elif a not in takes:
            i += 1
            continue
        i += 2
    ident = hashlib.sha256(f"{name} {time.time_ns()}".encode()).hexdigest()
    address = "127.%d.%d.%d" % (1 + int(ident[:2], 16) % 250, int(ident[2:4], 16), 1 + int(ident[4:6], 16) % 250)
    for key, value in env.items():
        for here, there in mounts:
            if value.startswith(there):
                env[key] = here + value[len(there):]
    if published:  # at a port of this machine, which is free now
        address = "127.0.0.1"
        with socket.socket() as s:
            s.bind((address, 0))
            env["SANDBOX_PORT"] = str(s.getsockname()[1])
    env["SANDBOX_HOST"] = address
    with (DIR / (ident + ".log")).open("wb") as log:
        p = subprocess.Popen(json.loads(os.environ["DOCKER_STANDIN_SERVER"]), env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    row = {"Id": ident, "Name": name, "Pid": p.pid, "Labels": labels, "Network": network, "IPAddress": address, "Port": env.get("SANDBOX_PORT", "")}
    (DIR / (ident + ".json")).write_text(json.dumps(row))
    print(ident)


def inspect(args):
    form, container = args[args.index("--format") + 1] if "--format" in args else "", args[-1]
    p = path(container)
    if p is None:
        sys.exit(f"no such container: {container}")
    row = json.loads(p.read_text())
    alive = Path(f"/proc/{row['Pid']}").exists()
    full = {
        "Id": row["Id"], "Image": "sha256:" + "0" * 64, "State": {"Status": "running" if alive else "exited", "ExitCode": 0, "Error": ""},
        "NetworkSettings": {"Networks": {row["Network"]: {"IPAddress": row["IPAddress"]}}},
    }
    print(json.dumps(full["NetworkSettings"]["Networks"] if "Networks" in form else full))


def remove(containers):
    for c in containers:
        p = path(c)
        if p is None:
            continue
        row = json.loads(p.read_text())
        try:
            os.killpg(row["Pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.unlink()
        print(c)


def ps(args):
    for p in sorted(DIR.glob("*.json")):
        row = json.loads(p.read_text())
        wants = [args[i + 1].partition("=")[::2] for i, a in enumerate(args) if a == "--filter"]
        if all(v in row["Labels"] if k == "label" else row["Name"].startswith(v.lstrip("^/").rstrip("$")) if k == "name" else row["Id"].startswith(v) for k, v in wants):
            print(row["Id"])


def main():
    DIR.mkdir(parents=True, exist_ok=True)
    command, args = sys.argv[1], sys.argv[2:]
    if command == "run":
        run(args)
    elif command == "network":
        print(json.dumps([{"Subnet": "127.0.0.0/8", "Gateway": "127.0.0.1"}]))
    elif command == "inspect":
        inspect(args)
    elif command == "ps":
        ps(args)
    elif command == "rm":
        remove([a for a in args if a != "-f"])
    elif command == "stop":
        remove([args[-1]])
    elif command == "port":
        p = path(args[0])
        if p is None:
            sys.exit(f"no such container: {args[0]}")
        print("127.0.0.1:" + json.loads(p.read_text())["Port"])
    elif command == "image":
        print("[]")
    elif command == "logs":
        p = path(args[-1])
        if p is not None:
            follow = ["-F"] if {"-f", "--follow"} & set(args) else []
            os.execvp("tail", ["tail", "-n", "+1", *follow, str(p.with_suffix(".log"))])
    elif command != "pull":
        sys.exit(f"docker {command}: not here")


main()
