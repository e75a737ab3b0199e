"""Drives ORO's newest SDK and its command line, unmodified, against the server at argv[1].

argv[2:4] are the seeds (hex) of a miner and a validator, argv[4] a folder for a wallet.
Whatever the SDK does not understand of an answer raises here. Prints what it saw as JSON.
"""

import contextlib
import gzip
import io
import json
import os
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

base, seeds, home = sys.argv[1], sys.argv[2:4], sys.argv[4]
os.environ["HOME"] = home

import httpx  # noqa: E402
from bittensor_wallet import Keypair, Wallet  # noqa: E402
from oro_sdk import BittensorAuthClient, Client, cli  # noqa: E402
from oro_sdk.api.miner import (  # noqa: E402
    clear_race_selection, set_race_selection, delete_inference_credential, get_chutes_auth_status, get_inference_auth_status_one, list_agent_versions, list_inference_auth, list_miner_agents, store_chutes_token,
)
from oro_sdk.api.public import (  # noqa: E402
    get_agent_version, get_agent_version_problems, get_agent_version_runs, get_agent_version_status, get_current_race, get_current_suite, get_episode_feedback, get_evaluation_run,
    deep_health_check, get_inference_models, get_leaderboard, get_pending_evaluations, get_race_detail, get_race_history, get_race_validator_variance, get_running_evaluations, get_suite_problems, get_top_agent,
    get_race_seed_commitment, get_top_history, get_top_miner_payout, get_trajectory_history, get_validators, health_check, list_suites,
)
from oro_sdk.api.validator import claim_work, complete_run, get_pack, get_race_pack, get_run_problems, get_weight_salt, heartbeat, presign_upload, update_progress  # noqa: E402
from oro_sdk.models import (  # noqa: E402
    ClaimWorkRequest, CompleteRunRequest, CompleteRunRequestScoreComponentsType0, HeartbeatRequest, MinerRaceSelectionRequest, PresignUploadRequest, ProblemProgressUpdate, ProblemStatus,
    ProgressUpdateRequest, StoreChutesTokenRequest, TerminalStatus,
)

seen = []


def ok(name, r, status=200, kind=None):
    """Checks the status, and that the SDK made its own type of the body."""
    got = type(r.parsed).__name__
    if r.status_code != status or (kind and got != kind) or (status != 204 and r.parsed is None):
        raise SystemExit(f"{name}: {r.status_code} {got} {r.content[:500]!r}")
    seen.append([name, int(r.status_code), got])
    return r.parsed


def oro(*args, code=0):
    """Runs ORO's command line; returns what it printed."""
    out, err, got = io.StringIO(), io.StringIO(), 0
    sys.argv = ["oro", *args]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as e:
            got = e.code or 0
    if got != code:
        raise SystemExit(f"oro {args}: {got} {out.getvalue()} {err.getvalue()}")
    seen.append(["oro " + " ".join(args[:2]), got, ""])
    return out.getvalue() + err.getvalue()


def said(want, text):
    if want not in text:
        raise SystemExit(f"want {want!r}, not {text!r}")


key = Keypair.create_from_seed("0x" + seeds[0])
file = Path(home, ".bittensor", "wallets", "miner", "hotkeys", "default")
file.parent.mkdir(parents=True)
public = "0x" + bytes(key.public_key).hex()
file.write_text(json.dumps({"accountId": public, "publicKey": public, "secretPhrase": None, "secretSeed": "0x" + seeds[0], "ss58Address": key.ss58_address}))
wallet = Wallet(name="miner", hotkey="default")
mine = ["--wallet-name", "miner", "--base-url", base]
miner = BittensorAuthClient(base_url=base, wallet=wallet)
val = BittensorAuthClient(base_url=base, wallet=SimpleNamespace(hotkey=Keypair.create_from_seed("0x" + seeds[1])))
pub = Client(base_url=base)

# Without a provider its command line enters nothing.
agent = Path(home, "agent.py")
code = b"def agent_main(p):\n    return []\n"
agent.write_bytes(code)
submit = ["submit", "--agent-name", "My agent", "--agent-file", str(agent), *mine]
said("No inference provider", oro(*submit, code=1))
said("refuses it", oro("inference", "connect", "openrouter", "--api-key", "sk-401-x", *mine, code=1))
said("no credit", oro("inference", "connect", "openrouter", "--api-key", "sk-402-x", *mine, code=1))
oro("inference", "connect", "openrouter", "--api-key", "sk-or-mine", *mine)
ok("old store", store_chutes_token.sync_detailed(client=miner, body=StoreChutesTokenRequest(refresh_token="cpk-mine")))
assert ok("old status", get_chutes_auth_status.sync_detailed(client=miner)).connected
assert ok("auth", list_inference_auth.sync_detailed(client=miner)).default_provider == "openrouter"
assert ok("auth of one", get_inference_auth_status_one.sync_detailed("chutes", client=miner)).connected
oro("inference", "set-default", "chutes", *mine)
oro("inference", "set-default", "openrouter", *mine)
ok("forget", delete_inference_credential.sync_detailed("chutes", client=miner))
said("openrouter", oro("inference", "status", *mine))
oro(*submit)

mine_too = ok("agents", list_miner_agents.sync_detailed(client=miner))
version = ok("versions", list_agent_versions.sync_detailed(mine_too.agents[0].agent_id, client=miner))[0].agent_version_id
ok("pending", get_pending_evaluations.sync_detailed(client=pub), kind="PendingEvaluationsResponse")

# A validator works: the suite, then the race.
for right in (2, 3):
    work = ok("claim", claim_work.sync_detailed(client=val, body=ClaimWorkRequest(runtime_contract=5)), kind="ClaimWorkResponse")
    assert work.inference_token.base_url == base + "/v1" and work.inference_token.expires_at.tzinfo, work
    models = httpx.get(work.inference_token.base_url + "/models", headers={"Authorization": "Bearer " + work.inference_token.access_token})
    assert models.status_code == 200, models.text
    run = work.eval_run_id
    ok("heartbeat", heartbeat.sync_detailed(run, client=val, body=HeartbeatRequest()), kind="HeartbeatResponse")
    assert httpx.get(work.code_download_url).content == code
    problems = ok("problems", get_run_problems.sync_detailed(run, client=val)).problems
    ok("running", get_running_evaluations.sync_detailed(client=pub))
    ok("progress", update_progress.sync_detailed(run, client=val, body=ProgressUpdateRequest(problems=[
        ProblemProgressUpdate(problem_id=p.problem_id, status=ProblemStatus.SUCCESS if i < right else ProblemStatus.FAILED, score=float(i < right))
        for i, p in enumerate(problems)])), kind="ProgressUpdateResponse")
    blob = gzip.compress(b"[]")
    up = ok("presign", presign_upload.sync_detailed(client=val, body=PresignUploadRequest(
        content_length=len(blob), eval_run_id=run, problem_id=problems[0].problem_id)), kind="PresignUploadResponse")
    put = httpx.put(up.upload_url, content=blob, headers={"Content-Type": "application/gzip"})
    assert put.status_code < 400, put.text
    parts = CompleteRunRequestScoreComponentsType0.from_dict({"success_rate": right / len(problems), "reasoning_coefficient": 1.0})
    ok("complete", complete_run.sync_detailed(run, client=val, body=CompleteRunRequest(
        terminal_status=TerminalStatus.SUCCESS, validator_score=right / len(problems), score_components=parts, results_s3_key=up.results_s3_key)), kind="CompleteRunResponse")
    ok("late beat", heartbeat.sync_detailed(run, client=val, body=HeartbeatRequest()), 409, "LeaseExpiredError")
    ok("no run", heartbeat.sync_detailed(uuid.uuid4(), client=val, body=HeartbeatRequest()), 404, "EvalRunNotFoundError")
    ok("run", get_evaluation_run.sync_detailed(run, client=pub), kind="EvaluationRunDetail")

# Everybody reads.
ok("health", health_check.sync_detailed(client=pub))
suite = ok("suite", get_current_suite.sync_detailed(client=pub))
ok("suites", list_suites.sync_detailed(client=pub))
ok("suite problems", get_suite_problems.sync_detailed(suite.suite_id, client=pub))
ok("version", get_agent_version.sync_detailed(version, client=pub), kind="AgentVersionPublic")
status = ok("status", get_agent_version_status.sync_detailed(version, client=pub), kind="AgentVersionStatus")
assert len(ok("runs", get_agent_version_runs.sync_detailed(version, client=pub))) == 2
ok("version problems", get_agent_version_problems.sync_detailed(version, client=pub), kind="AgentVersionProblemsResponse")
ok("validators", get_validators.sync_detailed(client=pub))
board = ok("leaderboard", get_leaderboard.sync_detailed(client=pub), kind="LeaderboardResponse")
top = ok("top", get_top_agent.sync_detailed(client=pub), kind="TopAgentResponse")
ok("top history", get_top_history.sync_detailed(client=pub))
ok("payout", get_top_miner_payout.sync_detailed(client=pub))
race = ok("race", get_current_race.sync_detailed(client=pub), kind="RaceCurrentResponse")
ok("race detail", get_race_detail.sync_detailed(race.race.race_id, client=pub), kind="RaceDetailResponse")
ok("variance", get_race_validator_variance.sync_detailed(race.race.race_id, client=pub), kind="RaceValidatorVarianceResponse")
if deep_health_check.sync_detailed(client=pub).status_code != 200:  # the SDK makes nothing of its body
    raise SystemExit("deep health")
ok("no drand", get_race_seed_commitment.sync_detailed(race.race.race_id, client=pub), 404, "RaceNotFoundError")
days = ok("trajectories", get_trajectory_history.sync_detailed(client=pub), kind="TrajectoryHistoryResponse")
assert days.total == 6 and len(days.series) == 1 and days.series[0].distinct == 6, days
ok("no episode", get_episode_feedback.sync_detailed(uuid.uuid4(), client=pub), 404, "ArtifactNotFoundError")
salt = ok("weight salt", get_weight_salt.sync_detailed(client=val), kind="WeightSaltResponse")
assert salt.eligible and salt.epoch_standings.t_burn == 0.75, salt
assert salt.epoch_standings.top_hotkey == key.ss58_address and [f.race_score for f in salt.epoch_standings.finishers] == [0.75], salt
ok("no pack", get_pack.sync_detailed("aa", client=val), 404, "EnvPackErrorResponse")
ok("no race pack", get_race_pack.sync_detailed(race.race.race_id, client=val), 404, "EnvPackErrorResponse")
ok("select", set_race_selection.sync_detailed(client=miner, body=MinerRaceSelectionRequest(version)), 409, "RaceLockedError")
ok("nothing selected", clear_race_selection.sync_detailed(client=miner), 404, "NoSelectionError")
ok("history", get_race_history.sync_detailed(client=pub), kind="RaceHistoryResponse")
ok("models", get_inference_models.sync_detailed(client=pub))
print(json.dumps({
    "seen": seen, "race_score": status.race_score, "state": status.state.value, "top": str(top.top_agent_version_id), "version": str(version), "race": race.race.status,
    "winner": str(race.race.winner_agent_version_id), "entries": len(board.entries),
}))
