"""A straightforward corpus filter over event logs, for bench/corpus: the same
verdicts as agon's, in plain Python, without tricks and without other packages.

corpus_filter.py EVENTS.jsonl prints {"seconds", "rows": [{axis, ratio, reason}]}.
Lines are read before the clock starts; what is in them is not.
"""

import hashlib
import json
import re
import sys
import time

SCRUB = [re.compile(p) for p in (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|[srp]k_(?:live|test)_[A-Za-z0-9]{16,}|gh[opsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|A[KS]IA[A-Z0-9]{16}|hf_[A-Za-z0-9]{20,})",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{16,}",
    r"(?i)\b(?:password|passwd|secret|api_?key|access_?token|auth_?token)[\"']?\s*[:=]\s*[\"']?[^\s\"',;]{8,}",
    r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']+:[^\s/@\"']+@",
    r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b",
    r"\b(?:4\d{3}|5[1-5]\d{2}|3[47]\d{2}|6011)[ -]?\d{4}[ -]?\d{4}[ -]?\d{3,4}\b",
    r"\+\d{1,3}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}\b",
    r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b",
)]
MASK = (1 << 64) - 1
MINIMA, BANDS = 64, 16


def scrub(text):
    for p in SCRUB:
        text = p.sub("[removed]", text)
    return text


def normal(text):
    return " ".join(re.sub(r"[\W_]+", " ", text.lower()).split())


def mix(x):
    x ^= x >> 30
    x = x * 0xbf58476d1ce4e5b9 & MASK
    x ^= x >> 27
    x = x * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def signature(text):
    words = text.split()
    shingles = {" ".join(words[i:i + 5]) for i in range(max(1, len(words) - 4))}
    hashes = [int.from_bytes(hashlib.blake2b(s.encode(), digest_size=8).digest(), "big") for s in shingles]
    return [min(mix((h + i * 0x9e3779b97f4a7c15) & MASK) for h in hashes) for i in range(MINIMA)]


def same(a, b):
    return a["role"] == b["role"] and a.get("tool_call_id", "") == b.get("tool_call_id", "") and a.get("content", "") == b.get("content", "") and \
        calls(a) == calls(b)


def calls(m):
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls") or []]


def conversation(events):
    threads, n = [], 0
    for e in events:
        if e["type"] != "model_call":
            continue
        message = e["data"].get("message")
        if not message:
            continue
        body = json.loads(e["data"]["request"]["text"])
        n += 1
        said, best = body["messages"], None
        for t in threads:
            if len(t["said"]) <= len(said) and all(same(x, y) for x, y in zip(t["said"], said)) and (best is None or len(t["said"]) > len(best["said"])):
                best = t
        if best is None:
            best = {"said": [], "ours": []}
            threads.append(best)
        known = len(best["said"])
        reply = {"role": "assistant", "content": message["content"], "reasoning_content": message.get("reasoning", ""), "tool_calls": [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}} for c in message.get("tool_calls") or []]}
        best["ours"] += [dict(m, model=False) for m in said[known:]] + [dict(reply, model=True)]
        best["said"] = said + [reply]
        best["tools"] = body.get("tools")
    return max(threads, key=lambda t: len(t["ours"])) if threads else None, n


def reject(messages):
    waiting, last = set(), None
    for m in messages:
        if m["role"] == "tool":
            if m["tool_call_id"] not in waiting:
                return "unanswered_call"
            waiting.discard(m["tool_call_id"])
        elif m["role"] == "assistant":
            if waiting:
                return "unanswered_call"
            last = m
            waiting |= {c["id"] for c in m.get("tool_calls") or []}
    if waiting:
        return "unanswered_call"
    if last is not None and not (last["content"] or "").strip() and not last.get("tool_calls"):
        return "thinking_only_end"
    return ""


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        lines = f.readlines()
    began = time.process_time()
    runs = {}
    for line in lines:
        e = json.loads(line)
        runs.setdefault(e["run"], []).append(e)
    out, seen, buckets, signatures = [], set(), {}, []
    for events in runs.values():
        thread, models = conversation(events)
        if thread is None:
            out.append({"axis": "", "ratio": 0, "reason": "no_model_call"})
            continue
        messages = thread["ours"]
        for m in messages:
            m["content"] = scrub(m.get("content") or "")
            m["reasoning_content"] = scrub(m.get("reasoning_content") or "")
            for c in m.get("tool_calls") or []:
                c["function"] = dict(c["function"], arguments=scrub(json.dumps(json.loads(c["function"]["arguments"]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)))
        tools = json.loads(scrub(json.dumps(thread["tools"])))
        total = sum(len(m.get("tool_calls") or []) for m in messages)
        credited = sum(len(m.get("tool_calls") or []) for m in messages if m.get("model"))
        ratio = round(credited / total, 6) if total else 0
        axis = "agentic" if total and ratio >= 0.9 else "narrated" if ratio < 0.1 and models else "sub_task"
        reason = reject(messages)
        text = json.dumps({"messages": messages, "tools": tools}, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        if not reason and len(text) > 14336 * 128:
            reason = "too_long"
        if reason:
            out.append({"axis": "", "ratio": 0, "reason": reason})
            continue
        did = hashlib.sha256(json.dumps([[c["function"]["name"], normal(c["function"]["arguments"])] for m in messages for c in m.get("tool_calls") or []] +
                                        [normal(m["content"]) for m in messages if m["role"] == "assistant" and not m.get("tool_calls")]).encode()).hexdigest()
        words = normal(" ".join(m["content"] + " " + " ".join(c["function"]["arguments"] for c in m.get("tool_calls") or []) for m in messages if m["role"] != "system"))
        if did in seen:
            reason = "duplicate"
        else:
            s = signature(words)
            found, n = set(), len(signatures)
            for b in range(BANDS):
                key = (b, tuple(s[b * 4:b * 4 + 4]))
                found |= set(buckets.get(key, ()))
                buckets.setdefault(key, []).append(n)
            signatures.append(s)
            if any(sum(x == y for x, y in zip(signatures[i], s)) >= 0.8 * MINIMA for i in found):
                reason = "near_duplicate"
        seen.add(did)
        out.append({"axis": axis, "ratio": ratio, "reason": reason})
    print(json.dumps({"seconds": time.process_time() - began, "rows": out}))


main()
