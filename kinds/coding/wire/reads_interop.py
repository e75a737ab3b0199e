"""Hold what agon's routes answer against the models by which Ridges' own platform writes it.

Started by TestRidgesReads in a checkout of the original: standard input is a JSON object of paths and answers, standard output one line for each
that does not hold.
"""
import bittensor  # noqa: F401  before the environment is made up
import importlib, json, os, re, sys

real, out = os.getenv, sys.stdout
sys.stdout = sys.stderr
os.environ.update(ENV="dev", AGENT_UUID_NAMESPACE="37c807fa-a7d2-4ac5-985b-e5ad6bbbc1c9")
os.getenv = lambda k, d=None: real(k) or d or ("" if "SENTRY" in k else "1")

from pydantic import TypeAdapter, ValidationError

HOMES = {"retrieval": "retrieval", "scoring": "scoring", "evaluation-sets": "evaluation_sets", "agent": "agent", "evaluation-run": "evaluation_run", "evaluation": "evaluations",
         "validator": "validator"}


def keys(v, at=""):
    if isinstance(v, dict):
        return {k for n, x in v.items() for k in keys(x, at + "." + n) | {at + "." + n}}
    if isinstance(v, list):
        return {k for x in v for k in keys(x, at + "[]")}
    return set()


def model(path):
    home, _, rest = path.split("?")[0].strip("/").partition("/")
    for r in importlib.import_module("api.endpoints." + HOMES[home]).router.routes:
        if "GET" in r.methods and re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", r.path.strip("/")), rest):
            return r.response_model
    raise KeyError(path)


for path, text in json.load(sys.stdin).items():
    if path == "/evaluation-sets/":  # its model reads the key of a row, and writes another
        text = text.replace('"id":', '"set_id":')
    try:
        kind = TypeAdapter(model(path))
        theirs = kind.dump_python(kind.validate_json(text), mode="json")
        own = json.loads(text.replace('"set_id":', '"id":') if path == "/evaluation-sets/" else text)
        lacks, more = keys(theirs) - keys(own), keys(own) - keys(theirs)
        if lacks or more:
            print(path, "lacks", sorted(lacks), "has", sorted(more), file=out)
    except (KeyError, ValidationError) as e:
        print(path, type(e).__name__, str(e).replace("\n", " ")[:600], file=out)
