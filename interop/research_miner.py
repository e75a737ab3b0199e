"""A miner of BitSota's wire, written from its specification with Python's own
json and the reference signatures: what the public client sends."""

import hashlib
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from substrateinterface import Keypair

base, uri, slug = sys.argv[1:4]
key = Keypair.create_from_uri(uri)


def call(method, path, body=None, params=None, sign=True, raw=None):
    query = urllib.parse.urlencode(params or {}, doseq=True)
    canonical = b"" if body is None else json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    wire = raw if raw is not None else (None if body is None else json.dumps(body).encode())
    headers = {} if wire is None else {"Content-Type": "application/json"}
    if sign:
        ts = str(int(time.time()))
        msg = "\n".join(["BT-AUTH-V1", method, path, query, ts, hashlib.sha256(canonical).hexdigest()])
        headers |= {"X-Hotkey": key.ss58_address, "X-Timestamp": ts, "X-Signature": key.sign(msg.encode()).hex()}
    url = base + path + ("?" + query if query else "")
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=wire, method=method, headers=headers), timeout=30) as r:
            return r.status, json.loads(r.read() or b"null")
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read() or b"null")


def must(got, status, what):
    if got[0] != status:
        sys.exit(f"{what}: {got}")
    return got[1]


task = next(t for t in must(call("GET", "/api/v1/tasks", sign=False), 200, "tasks") if t["slug"] == slug and t["task_state"] == "live" and t["is_active"])
claim = must(call("POST", f"/api/v1/tasks/{task['id']}/claim", {"claim_description": "ein Versuch \u00e9\U0001f600 \x7f / <&>"}), 200, "claim")
given_back = must(call("POST", f"/api/v1/tasks/{task['id']}/claim", {"claim_description": "another"}), 200, "second claim")
must(call("POST", f"/api/v1/claims/{given_back['id']}/cancel"), 200, "cancel")
body = {
    "claim_id": claim["id"], "base_ref": task["base_commit_sha"],
    "patch": "diff --git a/src/work.py b/src/work.py\n--- a/src/work.py\n+++ b/src/work.py\n@@ -1,2 +1,3 @@\n def size():\n-    return 100\n+    # \u00e9\U0001f600\n+    return 90\n",
    "summary": "s \x7f", "claimed_metrics": {"size": 0.0, "tiny": 1e-07, "n": 3, "big": 1e16, "neg": -2.5},
}
flipped = dict(body, patch=body["patch"].replace("90", "91"))
must(call("POST", "/api/v1/submissions", body, raw=json.dumps(flipped).encode()), 401, "a patch that was not signed")
made = must(call("POST", "/api/v1/submissions", body), 200, "submit")
assert made["status"] == "pending_verification" and made["base_commit_sha"] == task["base_commit_sha"], made
listed = must(call("GET", "/api/v1/submissions", params={"task_id": task["id"], "status": "pending_verification"}), 200, "signed list")
assert [s["id"] for s in listed] == [made["id"]], listed
must(call("GET", "/api/v1/submissions", params={"task_id": task["id"]}, sign=False), 200, "unsigned list")
must(call("POST", "/api/v1/validator/submissions/scan"), 403, "scan by a miner")
print("ok", made["id"])
