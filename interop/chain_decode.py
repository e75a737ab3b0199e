# substrate-interface reads the metadata of a real runtime as agon writes it, and
# decodes what agon encodes: a hex call per line in, a JSON object per line out.
import json
import sys

from scalecodec.base import ScaleBytes
from substrateinterface import SubstrateInterface

s = SubstrateInterface(url=sys.argv[1])
s.init_runtime()


def plain(v):
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items() if k not in ("type", "call_hash", "call_index")}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    return v


for line in sys.stdin:
    call = s.runtime_config.create_scale_object("Call", data=ScaleBytes("0x" + line.strip()), metadata=s.metadata)
    print(json.dumps(plain(call.decode())))
