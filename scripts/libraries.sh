#!/bin/sh
# Locks the lists of libraries for agents: pip resolves each NAME.in of
# kinds/*/libraries, and NAME.txt beside it gets every version with the hashes of its
# wheels for Linux on amd64 and arm64 and CPython 3.11 to 3.13, as the index has them.
#
#   scripts/libraries.sh [NAME…]     (default: all)
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(ls kinds/*/libraries/*.in | sed 's/.*\///; s/\.in$//')
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for name in "$@"; do
    at=$(ls kinds/*/libraries/"$name.in")
    at=${at%.in}
    [ -n "${REPORT:-}" ] && cp "$REPORT" "$tmp/$name.json" || PIP_FIND_LINKS= python3 -m pip install -q --dry-run --ignore-installed --target "$tmp/none" --only-binary=:all: \
        --implementation cp --python-version 3.11 --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        --platform manylinux_2_12_x86_64 --platform manylinux2010_x86_64 --platform manylinux_2_5_x86_64 --platform manylinux1_x86_64 \
        --report "$tmp/$name.json" -r "$at.in"
    python3 - "$name" "$tmp/$name.json" > "$tmp/$name.txt" <<'PY'
import json, os, re, sys, urllib.request

index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
usable = re.compile(r"-((py2\.)?py3|py3\.py2|cp3\d+)-none-any\.whl$|-(cp31[123]-cp31[123]|cp3\d+-abi3|py3-none|py2\.py3-none)-[^-]*manylinux[^-]*_(x86_64|aarch64)[^-]*\.whl$")
print("# Made by scripts/libraries.sh of", sys.argv[1] + ".in.")
for p in sorted(json.load(open(sys.argv[2]))["install"], key=lambda p: p["metadata"]["name"].lower()):
    m = p["metadata"]
    name = re.sub(r"[-_.]+", "-", m["name"]).lower()
    page = urllib.request.urlopen(f"{index}/{name}/").read().decode()
    hashes = {p["download_info"]["archive_info"]["hashes"]["sha256"]}
    for file, digest in re.findall(r'href="[^"#]*/([^"#/]+)#sha256=([0-9a-f]{64})"', page):
        stem = file.split("-")
        if len(stem) > 2 and re.sub(r"[-_.]+", "-", stem[0]).lower() == name and stem[1] == m["version"] and usable.search(file):
            hashes.add(digest)
    licence = m.get("license_expression") or next((c.rsplit(" :: ", 1)[1] for c in m.get("classifier", []) if c.startswith("License ::")), "") or (m.get("license") or "").split("\n")[0][:60]
    print("# licence:", licence or "not said")
    print(" \\\n    ".join([f"{name}=={m['version']}"] + ["--hash=sha256:" + h for h in sorted(hashes)]))
PY
    mv "$tmp/$name.txt" "$at.txt"
    echo "$at.txt: $(grep -c '==' "$at.txt") packages"
done
