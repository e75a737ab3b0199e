"""The same validator written with the SDK of version 11: validator11.py URL NAME STAKE ROWS.json."""
import asyncio
import json
import sys

import bittensor as bt
from bittensor import intents as I
from bittensor.keyfiles import Keypair

url, name, stake, rows = sys.argv[1], sys.argv[2], float(sys.argv[3]), json.load(open(sys.argv[4]))


class Keys:
    coldkey = coldkeypub = Keypair.create_from_uri(name)
    hotkey = hotkeypub = Keypair.create_from_uri(name + "//hot")
    name = "validator"


async def main():
    w = Keys()
    hot = w.hotkey.ss58_address
    c = bt.Client(url)
    await c.connect()
    # By the raw call: the SDK makes its intent only where calls can be shielded.
    r = await c.submit_call(bt.calls.SubtensorModule.burned_register(netuid=1, hotkey=hot), w)
    assert r.success, r
    r = await c.execute(I.AddStake(hotkey_ss58=hot, netuid=1, amount_tao=stake), w)
    assert r.success, r

    async def epoch():
        return (await c.epochs.epoch_status(1))["epoch_index"]

    seen = None
    while True:
        now = await epoch()
        if now == seen:
            await asyncio.sleep(await c.chain.block_time())
            continue
        m = await c.subnets.metagraph(1)
        me = next(n for n in m.neurons if n.hotkey == hot)
        if await epoch() != now:
            continue
        seen, row = now, rows[now]
        print(json.dumps({"epoch": now, "consensus": [round(n.consensus * 65535) for n in m.neurons], "incentive": [round(n.incentive * 65535) for n in m.neurons]}), flush=True)
        if not me.validator_permit:
            continue
        r = await c.execute(I.SetWeights(netuid=1, uids=list(range(1, len(row) + 1)), weights=[v / 65535 for v in row]), w)
        print(json.dumps({"gave": now, "ok": r.success, "says": str(r)[:200]}), flush=True)


asyncio.run(main())
