#!/usr/bin/env bash
# Turns the flywheel: base, SFT on the champion's plays, RFT on its own best ones, measured on held-out tasks; then
# the trained models enter arenas in which the rule-based sample sits (docs/training.md). Writes flywheel.json below .cache/flywheel; a second run goes on where the first stopped.
# AGON_DISTILL_PYTHON names an interpreter that has the trainers' packages; else they are installed (6 GB).
set -euo pipefail
cd "$(dirname "$0")/.."

out=${FLYWHEEL_DIR:-.cache/flywheel}
python=${AGON_DISTILL_PYTHON:-}
if [ -z "$python" ]; then
	maker=
	for p in "${PYTHON312:-}" python3.13 python3.12 python3.11 python3.10 python3; do
		if [ -n "$p" ] && "$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
			maker=$p
			break
		fi
	done
	[ -n "$maker" ] || { echo "flywheel: no Python 3.10 or newer with venv here (Debian: apt-get install python3-venv)" >&2; exit 1; }
	python=.cache/trainers/bin/python
	if [ ! -f .cache/trainers/whole ]; then
		echo "flywheel: installing torch and TRL into .cache/trainers (once, some 2 GB to fetch)" >&2
		rm -rf .cache/trainers
		"$maker" -m venv .cache/trainers
		# shellcheck disable=SC2046 # a list of requirements
		.cache/trainers/bin/pip install --quiet --disable-pip-version-check $(sed -n 's/^train = \[\(.*\)\]$/\1/p' client/sdk/pyproject.toml | tr -d '",')
		touch .cache/trainers/whole
	fi
fi
PYTHONPATH=$PWD/client/sdk OMP_WAIT_POLICY=PASSIVE TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 "$python" -m agon.wheel --agon bin/agon --out "$out" --champion kinds/shopping/data/samples/rules/agent.py "$@"
cp "$out/flywheel.json" flywheel.json
