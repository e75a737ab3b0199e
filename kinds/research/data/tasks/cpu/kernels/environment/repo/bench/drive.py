"""Runs one kernel of a file: its input comes as JSON, its answer goes as JSON."""
import json
import sys


def main():
    path, name = sys.argv[1:]
    scope = {"__name__": "kernels"}
    with open(path, encoding="utf-8") as f:
        exec(compile(f.read(), path, "exec"), scope)  # a file of the submission, in a box of its own
    answer = scope[name](json.loads(sys.stdin.buffer.read()))
    json.dump(answer, sys.stdout)


main()
