# substrate-interface reads the embedded ledger and lands extrinsics on it.
import json
import sys

from substrateinterface import Keypair, SubstrateInterface

s = SubstrateInterface(url=sys.argv[1])
cold, hot = Keypair.create_from_uri("//Bob"), Keypair.create_from_uri("//Bob//hot")
out = {"chain": s.chain, "tempo": s.query("SubtensorModule", "Tempo", [1]).value}


def send(pallet, call, args, who):
    x = s.create_signed_extrinsic(s.compose_call(pallet, call, args), who)
    r = s.submit_extrinsic(x, wait_for_inclusion=True)
    return "ok" if r.is_success else r.error_message["name"]


register = {"netuid": 1, "hotkey": hot.ss58_address}
out["register"] = send("SubtensorModule", "burned_register", register, cold)
out["commit"] = send("Commitments", "set_commitment", {"netuid": 1, "info": {"fields": [[{"Raw5": "0x68656c6c6f"}]]}}, hot)
out["again"] = send("SubtensorModule", "burned_register", register, cold)
out["listed"] = hot.ss58_address in [v.value for _, v in s.query_map("SubtensorModule", "Keys", [1])]
out["call"] = s.compose_call("SubtensorModule", "set_weights", {"netuid": 3, "dests": [1, 2, 3], "weights": [100, 65535, 7], "version_key": 0}).data.to_hex()
print(json.dumps(out))
