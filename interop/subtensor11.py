"""The SDK of version 11, unmodified, against the embedded ledger: subtensor11.py URL SERVER RECEIVER [pool].

Subnet 1 sets weights, subnet 2 commits them with timelocks. SERVER takes requests
signed as btauth/1 for RECEIVER. Prints one line of JSON: by call "ok", or what came instead."""
import asyncio
import json
import sys
import urllib.error
import urllib.request

import bittensor as bt
from bittensor import http_auth
from bittensor import intents as I
from bittensor.keyfiles import Keypair

url, server, receiver = sys.argv[1:4]
out = {}


class Keys:
    def __init__(self, cold, hot):
        self.coldkey = self.coldkeypub = Keypair.create_from_uri(cold)
        self.hotkey = self.hotkeypub = Keypair.create_from_uri(hot)
        self.name = hot


val, owner = Keys("//Bob", "//Bob//hot"), Keys("//owner-cold", "//owner")
OWN_COLD = owner.coldkey.ss58_address
HOT, COLD, OWN = val.hotkey.ss58_address, val.coldkey.ss58_address, owner.hotkey.ss58_address


async def call(name, f, want=lambda v: v is not None):
    try:
        v = await f()
        out[name] = "ok" if want(v) else f"unexpected: {str(v)[:300]}"
    except Exception as e:
        out[name] = f"{type(e).__name__}: {str(e)[:300]}"


def done(r):
    return r.success


def post(headers, path="/generate?n=1", body=b"hello"):
    q = urllib.request.Request(server + path, data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(q) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


async def signed():
    """What the server says of a request, of the same again, and of changed ones."""
    sign = lambda **k: http_auth.sign(val, method="POST", path="/generate?n=1", body=b"hello", **({"receiver_ss58": receiver} | k))
    h = sign()
    got = [post(h), post(h), post(sign(), body=b"other"), post(sign(), path="/generate?n=2"), post(sign(receiver_ss58=OWN)), post(sign(receiver_ss58=None)),
           post(sign(nonce_ns=1_000_000_000))]
    return [s for s, _ in got], got


async def answers():
    """What the SDK says of the headers that the server makes, and of the same again."""
    status, text = post({}, "/sign", HOT.encode())
    h = json.loads(text)
    said = []
    for to, path in ((HOT, "/x"), (HOT, "/x"), (OWN, "/x"), (HOT, "/y")):
        try:
            said.append(http_auth.verify(h, b"body", method="POST", path=path, self_hotkey_ss58=to).hotkey_ss58)
        except http_auth.AuthError as e:
            said.append(type(e).__name__)
    return said


async def main():
    c = bt.Client(url)
    await c.connect()
    for n in (1, 2):  # by the raw call: the SDK makes its intent only where calls can be shielded
        await call(f"burned_register {n}", lambda: c.submit_call(bt.calls.SubtensorModule.burned_register(netuid=n, hotkey=HOT), val), done)
    await call("AddStake", lambda: c.execute(I.AddStake(hotkey_ss58=HOT, netuid=1, amount_tao=10), val), done)
    await call("ServeAxon", lambda: c.execute(I.ServeAxon(netuid=1, ip="192.0.2.1", port=8091), val), done)
    await call("Transfer", lambda: c.execute(I.Transfer(dest_ss58=owner.coldkey.ss58_address, amount_tao=1), val), done)
    await call("SetWeights", lambda: c.execute(I.SetWeights(netuid=1, uids=[0, 1], weights=[0.25, 0.75]), owner), done)
    await call("SetWeights, committed", lambda: c.execute(I.SetWeights(netuid=2, uids=[0, 1], weights=[0.25, 0.75]), owner), done)
    # A batch is made whole or not at all; another key acts for a coldkey.
    two = lambda a, b: I.Batch(intents=[I.Transfer(dest_ss58=owner.coldkey.ss58_address, amount_tao=x) for x in (a, b)])
    await call("Batch", lambda: c.execute(two(1, 2), val), done)
    await call("AddProxy", lambda: c.execute(I.AddProxy(delegate_ss58=OWN_COLD, proxy_type="Transfer"), val), done)
    await call("Transfer by a proxy", lambda: c.execute(I.Transfer(dest_ss58=OWN_COLD, amount_tao=1), owner, proxy_for=COLD, proxy_type="Transfer"), done)
    await call("RemoveProxy", lambda: c.execute(I.RemoveProxy(delegate_ss58=OWN_COLD, proxy_type="Transfer"), val), done)
    reads = {
        "balance": (lambda: c.balances.get(COLD), lambda v: v.tao >= 984), "existential_deposit": (c.balances.existential_deposit, lambda v: v.rao == 500),
        "block_time": (c.chain.block_time, lambda v: float(v) == 0.25), "timestamp": (c.chain.timestamp, None), "is_fast_blocks": (c.chain.is_fast_blocks, lambda v: v is True),
        "subnets": (c.subnets.all, None), "burn": (lambda: c.subnets.burn(1), None), "commit_reveal_enabled": (lambda: c.subnets.commit_reveal_enabled(2), lambda v: v is True),
        "info": (lambda: c.subnets.info(1), None), "metagraph": (lambda: c.subnets.metagraph(1), lambda v: v.netuid == 1 and len(v.neurons) == 2), "subnet": (lambda: c.subnets.subnet(1), None),
        "subnet_hyperparameters": (lambda: c.subnets.subnet_hyperparameters(1), lambda v: v["tempo"] == 20 and v["alpha_sigmoid_steepness"] == 1000 and v["commit_reveal_weights_enabled"] is False),
        "token_symbols": (c.subnets.token_symbols, None), "registration_cost": (c.subnets.subnet_registration_cost, None),
        "neurons": (lambda: c.neurons.all(1), lambda v: len(v) == 2), "uid": (lambda: c.neurons.uid(HOT, 1), lambda v: v == 1), "hotkey_owner": (lambda: c.neurons.hotkey_owner(HOT), lambda v: v == COLD),
        "netuids_for_hotkey": (lambda: c.neurons.netuids_for_hotkey(HOT), lambda v: sorted(v) == [1, 2]), "owned_hotkeys": (lambda: c.neurons.owned_hotkeys(COLD), lambda v: v == [HOT]),
        "weights": (lambda: c.weights.weights(1), lambda v: 0 in dict(v) or v), "bonds": (lambda: c.weights.bonds(1), None),
        "timelocked_weight_commits": (lambda: c.weights.timelocked_weight_commits(2), lambda v: OWN in str(v)),
        "min_allowed_weights": (lambda: c.hyperparameters.min_allowed_weights(1), lambda v: v == 1), "weights_rate_limit": (lambda: c.hyperparameters.weights_rate_limit(1), lambda v: v == 1),
        "stake": (lambda: c.staking.get(COLD, HOT, 1), None), "stake_for_coldkey": (lambda: c.staking.stake_for_coldkey(COLD), None),
        "alpha_price": (lambda: c.prices.alpha_price(1), None), "alpha_prices": (c.prices.alpha_prices, None),
        "blocks_until_next_epoch": (lambda: c.epochs.blocks_until_next_epoch(1), None), "epoch_status": (lambda: c.epochs.epoch_status(1), None),
        "delegates": (c.delegation.delegates, None), "delegate_take": (lambda: c.delegation.delegate_take(HOT), None), "commitments": (lambda: c.identity.commitments(1), None),
    }
    for name, (f, want) in reads.items():
        await call(name, f, want or (lambda v: v is not None))
    await call("btauth: signed by the SDK", signed, lambda v: v[0] == [200, 401, 401, 401, 401, 401, 401])
    await call("btauth: checked by the SDK", answers, lambda v: v == [OWN, "ReplayedRequest", "WrongReceiver", "BadSignature"])
    if len(sys.argv) > 4:
        await newer(c)
    print(json.dumps(out))


async def newer(c):
    """What runtimes of today have, on a subnet with a pool: collateral, consensus Null, owner's calls that moved."""
    st = bt.storage.SubtensorModule
    rule = lambda name, value: c.execute(I.SetHyperparameter(netuid=1, name=name, value=value), owner)
    for name, value, item, want in (("tempo", 400, st.Tempo, 400), ("activity_cutoff_factor", 20000, st.ActivityCutoffFactorMilli, 20000), ("max_burn", 1.0, st.MaxBurn, 10**9), ("min_burn", 1.0, st.MinBurn, 10**9),
                                    ("collateral_lock_share", 0.5, st.CollateralLockShare, 32768), ("collateral_drain_ratio", 2.0, None, None)):
        await call(f"SetHyperparameter {name}", lambda: rule(name, value), done)
        if item:
            await call(f"read {name}", lambda: c.query(item, [1]), lambda v: v == want or f"{v}" == f"{want}")
    miner = Keys("//Miner", "//Miner//hot")
    hot, cold = miner.hotkey.ss58_address, miner.coldkey.ss58_address
    await call("burned_register with collateral", lambda: c.submit_call(bt.calls.SubtensorModule.burned_register(netuid=1, hotkey=hot), miner), done)
    await call("collateral_policy", lambda: c.collateral.collateral_policy(1), lambda v: abs(v["lock_share"] - 0.5) < 1e-4 and v["drain_ratio"] == 2.0)
    await call("subnet_collateral", lambda: c.collateral.subnet_collateral(1), lambda v: len(v) == 1 and v[0]["hotkey"] == hot)
    await call("miner_collateral", lambda: c.collateral.miner_collateral(1, hot, cold), lambda v: v["locked_alpha"].rao > 4 * 10**8)
    refused = lambda r: not r.success
    await call("RemoveStake of collateral", lambda: c.execute(I.RemoveStake(hotkey_ss58=hot, netuid=1, amount_alpha=0.1), miner), refused)
    await call("add_collateral", lambda: c.submit_call(bt.calls.SubtensorModule.add_collateral(netuid=1, hotkey=hot, alpha=10**9, limit_price=2 * 10**9), miner), done)
    await call("SetMinCollateral", lambda: c.execute(I.SetMinCollateral(netuid=1, hotkey_ss58=hot, min_alpha=0.2), miner), done)
    await call("SetHyperparameter epoch_consensus", lambda: rule("epoch_consensus", "Null"), done)
    await call("read epoch_consensus", lambda: c.query(st.SubnetEpochConsensus, [1]), lambda v: v == "Null")
    await call("SetWeights raw_u16", lambda: c.execute(I.SetWeights(netuid=1, weights={0: 3, 2: 1}, raw_u16=True), val), done)
    await call("read Weights", lambda: c.query(st.Weights, [1, 1]), lambda v: [tuple(x) for x in v] == [(0, 3), (2, 1)])


asyncio.run(main())
