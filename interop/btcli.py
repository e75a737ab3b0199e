"""btcli 9, unmodified, against the embedded ledger: btcli.py BTCLI URL.

Prints one line of JSON: by command "ok", or what came instead."""
import json
import os
import subprocess
import sys

from bittensor_wallet import Keypair, Wallet

btcli, url = sys.argv[1:]
home = os.environ["HOME"]
w = Wallet(name="val", hotkey="default", path=home + "/w")
w.set_coldkey(Keypair.create_from_uri("//Dave"), encrypt=False, overwrite=True)
w.set_coldkeypub(Keypair.create_from_uri("//Dave"), overwrite=True)
w.set_hotkey(Keypair.create_from_uri("//Dave//hot"), encrypt=False, overwrite=True)
out = {}


def run(command, want, *more):
    args = [btcli, *command.split(), "--network", url, *more]
    p = subprocess.run(args, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, env=os.environ | {"NO_COLOR": "1", "COLUMNS": "300"})
    text = p.stdout + p.stderr
    out[command] = "ok" if p.returncode == 0 and want in text and "❌" not in text else f"exit code {p.returncode}: {text[-400:]}"


wallet = ["--wallet-name", "val", "--wallet-path", home + "/w", "--hotkey", "default"]
run("wallet balance", "1,000.0000", *wallet)
run("subnets list", "subnet 1")
run("subnets hyperparameters --netuid 1", "20")
run("subnets register --netuid 1", "Registered on netuid 1 with UID 1", *wallet, "--no-prompt")
run("stake add --amount 5 --netuid 1", "995.0000", *wallet, "--no-prompt", "--unsafe", "--no-mev-protection")
run("stake list", "5.00", *wallet, "--no-prompt")
run("stake remove --amount 2 --netuid 1", "✅ Finalized", *wallet, "--no-prompt", "--unsafe", "--no-mev-protection")
run("wallet transfer --amount 1 --dest " + Keypair.create_from_uri("//Eve").ss58_address, "✅ Finalized", *wallet, "--no-prompt")
run("subnets metagraph --netuid 1", "5FCStDPtR7pFdABNaG7fy6W37V9Qtp3gAw4C41QRqy6Y2GeF")
print(json.dumps(out))
