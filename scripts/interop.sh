#!/usr/bin/env bash
# Installs the real Python wallet and signing packages from the package index
# into virtual environments below .cache/interop, then lets them and agon
# exchange keyfiles, signatures and signed requests, both ways; and lets Harbor's
# own validator read the trajectories that agon writes; and lets ORO's own SDK
# work as miner, validator and reader; and holds the ranking of products against
# Lucene's; and loads every export of a corpus with the
# trainers' own libraries; and lets TrajectoryRL's observer CLI, of all three generations,
# read a filled arena with every command, the newest one against agon serve too; and plays a season of
# policy packs without a platform, with killed, forging and copying validators; and lets the SDKs of OpenAI, Anthropic and
# Google stream through a door of the gateway; and lets Harbor's command line, Inspect and
# verifiers work in agon's boxes; and lets mini-swe-agent, claude-code and codex, set up from
# PyPI and npm in a box, play a Harbor task over a scripted model.
# What cannot be installed is named and fails; INTEROP_PARTIAL=1 runs what can be.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'interop: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

python=${PYTHON:-python3}
command -v "$python" >/dev/null || die "no $python here: install Python 3.9 or newer with venv"
# What takes an hour to compile comes compiled, or a version that does.
export PIP_ONLY_BINARY=numpy,pandas
dir=.cache/interop
mkdir -p "$dir"
absent=()

# env NAME PACKAGE==VERSION...: one environment; a package that does not install is noted.
env() {
	local name=$1 package
	shift
	if [ ! -x "$dir/$name/bin/python" ]; then
		say "making environment $name"
		"$python" -m venv "$dir/$name" || die "python cannot make a virtual environment (Debian: apt-get install python3-venv)"
	fi
	for package in "$@"; do
		if "$dir/$name/bin/python" -c 'import sys; from importlib.metadata import version; n, v = sys.argv[1].split("=="); sys.exit(version(n) != v)' "$package" 2>/dev/null; then
			continue
		fi
		say "$name: installing $package"
		if ! "$dir/$name/bin/pip" install --quiet --disable-pip-version-check "$package" >"$dir/pip.log" 2>&1; then
			absent+=("$name/$package")
			say "NOT INSTALLED: $package ($(tail -n 1 "$dir/pip.log"))"
		fi
	done
}

env wallet bittensor-wallet==4.1.1 bittensor-auth==0.1.1 fastapi==0.121.3 httpx==0.28.1 substrate-interface==1.8.1 py-sr25519-bindings==0.2.4 \
	ansible-vault==4.1.0 ansible-core==2.19.14 cryptography==46.0.3
env wallet3 bittensor-wallet==3.1.0
env wallet2 bittensor-wallet==2.1.3
env sdk bittensor==10.5.0
env sdk101 async-substrate-interface==1.6.4 bittensor==10.1.0
# Version 9.12 asks for any async-substrate-interface; from 2 on that brings a codec that refuses to stand beside its own.
env sdk9 async-substrate-interface==1.5.8 bittensor==9.12.2
env sdk11 bittensor==11.3.0
env btcli bittensor-cli==9.23.2
env oro oro-sdk==1.0.50 bittensor-wallet==4.1.1
env oro7 oro-sdk==7.0.2 bittensor-wallet==4.1.1

# Pyserini's package holds Anserini, and that Lucene: the engine of ORO's search server. Only the jar is taken.
if command -v javac >/dev/null; then
	mkdir -p "$dir/lucene"
	if [ ! -f "$dir/lucene/anserini-0.22.1-fatjar.jar" ]; then
		say "lucene: getting pyserini==0.22.1"
		if "$dir/wallet/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$dir/lucene" pyserini==0.22.1 >"$dir/pip.log" 2>&1; then
			(cd "$dir/lucene" && "$python" -c 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); n = [x for x in z.namelist() if x.endswith(".jar")][0]; open("jar", "wb").write(z.read(n))' pyserini-0.22.1-*.whl && mv jar anserini-0.22.1-fatjar.jar && rm -f ./*.whl)
		else
			absent+=("lucene/pyserini==0.22.1")
		fi
	fi
else
	absent+=("lucene (no javac: Debian: apt-get install default-jdk-headless)")
fi

# What trainers load exports of a corpus with. torch is large (3 GB): AGON_INTEROP_TORCH=0
# leaves training out, which needs INTEROP_PARTIAL=1 too.
env trainer datasets==5.2.0 pyarrow==26.0.1 pyyaml==6.0.3 jinja2==3.1.6 openai==3.52.0 pydantic==2.14.3
if [ "${AGON_INTEROP_TORCH:-1}" = 0 ]; then
	absent+=("trainer/torch and trl: left out by AGON_INTEROP_TORCH=0")
else
	env trainer torch==2.15.0 transformers==5.23.0 trl==1.16.0 peft==0.21.2 accelerate==1.15.0
fi

# The SDKs of the providers whose forms the gateway speaks.
env sdks anthropic==2.12.0 google-genai==3.4.0 openai==3.54.0

# Harbor's validator of trajectories needs a few of its modules and pydantic only, not what its agents need.
env harbor pydantic==2.14.3
bare='--no-deps --ignore-requires-python'
if ! "$dir/harbor/bin/python" -c 'import harbor.utils.trajectory_validator' 2>/dev/null; then
	say "harbor: installing harbor==0.25.0 alone"
	# shellcheck disable=SC2086 # two flags
	"$dir/harbor/bin/pip" install --quiet --disable-pip-version-check $bare harbor==0.25.0 >"$dir/pip.log" 2>&1 || absent+=("harbor/harbor==0.25.0")
fi

# OpenZeppelin's library of Merkle trees, and what the nine manual steps of a research miner use.
for tool in jq curl git; do command -v $tool >/dev/null || die "no $tool here: the steps of a research miner need it"; done
if command -v npm >/dev/null; then
	mkdir -p "$dir/node"
	npm install --prefix "$dir/node" --no-audit --no-fund --silent @openzeppelin/merkle-tree@1.0.8 >"$dir/npm.log" 2>&1 || absent+=("@openzeppelin/merkle-tree@1.0.8")
	npm install --prefix "$dir/node" --no-audit --no-fund --silent @polkadot/api@16.5.6 >>"$dir/npm.log" 2>&1 || absent+=("@polkadot/api@16.5.6")
else
	absent+=("@openzeppelin/merkle-tree@1.0.8, @polkadot/api@16.5.6 (no npm)")
fi

# Harbor's command line, Inspect and verifiers, which work in agon's boxes, and Ridges'
# programs want a newer Python: PYTHON312 names one, or one is found, or installed.
newest() {
	local p
	for p in "${PYTHON312:-}" python3.13 python3.12 "$HOME"/.pyenv/versions/3.1[23].*/bin/python "$python" /usr/bin/python3; do
		if [ -n "$p" ] && "$p" -c 'import sys, venv; sys.exit(not (3, 12) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
			printf '%s' "$p"
			return
		fi
	done
}
newer=$(newest)
if [ -z "$newer" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	for p in python3.13 python3.12; do
		say "installing $p"
		if apt-get install -y -qq "$p" "$p-venv" >"$dir/apt.log" 2>&1; then
			break
		fi
	done
	newer=$(newest)
fi
usual=$python
if [ -z "$newer" ]; then
	absent+=("harborcli, evals, trainers, skyrl, nemo, verl, ridges (no Python 3.12 or 3.13: PYTHON312=PATH names one)")
else
	python=$newer
	env harborcli harbor==0.25.0
	env evals inspect-ai==0.3.285 verifiers==0.4.0
	env trainers openenv==0.10.0 openreward==0.1.167
	env skyrl skyrl-gym==0.4.0
	env nemo nemo-gym==0.4.0
	# verl brings a torch of its own, and takes Python before 3.13.
	if [ "${AGON_INTEROP_TORCH:-1}" = 0 ] || ! "$newer" -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then
		absent+=("verl (torch is left out, or there is no Python 3.12)")
	else
		env verl verl==0.9.1 skyrl-gym==0.4.0 cachetools==8.0.2 fastapi==0.165.0 uvicorn==0.54.0
		# SkyRL's generator, without what its trainer needs of a GPU.
		if ! "$dir/verl/bin/python" -c 'import skyrl.train.generators.skyrl_gym_generator' 2>/dev/null; then
			say "verl: installing skyrl==0.4.0 alone"
			{ "$dir/verl/bin/pip" install --quiet --disable-pip-version-check loguru func_timeout jaxtyping cloudpathlib typer zstandard pybase64 orjson torchdata &&
				"$dir/verl/bin/pip" install --quiet --disable-pip-version-check --no-deps skyrl==0.4.0; } >"$dir/pip.log" 2>&1 || absent+=("verl/skyrl==0.4.0")
		fi
	fi
	python=$usual
fi

# Ridges' command line, screeners and validators run from a checkout of their repository
# (AGON_STRANGERS=DIR, DIR/ridges), ORO's validator and reference agent from DIR/oro (commit a6b1cf3);
# Ridges' example agents of older eras may stand in DIR/ridges-eras;
# TrajectoryRL's miner and its validator's client from DIR/trajectoryrl, in the environment of Ridges;
# Harnyx's reference agents, sandbox servers and SDKs of both eras from DIR/caster
# (commit b065fa9) and DIR/harnyx (b317328), its validators of both, and the newest submit and config commands; published Harbor tasks stand in DIR/harbor-cookbook,
# DIR/harbor-tasks and DIR/harbor-workshop,
# ClawBench's server of mock tools and its test in DIR/clawbench, the stateful services of TrajectoryRL's first season in DIR/trajectory-sandbox.
if [ -n "${AGON_STRANGERS:-}" ]; then
	AGON_STRANGERS=$(cd "$AGON_STRANGERS" && pwd)
	export AGON_STRANGERS
	# Harnyx's sandbox servers and SDKs of both eras, from the checkouts, want Python 3.11.
	python=$(for p in "${PYTHON311:-}" python3.11 "$HOME"/.pyenv/versions/3.11.*/bin/python "$usual"; do if [ -n "$p" ] && "$p" -c 'import venv' 2>/dev/null; then printf '%s' "$p" && break; fi; done)
	env harnyx fastapi==0.133.1 uvicorn==0.40.0 httpx==0.28.1 pydantic==2.12.5 pyseccomp==0.1.2 jsonschema==4.26.0
	env castervalidator async-substrate-interface==1.5.8 bittensor==9.9.0 pyseccomp==0.1.2 pydantic-settings==2.12.0 jinja2==3.1.6 langfuse==3.14.1 google-cloud-logging==3.13.0 google-genai==1.52.0 \
		anthropic==0.75.0 opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
	env harnyxvalidator bittensor==10.4.1 fastapi==0.133.1 uvicorn==0.40.0 httpx==0.28.1 pydantic==2.12.5 pyseccomp==0.1.2 jsonschema==4.26.0 pydantic-settings==2.12.0 aiobotocore==3.4.0 \
		sentry-sdk==2.64.0 jinja2==3.1.6 langfuse==3.14.1 google-cloud-logging==3.13.0 google-genai==1.52.0 anthropic==0.75.0 claude-agent-sdk==0.2.128 pymupdf==1.26.7 beautifulsoup4==4.14.3 \
		openpyxl==3.1.5 regex==2026.11.19 opentelemetry-exporter-prometheus==0.66b2
	python=$usual
	env clawbench fastapi==0.165.0 uvicorn==0.54.0 httpx==0.28.1
	if [ -n "$newer" ]; then
		python=$newer
		env orovalidator async-substrate-interface==1.6.4 bittensor==10.1.0 oro-sdk==1.0.50 prometheus-client==0.26.0 psutil==7.2.2 requests==2.32.5 ujson==5.12.0
		env ridges bittensor==10.5.0 harbor==0.3.0 asgi-correlation-id==5.0.1 InquirerPy==0.3.4 rich-click==1.9.9 tomli-w==1.2.0 aioboto3==15.5.0 async-substrate-interface==2.2.1 cryptography==46.0.0 \
			docker==7.2.0 fastapi==0.165.0 httpx==0.28.1 psutil==7.2.2 python-dotenv==1.2.4 sentry-sdk==2.75.0 sqlalchemy==2.1.9 alembic==1.20.1 asyncpg==0.32.0
		python=$usual
	fi
fi

# Images that others save.
if ! { command -v buildah && command -v skopeo; } >/dev/null; then
	say "installing buildah and skopeo"
	apt-get install -y -qq --no-install-recommends buildah skopeo >"$dir/apt.log" 2>&1 || absent+=("buildah and skopeo (Debian: apt-get install buildah skopeo)")
fi

# The observer CLI runs on a terminal of its own too, for which it needs script(1).
env trajrl-seed trajrl==0.2.1
env trajrl-newer trajrl==2.2.0
env trajrl-newest trajrl==3.0.0
command -v script >/dev/null || die "no script here: install it (Debian: apt-get install bsdutils)"

if [ ${#absent[@]} -gt 0 ] && [ "${INTEROP_PARTIAL:-}" != 1 ]; then
	die "the index did not give these: ${absent[*]} (INTEROP_PARTIAL=1 runs the rest)"
fi

status=0
AGON_INTEROP=$PWD/$dir go test -tags interop -count 1 -timeout 45m -v ./interop/... ./kinds/... "$@" || status=$?
if [ ${#absent[@]} -gt 0 ]; then
	say "NOT PROVED, because the index did not give them: ${absent[*]}"
fi
if [ -z "${AGON_STRANGERS:-}" ]; then
	say "NOT PROVED: clients that live in repositories only (oro, ridges, trajectoryrl); AGON_STRANGERS=DIR names a folder with their checkouts"
fi
exit $status
