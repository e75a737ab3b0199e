"""The SDK of version 10, unmodified, on an embedded ledger whose subnets have pools:
economy.py URL. Prices, stake on others' hotkeys and on the root network, moves, child
keys and root claims. Prints one line of JSON: by call "ok", or what came instead."""
import json
import sys
import tempfile
import time

import bittensor as bt
from bittensor_wallet import Keypair, Wallet

url = sys.argv[1]
home = tempfile.mkdtemp()
NETUID, ROOT = 1, 0


def wallet(name, cold, hot):
    w = Wallet(name=name, hotkey="default", path=home)
    w.set_coldkey(Keypair.create_from_uri(cold), encrypt=False, overwrite=True)
    w.set_coldkeypub(Keypair.create_from_uri(cold), overwrite=True)
    w.set_hotkey(Keypair.create_from_uri(hot), encrypt=False, overwrite=True)
    return w


# //Bob validates, //Eve mines and stakes on //Bob's hotkey, as a localnet begins.
val, fan = wallet("val", "//Bob", "//Bob//hot"), wallet("fan", "//Eve", "//Eve//hot")
s = bt.Subtensor(network=url)
out = {}


def call(name, f, want=lambda v: v is not None):
    try:
        v = f()
        out[name] = "ok" if want(v) else f"unexpected: {str(v)[:300]}"
    except Exception as e:
        out[name] = f"{type(e).__name__}: {str(e)[:300]}"


def done(r):
    return bool(getattr(r, "success", r[0] if isinstance(r, tuple) else r))


def tao(n, unit=ROOT):
    return bt.Balance.from_tao(n).set_unit(unit)


HOT, FAN, CHILD = val.hotkey.ss58_address, fan.coldkeypub.ss58_address, fan.hotkey.ss58_address
price = s.subnet(NETUID).price.tao
call("price", lambda: price, lambda v: 0.9 < v < 2)
call("get_subnet_price", lambda: s.get_subnet_price(NETUID), lambda v: abs(v.tao - price) < 0.01)
call("add_stake on another's hotkey", lambda: s.add_stake(fan, netuid=NETUID, hotkey_ss58=HOT, amount=tao(1000)), done)
call("get_stake", lambda: s.get_stake(FAN, HOT, NETUID), lambda v: 1000 / price * 0.99 < v.tao < 1000 / price)
call("add_stake within a limit", lambda: s.add_stake(fan, netuid=NETUID, hotkey_ss58=HOT, amount=tao(100), safe_staking=True, rate_tolerance=0.05), done)
call("add_stake past a limit", lambda: s.add_stake(fan, netuid=NETUID, hotkey_ss58=HOT, amount=tao(80_000), safe_staking=True, rate_tolerance=0.001), lambda v: not done(v))
call("add_stake on the root network", lambda: s.add_stake(fan, netuid=ROOT, hotkey_ss58=HOT, amount=tao(5000)), done)
call("get_stake on the root network", lambda: s.get_stake(FAN, HOT, ROOT), lambda v: v.tao >= 5000)
call("unstake", lambda: s.unstake(fan, netuid=NETUID, hotkey_ss58=HOT, amount=tao(10, NETUID)), done)
call("move_stake", lambda: s.move_stake(fan, origin_netuid=NETUID, origin_hotkey_ss58=HOT, destination_netuid=NETUID, destination_hotkey_ss58=CHILD, amount=tao(10, NETUID)), done)
call("swap_stake", lambda: s.swap_stake(fan, hotkey_ss58=HOT, origin_netuid=NETUID, destination_netuid=2, amount=tao(20, NETUID)), done)
call("transfer_stake", lambda: s.transfer_stake(fan, destination_coldkey_ss58=val.coldkeypub.ss58_address, hotkey_ss58=HOT, origin_netuid=NETUID, destination_netuid=NETUID, amount=tao(5, NETUID)), done)
call("get_stake_info_for_coldkey", lambda: s.get_stake_info_for_coldkey(FAN), lambda v: {i.netuid for i in v} >= {0, 1, 2})
call("get_delegate_by_hotkey", lambda: s.get_delegate_by_hotkey(HOT), lambda v: FAN in v.nominators)
call("get_delegated", lambda: s.get_delegated(FAN), lambda v: len(v) >= 2)
call("set_children", lambda: s.set_children(val, hotkey_ss58=HOT, netuid=NETUID, children=[(0.5, CHILD)]), done)
call("get_children_pending", lambda: s.get_children_pending(HOT, NETUID), lambda v: v[0] and v[0][0][1] == CHILD and v[1] > 0)
call("get_children", lambda: s.get_children(HOT, NETUID), lambda v: v[0] is True or v[0] == [] or v[1] == [])
call("set_root_claim_type", lambda: s.set_root_claim_type(fan, new_root_claim_type="Keep"), done)
call("get_root_claim_type", lambda: s.get_root_claim_type(FAN), lambda v: "Keep" in str(v))
call("metagraph", lambda: [float(x[1]) for m in [s.metagraph(NETUID)] for x in (m.total_stake, m.alpha_stake, m.tao_stake)], lambda v: v[2] >= 900 and v[1] > 0 and abs(v[0] - v[1] - v[2]) < 1)  # the SDK weighs TAO by TaoWeight
deadline = time.monotonic() + 60  # an epoch pays the root network
while time.monotonic() < deadline and not s.get_root_claimable_all_rates(HOT):
    s.wait_for_block()
call("get_root_claimable_all_rates", lambda: s.get_root_claimable_all_rates(HOT), lambda v: v.get(1, 0) > 0)
call("claim_root", lambda: s.claim_root(fan, netuids=[1, 2]), done)
call("get_root_claimed", lambda: s.get_root_claimed(coldkey_ss58=FAN, hotkey_ss58=HOT, netuid=1))
call("subnet", lambda: s.subnet(NETUID), lambda d: d.price.tao > 0.9 and d.tao_in.tao > 1_000_000 and d.moving_price > 0)
call("all_subnets", lambda: s.all_subnets(), lambda v: len(v) == 3)
call("unstake_all", lambda: s.unstake_all(fan, netuid=2, hotkey_ss58=HOT), done)
print(json.dumps(out))
