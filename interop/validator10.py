"""A validator written with the SDK of version 10: validator10.py URL NAME STAKE ROWS.json.

It registers NAME//hot, stakes, and in each epoch says what the chain's consensus is and
sets the weights of the epoch: ROWS[epoch] of the uids 1, 2, ... One line of JSON for each."""
import json
import sys
import tempfile

import bittensor as bt
from bittensor_wallet import Keypair, Wallet

url, name, stake, rows = sys.argv[1], sys.argv[2], float(sys.argv[3]), json.load(open(sys.argv[4]))
w = Wallet(name="validator", hotkey="default", path=tempfile.mkdtemp())
w.set_coldkey(Keypair.create_from_uri(name), encrypt=False, overwrite=True)
w.set_coldkeypub(Keypair.create_from_uri(name), overwrite=True)
w.set_hotkey(Keypair.create_from_uri(name + "//hot"), encrypt=False, overwrite=True)
s = bt.Subtensor(network=url)
for r in (s.burned_register(w, 1), s.add_stake(w, netuid=1, hotkey_ss58=w.hotkey.ss58_address, amount=bt.Balance.from_tao(stake).set_unit(0))):
    assert r.success, r


def epoch():
    return int(s.query_subtensor("SubnetEpochIndex", params=[1]))


seen = None
while True:
    now = epoch()
    if now == seen:
        s.wait_for_block()
        continue
    m = s.metagraph(1)
    me = list(m.hotkeys).index(w.hotkey.ss58_address)
    if epoch() != now:
        continue
    seen, row = now, rows[now]
    print(json.dumps({"epoch": now, "consensus": [round(float(c) * 65535) for c in m.C], "incentive": [round(float(i) * 65535) for i in m.I]}), flush=True)
    if not m.validator_permit[me]:
        continue
    r = s.set_weights(w, 1, list(range(1, len(row) + 1)), [v / 65535 for v in row], block_time=2, version_key=0)
    print(json.dumps({"gave": now, "ok": r.success, "says": str(r.message)}), flush=True)
