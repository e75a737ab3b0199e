"""The other side of the interop tests: real Python packages, asked over JSON lines.

One request {"op": ..., ...} a line on stdin, one answer a line on stdout. The
packages that this interpreter does not have make their operations answer
{"error": ...}; the tests say so aloud.
"""

import hashlib
import json
import os
import random
import sys


def wallet_package():
    import bittensor_wallet

    return bittensor_wallet


def keypair(a):
    kp = wallet_package().Keypair
    extra = {"crypto_type": a["crypto_type"]} if "crypto_type" in a else {}
    if "uri" in a:
        return kp.create_from_uri(a["uri"], **extra)
    if "mnemonic" in a:
        return kp.create_from_mnemonic(a["mnemonic"], **extra)
    return kp.create_from_seed(a["seed"], **extra)


def public_hex(k):
    return bytes(k.public_key).hex()


def op_version(a):
    from importlib.metadata import version

    return {"version": version(a["package"])}


def op_address(a):
    k = keypair(a)
    return {"ss58": k.ss58_address, "public": public_hex(k)}


def op_new_mnemonic(a):
    m = wallet_package().Keypair.generate_mnemonic(a["words"])
    return {"mnemonic": m, "ss58": keypair({"mnemonic": m}).ss58_address}


def op_sign(a):
    return {"signature": bytes(keypair(a).sign(bytes.fromhex(a["message"]))).hex()}


def op_verify(a):
    k = wallet_package().Keypair(ss58_address=a["ss58"])
    return {"ok": bool(k.verify(bytes.fromhex(a["message"]), bytes.fromhex(a["signature"])))}


def wallet(a):
    return wallet_package().Wallet(name=a["name"], hotkey=a["hotkey"], path=a["path"])


def op_create_wallet(a):
    """A hotkey and a coldkeypub.txt as the package writes them."""
    w = wallet(a)
    if a.get("uri"):
        w.create_hotkey_from_uri(a["uri"], use_password=False, overwrite=True, suppress=True)
    else:
        w.create_new_hotkey(use_password=False, overwrite=True, suppress=True)
    w.set_coldkeypub(keypair({"uri": a["coldkey"]}), overwrite=True)
    return {"hotkey": w.hotkey.ss58_address, "coldkey": w.coldkeypub.ss58_address}


def op_load_wallet(a):
    w = wallet(a)
    out = {"hotkey": w.hotkey.ss58_address, "coldkey": w.coldkeypub.ss58_address}
    out["signature"] = bytes(w.hotkey.sign(bytes.fromhex(a["message"]))).hex()
    try:
        out["hotkeypub"] = w.hotkeypub.ss58_address
    except Exception:
        pass  # older packages have no such file
    return out


def env_name(f):
    return f.env_var_name() if callable(f.env_var_name) else f.env_var_name


def op_encrypt(a):
    """A coldkey file encrypted by the package, and the variable that holds its password."""
    f = wallet_package().Keyfile(path=a["path"], name="coldkey")
    f.set_keypair(keypair(a), encrypt=True, overwrite=True, password=a["password"])
    name = env_name(f)
    f.save_password_to_env(a["password"])
    # The package sets the variable in C, where os.environ does not look.
    import ctypes

    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    value = getenv(name.encode())
    return {"variable": name, "value": value.decode() if value else ""}


def op_decrypt(a):
    f = wallet_package().Keyfile(path=a["path"], name="coldkey")
    return {"ss58": f.get_keypair(password=a["password"]).ss58_address}


def op_decrypt_with_env(a):
    """Opens the file by the variable that the other side made."""
    f = wallet_package().Keyfile(path=a["path"], name="coldkey")
    os.environ[env_name(f)] = a["value"]
    return {"variable": env_name(f), "ss58": f.get_keypair(password=None).ss58_address}


def op_vault(a):
    from ansible_vault import Vault

    raw = Vault(a["password"]).dump_raw(a["text"].encode())
    return {"file": raw.decode() if isinstance(raw, bytes) else raw}


def op_fernet(a):
    import base64

    from cryptography.fernet import Fernet
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

    kdf = PBKDF2HMAC(
        algorithm=hashes.SHA256(),
        length=32,
        salt=b"Iguesscyborgslikemyselfhaveatendencytobeparanoidaboutourorigins",
        iterations=10000000,
    )
    key = base64.urlsafe_b64encode(kdf.derive(a["password"].encode()))
    return {"file": Fernet(key).encrypt(a["text"].encode()).decode()}


def op_export(a):
    from substrateinterface import Keypair

    k = Keypair.create_from_uri(a["uri"])
    return {"file": json.dumps(k.export_to_encrypted_json(a["password"], "x")), "ss58": k.ss58_address}


def op_substrate(a):
    from substrateinterface import Keypair, KeypairType

    kind = KeypairType.ED25519 if a.get("crypto_type") == 0 else KeypairType.SR25519
    k = Keypair.create_from_mnemonic(a["mnemonic"], crypto_type=kind)
    other = Keypair(ss58_address=a["ss58"], crypto_type=kind)
    return {
        "ss58": k.ss58_address,
        "signature": k.sign(bytes.fromhex(a["message"])).hex(),
        "ok": bool(other.verify(bytes.fromhex(a["message"]), bytes.fromhex(a["signature"]))),
    }


def op_sr25519(a):
    import sr25519

    msg, pub = bytes.fromhex(a["message"]), bytes.fromhex(a["public"])
    mine = sr25519.pair_from_seed(bytes.fromhex(a["seed"]))
    return {
        "public": mine[0].hex(),
        "signature": sr25519.sign(mine, msg).hex(),
        "ok": bool(sr25519.verify(bytes.fromhex(a["signature"]), msg, pub)),
    }


def random_document(r, depth=0):
    kind = r.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return r.choice([None, True, False])
    if kind == 1:
        return r.randrange(-(10 ** r.randrange(1, 25)), 10 ** r.randrange(1, 25))
    if kind in (2, 3):
        return r.choice([r.uniform(-1, 1) * 10 ** r.randrange(-20, 25), float(r.randrange(1000)), -0.0, 1e16, 1e-7])
    if kind in (4, 5):
        return random_text(r)
    if kind == 6:
        return [random_document(r, depth + 1) for _ in range(r.randrange(4))]
    return {random_text(r): random_document(r, depth + 1) for _ in range(r.randrange(6))}


def random_text(r):
    ranges = [(0, 0x20), (0x20, 0x7F), (0x20, 0x7F), (0x7F, 0x100), (0x100, 0x800), (0x2000, 0x2100), (0xD800, 0xE000), (0xE000, 0x10000), (0x10000, 0x10FFFF)]
    return "".join(chr(r.randrange(*r.choice(ranges))) for _ in range(r.randrange(6)))


def op_documents(a):
    """Random documents as clients send them, and the hash that they sign."""
    r = random.Random(a["seed"])
    out = []
    for _ in range(a["count"]):
        doc = random_document(r)
        wire = json.dumps(doc)
        # Read again, as the server does: two halves of a pair, side by side, become one character.
        canonical = json.dumps(json.loads(wire), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        out.append([wire, hashlib.sha256(canonical.encode()).hexdigest()])
    return {"documents": out}


def op_texts(a):
    """What Python reads and prints: canonical form of any JSON text, str() of its value."""
    out = []
    for text in a["texts"]:
        v = json.loads(text)
        out.append([json.dumps(v, sort_keys=True, separators=(",", ":"), ensure_ascii=True), str(v)])
    return {"texts": out}


def op_oro_headers(a):
    from bittensor_auth.client import generate_auth_headers

    return {"headers": generate_auth_headers(keypair(a))}


def oro_app(a):
    from bittensor_auth import BittensorAuthConfig
    from bittensor_auth.cache import InMemoryCache
    from bittensor_auth.fastapi import BittensorAuth, build_auth_router
    from bittensor_auth.session import SessionStore
    from fastapi import Depends, FastAPI

    class Members:
        def is_hotkey_registered(self, hotkey):
            return hotkey in a["members"]

        def has_validator_permit(self, hotkey):
            return hotkey in a["validators"]

    cache = InMemoryCache()
    store = SessionStore(cache)

    def role(hotkey):
        return None if hotkey not in a["members"] else "validator" if hotkey in a["validators"] else "miner"

    auth = BittensorAuth(
        config=BittensorAuthConfig(nonce_ttl_seconds=120) if "nonce_ttl_seconds" in BittensorAuthConfig.__dataclass_fields__ else BittensorAuthConfig(),
        cache=cache, metagraph=Members(), role_resolver=role, session_store=store,
        ban_checker=lambda hotkey, _role: hotkey in a["banned"],
    )
    app = FastAPI()
    app.include_router(build_auth_router(session_store=store, role_resolver=role, ban_checker=lambda h, _r: h in a["banned"]), prefix="/auth")

    @app.post("/registered")
    async def registered(user=Depends(auth.require_registered)):
        return {"hotkey": user.hotkey}

    @app.post("/validator")
    async def validator(user=Depends(auth.require_validator)):
        return {"hotkey": user.hotkey}

    @app.get("/session")
    async def session(user=Depends(auth.require_auth)):
        return {"hotkey": user.hotkey, "role": user.role}

    return app


CLIENT = None


def op_oro_app(a):
    global CLIENT
    from fastapi.testclient import TestClient

    CLIENT = TestClient(oro_app(a))
    return {}


def op_oro_call(a):
    r = CLIENT.request(a["method"], a["path"], headers=a["headers"], content=a["body"].encode())
    return {"status": r.status_code, "body": r.text}


def op_dendrite(a):
    """A call of the SDK's own client to an address of ours."""
    import asyncio

    import bittensor
    import bittensor.core.dendrite

    # The client asks the internet for its own address first; its calls here stay on this machine.
    bittensor.core.dendrite.networking.get_external_ip = lambda: "127.0.0.1"

    class Dummy(bittensor.Synapse):
        text: str = ""
        number: int = 0
        required_hash_fields: tuple = ("text", "number")

    class Bare(bittensor.Synapse):
        text: str = ""

    synapse = Dummy(text=a["text"], number=a["number"]) if a["covered"] else Bare(text=a["text"])
    k = keypair(a)
    axon = bittensor.AxonInfo(version=10, ip="127.0.0.1", port=a["port"], ip_type=4, hotkey=a["receiver"], coldkey=a["receiver"])

    async def call():
        d = bittensor.Dendrite(wallet=k)
        try:
            return await d.call(axon, synapse, timeout=10.0, deserialize=False)
        finally:
            await d.aclose_session()

    answer = asyncio.run(call())
    return {"status": answer.dendrite.status_code, "message": str(answer.dendrite.status_message)}


def op_axon_verify(a):
    """The check of the SDK's own server, over headers of ours."""
    import asyncio

    import bittensor

    k = keypair(a)

    class W:
        hotkey = k
        coldkeypub = k

    axon = bittensor.Axon(wallet=W(), port=a["port"], ip="127.0.0.1", external_ip="127.0.0.1", external_port=a["port"])
    synapse = bittensor.Synapse.from_headers(a["headers"])
    try:
        asyncio.run(axon.default_verify(synapse))
    except Exception as e:  # the check says no by any exception
        return {"ok": False, "why": str(e)}
    return {"ok": True}


def op_atif(a):
    """Harbor's own validator of trajectory files."""
    from harbor.utils.trajectory_validator import TrajectoryValidator

    v = TrajectoryValidator()
    ok = v.validate(json.loads(a["document"]))  # a text would be taken for a path
    return {"ok": ok, "errors": [str(e)[:500] for e in v.errors][:5]}


def main():
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # packages print; answers are ours alone
    for line in sys.stdin:
        a = json.loads(line)
        try:
            answer = globals()["op_" + a["op"]](a)
        except BaseException as e:  # the Rust packages panic with what is not an Exception
            answer = {"error": f"{type(e).__name__}: {e}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


main()
