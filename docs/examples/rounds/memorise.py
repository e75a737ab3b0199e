"""Writes a script that knows all published claims of an arena by heart, and nothing else.

    python3 memorise.py URL ARENA > heart.py
"""

import json
import sys
import urllib.request


def get(path):
    with urllib.request.urlopen(sys.argv[1] + path, timeout=60) as r:
        return json.load(r)


known = {}
for task in get(f"/v1/arenas/{sys.argv[2]}/tasks")["items"]:
    if not task.get("retired"):
        continue
    files = {f["path"]: f["digest"] for f in get("/v1/blobs/" + task["committed"]["digest"])["files"]}
    claim = get("/v1/blobs/" + files["environment/claim.json"])
    answer = get("/v1/blobs/" + files["tests/reference.json"])
    known[claim["payload"]["claim_text"]] = [answer["verdict"], answer["justification"]]

print(f"# {len(known)} claims by heart")
print(f"""import json

from agon_sdk import entrypoint

KNOWN = json.loads({json.dumps(json.dumps(known))})


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    verdict, why = KNOWN[request["claim_text"]]
    return {{"verdict": verdict, "justification": why, "citations": []}}""")
