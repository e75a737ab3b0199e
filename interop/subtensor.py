"""The SDK of version 10 or 9.12, unmodified, against the embedded ledger: subtensor.py URL [pool].

Each call that the validators and miners of the field make with it is made once.
Prints one line of JSON: by call "ok", or what came instead."""
import inspect
import json
import os
import sys
import tempfile
import time

import bittensor as bt
from bittensor_wallet import Keypair, Wallet

url = sys.argv[1]
POOL = sys.argv[2:] == ["pool"]  # the subnet has an alpha of its own, which costs about a TAO
home = tempfile.mkdtemp()
NETUID = 1


def wallet(name, cold, hot):
    w = Wallet(name=name, hotkey="default", path=home)
    w.set_coldkey(Keypair.create_from_uri(cold), encrypt=False, overwrite=True)
    w.set_coldkeypub(Keypair.create_from_uri(cold), overwrite=True)
    w.set_hotkey(Keypair.create_from_uri(hot), encrypt=False, overwrite=True)
    return w


owner, val, poor = wallet("owner", "//owner-cold", "//owner"), wallet("val", "//Bob", "//Bob//hot"), wallet("poor", "//Carol", "//Carol//hot")
s = bt.Subtensor(network=url)
out = {}
OLD = bt.__version__.startswith("9.")
# What 9.12 does not have, or reads from items that the chain has no more. Weights that
# are refused in a block it sends again for ever, where it waits for the block.
ABSENT = ("set_weights without a permit", "get_commitment_metadata", "get_staking_hotkeys", "get_all_subnets_netuid", "blocks_until_next_epoch", "get_subnet_prices", "is_fast_blocks") if OLD else ()
ABSENT += () if hasattr(s, "get_staking_hotkeys") else ("get_staking_hotkeys",)
# Before 10.5 prices are read from a pool that the chain has no more.
ABSENT += ("get_subnet_prices",) if tuple(int(x) for x in bt.__version__.split(".")[:2]) < (10, 5) else ()
# Some versions register by work, for which they want torch.
BY_WORK = "cuda" in inspect.signature(s.register).parameters


def call(name, f, want=lambda v: v is not None):
    if name in ABSENT:
        return
    try:
        v = f()
        out[name] = "ok" if want(v) else f"unexpected: {str(v)[:300]}"
    except Exception as e:
        out[name] = f"{type(e).__name__}: {str(e)[:300]}"


def about(v, n):
    return n * 0.99 < v < n * 2 if POOL else v == n  # epochs pay stake on a pool's subnet


def done(r):
    return bool(getattr(r, "success", r[0] if isinstance(r, tuple) else r))


OWN, HOT, COLD = owner.hotkey.ss58_address, val.hotkey.ss58_address, val.coldkeypub.ss58_address
call("burned_register", lambda: s.burned_register(val, NETUID), done)
call("burned_register of a known key", lambda: s.burned_register(val, NETUID), done)
call("register", lambda: (s.burned_register if BY_WORK else s.register)(poor, NETUID), done)
call("add_stake", lambda: s.add_stake(val, netuid=NETUID, hotkey_ss58=HOT, amount=bt.Balance.from_tao(100).set_unit(0)), done)
call("add_stake_limit", lambda: s.add_stake(val, netuid=NETUID, hotkey_ss58=HOT, amount=bt.Balance.from_tao(10).set_unit(0), safe_staking=True), done)
call("get_stake", lambda: s.get_stake(COLD, HOT, NETUID), lambda v: about(v.tao, 110))
call("unstake", lambda: s.unstake(val, netuid=NETUID, hotkey_ss58=HOT, amount=bt.Balance.from_tao(10).set_unit(NETUID)), done)
call("get_stake after it", lambda: s.get_stake(COLD, HOT, NETUID), lambda v: about(v.tao, 100))
call("transfer", lambda: s.transfer(val, poor.coldkeypub.ss58_address, bt.Balance.from_tao(5)), done)
call("get_balance", lambda: s.get_balance(poor.coldkeypub.ss58_address), lambda v: v.tao == 1005)
call("transfer of too much", lambda: s.transfer(val, poor.coldkeypub.ss58_address, bt.Balance.from_tao(5000)), lambda v: not done(v))
axon = bt.Axon(wallet=val, ip="192.0.2.1", port=8091, external_ip="192.0.2.1", external_port=8091)
call("serve_axon", lambda: s.serve_axon(NETUID, axon), done)
call("set_weights", lambda: s.set_weights(owner, NETUID, [0, 1], [0.25, 0.75], version_key=0), done)
call("set_weights without a permit", lambda: s.set_weights(poor, NETUID, [0, 1], [0.25, 0.75]), lambda v: not done(v) and "permit" in str(v).lower())
call("set_weights of mechanism 1", lambda: s.wait_for_block(s.get_current_block() + 3) and s.set_weights(owner, NETUID, [1], [1.0], mechid=1, version_key=0), done)
call("get_mechanism_count", lambda: s.get_mechanism_count(NETUID), lambda v: v == 2)
call("get_mechanism_emission_split", lambda: s.get_mechanism_emission_split(NETUID) or (), lambda v: v == () or list(v) == [50, 50])
call("set_commitment", lambda: s.set_commitment(val, NETUID, "hello"), done)
call("get_commitment", lambda: s.get_commitment(NETUID, 1), lambda v: v == "hello")
call("get_all_commitments", lambda: s.get_all_commitments(NETUID), lambda v: v == {HOT: "hello"})
call("get_commitment_metadata", lambda: s.get_commitment_metadata(NETUID, HOT))
call("set_reveal_commitment", lambda: s.set_reveal_commitment(poor, NETUID, "later", blocks_until_reveal=1), done)
call("get_revealed_commitment", lambda: s.get_revealed_commitment(NETUID, 2) or (), lambda v: v == ())
call("get_all_revealed_commitments", lambda: s.get_all_revealed_commitments(NETUID), lambda v: v == {})
call("metagraph", lambda: s.metagraph(NETUID), lambda m: list(m.hotkeys) == [OWN, HOT, poor.hotkey.ss58_address] and (about(float(m.S[1]), 100) or abs(float(m.S[1]) - 100) < 1e-3) and m.axons[1].ip == "192.0.2.1" and m.axons[1].port == 8091)
call("metagraph lite=False", lambda: s.metagraph(NETUID, lite=False), lambda m: m.W.shape == (3, 3) and abs(m.W[0][1] - 0.75) < 1e-3 and abs(m.W[0][0] - 0.25) < 1e-3)
call("neurons", lambda: s.neurons(NETUID), lambda v: [n.uid for n in v] == [0, 1, 2] and [u for u, _ in v[0].weights] == [0, 1])
call("neurons_lite", lambda: s.neurons_lite(NETUID), lambda v: len(v) == 3)
call("neuron_for_uid", lambda: s.neuron_for_uid(1, NETUID), lambda v: v.hotkey == HOT and v.axon_info.port == 8091)
call("get_neuron_for_pubkey_and_subnet", lambda: s.get_neuron_for_pubkey_and_subnet(HOT, NETUID), lambda v: v.uid == 1)
call("get_uid_for_hotkey_on_subnet", lambda: s.get_uid_for_hotkey_on_subnet(HOT, NETUID), lambda v: v == 1)
call("get_netuids_for_hotkey", lambda: s.get_netuids_for_hotkey(HOT), lambda v: v == [1])
call("is_hotkey_registered", lambda: s.is_hotkey_registered(HOT, NETUID), lambda v: v is True)
call("is_hotkey_registered_any", lambda: s.is_hotkey_registered_any(HOT), lambda v: v is True)
call("does_hotkey_exist", lambda: s.does_hotkey_exist(HOT), lambda v: v is True)
call("get_hotkey_owner", lambda: s.get_hotkey_owner(HOT), lambda v: v == COLD)
call("get_owned_hotkeys", lambda: s.get_owned_hotkeys(COLD), lambda v: v == [HOT])
call("get_staking_hotkeys", lambda: s.get_staking_hotkeys(COLD), lambda v: v == [HOT])
call("get_subnet_info", lambda: s.get_subnet_info(NETUID), lambda v: v.subnetwork_n == 3)
call("get_all_subnets_info", lambda: s.get_all_subnets_info(), lambda v: len(v) == 1)
call("get_subnet_hyperparameters", lambda: s.get_subnet_hyperparameters(NETUID), lambda v: v.tempo == 20 and v.kappa == 32767)
call("get_hyperparameter", lambda: s.get_hyperparameter("Tempo", NETUID), lambda v: v == 20)
call("get_stake_for_coldkey_and_hotkey", lambda: s.get_stake_for_coldkey_and_hotkey(COLD, HOT), lambda v: about(v[NETUID].stake.tao, 100))
call("get_stake_info_for_coldkey", lambda: s.get_stake_info_for_coldkey(COLD), lambda v: len(v) == 1 and about(v[0].stake.tao, 100))
call("get_stake_for_hotkey", lambda: s.get_stake_for_hotkey(HOT, NETUID), lambda v: about(v.tao, 100))
call("get_subnet_price", lambda: s.get_subnet_price(NETUID), lambda v: about(v.tao, 1))
call("get_subnet_prices", lambda: s.get_subnet_prices())
call("subnet", lambda: s.subnet(NETUID), lambda v: v.netuid == 1 and about(v.price.tao, 1))
call("all_subnets", lambda: s.all_subnets(), lambda v: NETUID in [x.netuid for x in v])
call("get_all_subnets_netuid", lambda: s.get_all_subnets_netuid(), lambda v: v == [1])
call("subnet_exists", lambda: s.subnet_exists(NETUID), lambda v: v is True)
call("subnetwork_n", lambda: s.subnetwork_n(NETUID), lambda v: v == 3)
call("get_total_subnets", lambda: s.get_total_subnets())
call("tempo", lambda: s.tempo(NETUID), lambda v: v == 20)
call("immunity_period", lambda: s.immunity_period(NETUID))
call("min_allowed_weights", lambda: s.min_allowed_weights(NETUID), lambda v: v == 1)
call("max_weight_limit", lambda: s.max_weight_limit(NETUID), lambda v: v == 1)
call("weights_rate_limit", lambda: s.weights_rate_limit(NETUID), lambda v: v == 1)
call("blocks_since_last_update", lambda: s.blocks_since_last_update(NETUID, 0))
call("blocks_until_next_epoch", lambda: s.blocks_until_next_epoch(NETUID))
call("get_next_epoch_start_block", lambda: s.get_next_epoch_start_block(NETUID))
call("commit_reveal_enabled", lambda: s.commit_reveal_enabled(NETUID), lambda v: v is False)
call("recycle", lambda: s.recycle(NETUID))
call("weights", lambda: s.weights(NETUID), lambda v: [u for u, _ in v] == [0])
call("weights of mechanism 1", lambda: s.weights(NETUID, mechid=1), lambda v: [(u, list(w)) for u, w in v] == [(0, [(1, 65535)])])
call("get_metagraph_info of mechanism 1", lambda: s.get_metagraph_info(NETUID, mechid=1), lambda v: v.num_uids == 3 and v.last_update[0] > 0)
call("bonds", lambda: s.bonds(NETUID), lambda v: v is not None)
call("get_existential_deposit", lambda: s.get_existential_deposit(), lambda v: v.rao == 500)
call("get_delegate_by_hotkey", lambda: s.get_delegate_by_hotkey(HOT), lambda v: v.hotkey_ss58 == HOT)
call("get_delegates", lambda: s.get_delegates(), lambda v: len(v) == 3)
call("get_metagraph_info", lambda: s.get_metagraph_info(NETUID), lambda v: v.num_uids == 3)
call("get_subnet_validator_permits", lambda: s.get_subnet_validator_permits(NETUID))
call("get_subnet_owner_hotkey", lambda: s.get_subnet_owner_hotkey(NETUID), lambda v: v == OWN)
call("get_timestamp", lambda: s.get_timestamp())
call("get_current_block", lambda: s.get_current_block(), lambda v: v > 0)
call("get_block_hash", lambda: s.get_block_hash(1), lambda v: v.startswith("0x"))
call("wait_for_block", lambda: s.wait_for_block(), lambda v: v is True)
call("is_fast_blocks", lambda: s.is_fast_blocks(), lambda v: v is True)
call("query_subtensor", lambda: s.query_subtensor("Tempo", params=[NETUID]))
call("get_stake_add_fee", lambda: s.get_stake_add_fee(bt.Balance.from_tao(1), NETUID, *([COLD, HOT] if OLD else [])))
call("get_transfer_fee", lambda: s.get_transfer_fee(val, COLD, bt.Balance.from_tao(1)))

# Another key acts for a coldkey: its stake, and not its money; at once, or announced before.
if not OLD:
    from bittensor.core.extrinsics.pallets import Balances, SubtensorModule

    REAL, ACTS = COLD, poor.coldkeypub.ss58_address
    more = lambda: SubtensorModule(s).add_stake(netuid=NETUID, hotkey=HOT, amount_staked=10**9)
    away = lambda: Balances(s).transfer_keep_alive(dest=ACTS, value=10**9)
    stake = lambda: s.get_stake(COLD, HOT, NETUID).tao
    call("add_proxy", lambda: s.add_proxy(val, ACTS, "Staking", 0), done)
    call("get_proxies_for_real_account", lambda: s.get_proxies_for_real_account(REAL), lambda v: [(p.delegate, p.proxy_type, p.delay) for p in v[0]] == [(ACTS, "Staking", 0)] and v[1].tao == 0.093)
    call("get_proxies", lambda: s.get_proxies(), lambda v: list(v) == [REAL])
    call("get_proxy_constants", lambda: s.get_proxy_constants(), lambda v: v.MaxProxies == 20 and int(v.ProxyDepositBase) == 60_000_000)
    before = stake()
    call("proxy", lambda: s.proxy(poor, REAL, "Staking", more()), done)
    call("stake after it", stake, lambda v: v > before)
    had = s.get_balance(ACTS).tao
    call("proxy of another kind of call", lambda: s.proxy(poor, REAL, None, away()) and s.get_balance(ACTS).tao, lambda v: v <= had)
    call("remove_proxy", lambda: s.remove_proxy(val, ACTS, "Staking", 0), done)
    call("proxy that is gone", lambda: s.proxy(poor, REAL, None, more()), lambda v: not done(v) and "proxy" in str(v).lower())
    call("add_proxy with a delay", lambda: s.add_proxy(val, ACTS, "Transfer", 2), done)
    late = away()
    call("announce_proxy", lambda: s.announce_proxy(poor, REAL, "0x" + late.call_hash.hex()), done)
    call("get_proxy_announcement", lambda: s.get_proxy_announcement(ACTS), lambda v: len(v) == 1 and v[0].real == REAL)
    s.wait_for_block(s.get_current_block() + 3)
    call("proxy_announced", lambda: s.proxy_announced(poor, ACTS, REAL, "Transfer", late), done)
    call("announcements after it", lambda: s.get_proxy_announcement(ACTS), lambda v: v == [])
    call("remove_proxies", lambda: s.remove_proxies(val), done)

# A commitment for round 1000 of drand, of which the ledger gets the signature: no
# network is needed. Only the round is not the SDK's choice.
import bittensor.core.subtensor as sdk
import bittensor_drand


# The SDK reads no shorter ones: where the bytes with their length are text it takes them for hex.
OPENED = "a commitment that round 1000 opens."


def at_1000(data, *_):
    envelope = bittensor_drand.encrypt_at_round(bytes([len(data) << 2]) + data.encode(), 1000)[0]
    return envelope[2:-8], 1000  # without its length and its round


def revealed():
    for _ in range(300):
        if v := s.get_revealed_commitment(NETUID, 2):
            return v
        time.sleep(0.1)


sdk.get_encrypted_commitment = at_1000
call("set_reveal_commitment for a round that is out", lambda: s.set_reveal_commitment(poor, NETUID, OPENED, blocks_until_reveal=1), done)
call("get_revealed_commitment of it", revealed, lambda v: len(v) == 1 and v[0][1] == OPENED)
call("get_revealed_commitment_by_hotkey", lambda: s.get_revealed_commitment_by_hotkey(NETUID, poor.hotkey.ss58_address), lambda v: [x for _, x in v] == [OPENED])
call("get_all_revealed_commitments of it", lambda: s.get_all_revealed_commitments(NETUID), lambda v: [x for _, x in v[poor.hotkey.ss58_address]] == [OPENED])
print(json.dumps(out))
