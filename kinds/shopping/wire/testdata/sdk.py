"""Drives ORO's own SDK, unmodified, against the server at argv[1].

argv[2:] are the seeds (hex) of a miner and a validator. Whatever the SDK does
not understand of an answer raises here. Prints what it saw as JSON.
"""

import gzip
import io
import json
import sys
import uuid
from types import SimpleNamespace

import httpx
from bittensor_wallet import Keypair
from oro_sdk import BittensorAuthClient, Client
from oro_sdk.api.auth import create_session_endpoint, request_challenge
from oro_sdk.api.miner import get_owned_agent_version_status, list_agent_versions, list_miner_agents, submit_agent
from oro_sdk.api.public import (
    get_agent_version, get_agent_version_problems, get_agent_version_runs, get_agent_version_status, get_artifact_download_url, get_current_race,
    get_current_suite, get_evaluation_run, get_inference_models, get_leaderboard, get_pending_evaluations, get_race_detail, get_race_history,
    get_running_evaluations, get_suite_problems, get_top_agent, get_top_history, get_validators, list_suites,
)
from oro_sdk.api.validator import claim_work, complete_run, get_run_problems, heartbeat, presign_upload, update_progress
from oro_sdk.models import (
    ArtifactDownloadRequest, ArtifactType, BodySubmitAgent, ChallengeRequest, CompleteRunRequest, CompleteRunRequestScoreComponentsType0, HeartbeatRequest,
    PresignUploadRequest, ProblemProgressUpdate, ProblemStatus, ProgressUpdateRequest, SessionRequest, TerminalStatus,
)
from oro_sdk.types import UNSET, File

base, seeds = sys.argv[1], sys.argv[2:]
seen = []


def key(seed):
    k = Keypair.create_from_seed("0x" + seed)
    return SimpleNamespace(hotkey=k), k


def ok(name, r, status=200, kind=None):
    """Checks the status, and that the SDK made its own type of the body."""
    got = type(r.parsed).__name__
    if r.status_code != status or (kind and got != kind) or (status != 204 and r.parsed is None):
        raise SystemExit(f"{name}: {r.status_code} {got} {r.content[:500]!r}")
    seen.append([name, int(r.status_code), got])
    return r.parsed


(mw, mk), (vw, vk) = key(seeds[0]), key(seeds[1])
miner = BittensorAuthClient(base_url=base, wallet=mw)
val = BittensorAuthClient(base_url=base, wallet=vw)
pub = Client(base_url=base)

# A session by challenge.
c = ok("challenge", request_challenge.sync_detailed(client=pub, body=ChallengeRequest(hotkey=mk.ss58_address)))
s = ok("session", create_session_endpoint.sync_detailed(
    client=pub, body=SessionRequest(hotkey=mk.ss58_address, challenge=c.challenge, signature="0x" + mk.sign(c.challenge.encode()).hex())))
assert s.role == "miner", s

# A miner enters an agent, once in a while.
code = b"def agent_main(p):\n    return []\n"


def entry(name, body):
    return BodySubmitAgent(agent_name=name, file=File(payload=io.BytesIO(body), file_name="agent.py", mime_type="text/x-python"))


ok("no work", claim_work.sync_detailed(client=val, body=HeartbeatRequest()), 204)
ok("bad name", submit_agent.sync_detailed(client=miner, body=entry("a/b", code)), 400, "InvalidAgentNameError")
bad = ok("bad code", submit_agent.sync_detailed(client=miner, body=entry("a", b"import os\n" + code)), 422, "CodeAnalysisError")
assert bad.violations[0].additional_properties["location"] == "agent.py:1", bad
sub = ok("submit", submit_agent.sync_detailed(client=miner, body=entry("My agent", code)), kind="SubmitAgentResponse")
ok("cooldown", submit_agent.sync_detailed(client=miner, body=entry("a", code + b"x = 1\n")), 429, "CooldownActiveError")
mine = ok("agents", list_miner_agents.sync_detailed(client=miner))
ok("versions", list_agent_versions.sync_detailed(mine.agents[0].agent_id, client=miner))
ok("own status", get_owned_agent_version_status.sync_detailed(sub.agent_version_id, client=miner))
ok("pending", get_pending_evaluations.sync_detailed(client=pub), kind="PendingEvaluationsResponse")

# A validator works: the suite, then the race.
for round, right in enumerate((2, 3)):
    work = ok("claim", claim_work.sync_detailed(client=val, body=HeartbeatRequest(cpu_pct=3.5)), kind="ClaimWorkResponse")
    run = work.eval_run_id
    ok("heartbeat", heartbeat.sync_detailed(run, client=val, body=HeartbeatRequest()), kind="HeartbeatResponse")
    assert httpx.get(work.code_download_url).content == code
    problems = ok("problems", get_run_problems.sync_detailed(run, client=val)).problems
    assert all("reward" in p.metadata.additional_properties for p in problems)
    ok("running", get_running_evaluations.sync_detailed(client=pub))
    ok("progress", update_progress.sync_detailed(run, client=val, body=ProgressUpdateRequest(problems=[
        ProblemProgressUpdate(problem_id=p.problem_id, status=ProblemStatus.SUCCESS if i < right else ProblemStatus.FAILED, score=float(i < right), reasoning_score=0.9)
        for i, p in enumerate(problems)])), kind="ProgressUpdateResponse")
    ok("foreign problem", update_progress.sync_detailed(run, client=val, body=ProgressUpdateRequest(problems=[
        ProblemProgressUpdate(problem_id=uuid.uuid4(), status=ProblemStatus.SUCCESS)])), 400, "InvalidProblemIdError")
    blob = gzip.compress(b"[]")
    up = ok("presign", presign_upload.sync_detailed(client=val, body=PresignUploadRequest(
        content_length=len(blob), eval_run_id=run, problem_id=problems[0].problem_id)), kind="PresignUploadResponse")
    put = httpx.put(up.upload_url, content=blob, headers={"Content-Type": "application/gzip"})
    assert put.status_code < 400, put.text
    ok("no score", complete_run.sync_detailed(run, client=val, body=CompleteRunRequest(terminal_status=TerminalStatus.SUCCESS)), 400, "MissingScoreError")
    parts = CompleteRunRequestScoreComponentsType0.from_dict({"success_rate": right / len(problems), "reasoning_coefficient": 1.0})
    done = ok("complete", complete_run.sync_detailed(run, client=val, body=CompleteRunRequest(
        terminal_status=TerminalStatus.SUCCESS, validator_score=right / len(problems), score_components=parts, results_s3_key=up.results_s3_key)), kind="CompleteRunResponse")
    ok("again", complete_run.sync_detailed(run, client=val, body=CompleteRunRequest(
        terminal_status=TerminalStatus.SUCCESS, validator_score=1.0)), 409, "RunAlreadyCompleteError")
    ok("late beat", heartbeat.sync_detailed(run, client=val, body=HeartbeatRequest()), 409, "LeaseExpiredError")
    ok("no run", heartbeat.sync_detailed(uuid.uuid4(), client=val, body=HeartbeatRequest()), 404, "EvalRunNotFoundError")
    ok("run", get_evaluation_run.sync_detailed(run, client=pub), kind="EvaluationRunDetail")

# Everybody reads.
v = sub.agent_version_id
suite = ok("suite", get_current_suite.sync_detailed(client=pub))
ok("suites", list_suites.sync_detailed(client=pub))
ok("suite problems", get_suite_problems.sync_detailed(suite.suite_id, client=pub))
ok("version", get_agent_version.sync_detailed(v, client=pub), kind="AgentVersionPublic")
status = ok("status", get_agent_version_status.sync_detailed(v, client=pub), kind="AgentVersionStatus")
assert len(ok("runs", get_agent_version_runs.sync_detailed(v, client=pub))) == 2
ok("version problems", get_agent_version_problems.sync_detailed(v, client=pub), kind="AgentVersionProblemsResponse")
ok("no version", get_agent_version.sync_detailed(uuid.uuid4(), client=pub), 404, "AgentVersionNotFoundError")
link = ok("artifact", get_artifact_download_url.sync_detailed(client=pub, body=ArtifactDownloadRequest(artifact_type=ArtifactType.AGENT_CODE, agent_version_id=v)))
assert httpx.get(link.download_url).content == code
ok("validators", get_validators.sync_detailed(client=pub))
board = ok("leaderboard", get_leaderboard.sync_detailed(client=pub), kind="LeaderboardResponse")
top = ok("top", get_top_agent.sync_detailed(client=pub), kind="TopAgentResponse")
ok("top history", get_top_history.sync_detailed(client=pub))
race = ok("race", get_current_race.sync_detailed(client=pub), kind="RaceCurrentResponse")
ok("race detail", get_race_detail.sync_detailed(race.race.race_id, client=pub), kind="RaceDetailResponse")
ok("history", get_race_history.sync_detailed(client=pub), kind="RaceHistoryResponse")
ok("models", get_inference_models.sync_detailed(client=pub))
print(json.dumps({
    "seen": seen, "race_score": status.race_score, "state": status.state.value, "top": str(top.top_agent_version_id), "version": str(v), "race": race.race.status,
    "winner": str(race.race.winner_agent_version_id), "entries": len(board.entries), "unset": status.race_score is UNSET,
}))
