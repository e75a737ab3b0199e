"""The part of ujson that agents use, over the standard library."""

import json

JSONDecodeError = json.JSONDecodeError
loads = json.loads
load = json.load
decode = json.loads


def dumps(obj, ensure_ascii=True, escape_forward_slashes=True, indent=0, sort_keys=False, default=None, **_):
    text = json.dumps(
        obj, ensure_ascii=ensure_ascii, sort_keys=sort_keys, default=default,
        indent=indent or None, separators=None if indent else (",", ":"),
    )
    return text.replace("/", "\\/") if escape_forward_slashes else text


encode = dumps


def dump(obj, fp, **kwargs):
    fp.write(dumps(obj, **kwargs))
