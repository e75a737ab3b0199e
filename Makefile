# Two commands matter: `make up` (sets up what is missing, then runs a whole
# arena) and `make test` (sets up what is missing, then runs the tests).

GO ?= $(shell command -v go 2>/dev/null || true)
ifneq ($(wildcard .cache/go/bin/go),)
GO := $(CURDIR)/.cache/go/bin/go
export PATH := $(CURDIR)/.cache/go/bin:$(PATH)
export GOTOOLCHAIN := local
endif
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.commit=$(COMMIT)
ARGS ?=

.PHONY: pgversions grand kube scale fuzz peers image records serverfaults race chainkills cgroup2 flywheel prose mutants figures runners postgres s3 chart release copies help setup build install up test faults bench interop browser pictures walk kind lint fmt docs clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: ## install what is missing, build, prepare boxes and tasks
	@./scripts/setup.sh

build: ## build bin/agon
	@mkdir -p bin
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/agon ./cmd/agon

PREFIX ?= /usr/local
DESTDIR ?=
install: build ## agon, its manual pages and completions below PREFIX=/usr/local
	@install -D -m 755 bin/agon "$(DESTDIR)$(PREFIX)/bin/agon"
	@./bin/agon man "$(DESTDIR)$(PREFIX)/share/man/man1"
	@for s in bash/bash-completion/completions/agon zsh/zsh/site-functions/_agon fish/fish/vendor_completions.d/agon.fish; do \
		f="$(DESTDIR)$(PREFIX)/share/$${s#*/}" && mkdir -p "$$(dirname "$$f")" && ./bin/agon completion "$${s%%/*}" >"$$f" || exit 1; done

up: setup ## play the demo arena until Ctrl-C (ONCE=1: end when all is decided)
	@./bin/agon up $(if $(ONCE),--once,) $(ARGS)

test: setup ## all tests, with the race detector where it does not take minutes
	@./scripts/test.sh

race: setup ## all tests with the race detector (slow: ten minutes more)
	@AGON_RACE=all ./scripts/test.sh

ROUNDS ?= 200
faults: ## kill gateway, platform and validator at random moments, ROUNDS=200 times each (the validator at most 90), and check every invariant
	@AGON_FAULT_ROUNDS=$(ROUNDS) $(GO) test -count=1 -timeout 120m -v -run 'TestKillGateway|TestKillNine|TestClaimValidatorKilled' ./gateway ./engine/platform ./cmd/agon/roles | grep -E '^(---|ok|FAIL|    )'

records: ## replay all samples of the research tasks, and play each record against the one before it (slow)
	@AGON_TEST_SUITE=1 $(GO) test -count=1 -timeout 120m -v -run 'TestSamples' ./kinds/research/play | grep -E '^(---|ok|FAIL|    )'

serverfaults: ## two servers over one PostgreSQL and one bucket, ROUNDS=200 faults: servers killed and cut off, the database and the S3 server killed, disks full; answers against the books (root, iproute2)
	@ROUNDS=$(ROUNDS) ./scripts/serverfaults.sh

RUNS ?= 1000
FAULTS ?= 20
grand: build ## three servers, two gateways, six validators: RUNS=1000 runs, FAULTS=20 faults, all upgraded from the commit OLD while they play; books to the micro-dollar (root, iproute2; the history is .cache/grand/history.jsonl)
	@RUNS=$(RUNS) FAULTS=$(FAULTS) OLD=$(OLD) ./scripts/grand.sh

CHAINKILLS ?= 200
chainkills: ## kill a keeper of weights and a validator CHAINKILLS=200 times each, at nodes whose finality lags by 0 to 20 blocks (AGON_KEEPER_SEED repeats a run)
	@AGON_KEEPER_KILLS=$(CHAINKILLS) $(GO) test -count=1 -timeout 120m -v -run 'TestKilledProcess|TestValidatorKilledOnChain' ./ledger/keeper ./cmd/agon/roles | grep -E '^(---|ok|FAIL|    )'

bench: build ## benchmarks beside their bars and a baseline (about 10 minutes; BENCH='-o json' or parts of rows' names)
	@$(GO) run ./bench $(BENCH)

FLYWHEEL ?=
flywheel: build ## base, SFT, RFT: a small model learns to shop from plays and is measured in pairs (slow; FLYWHEEL="--seeds 1")
	@./scripts/flywheel.sh $(FLYWHEEL)

postgres: build ## the tests of the platform and all wires on a real PostgreSQL, then a whole arena (slow)
	@./scripts/postgres.sh

pgversions: ## the store's suite, and two servers, on PostgreSQL 16, 17 and 18 (VERSIONS="17"; npm has their programs; slow)
	@./scripts/pgversions.sh

s3: ## the tests of blobs in a bucket on two real S3 servers, which are built here (slow the first time; SEAWEEDFS=0: versitygw alone)
	@./scripts/s3.sh

TESTS ?= TestConformance
cgroup2: ## the suite of each box driver under cgroup v2, on Debian's kernel in an emulated machine (slow; CGROUP2_DRIVERS=runc TESTS=TestAttacks)
	@./scripts/cgroup2.sh '$(TESTS)'

chart: ## deploy/chart for the API versions of Kubernetes 1.30 to 1.34, by a helm that is built here (slow the first time)
	@./scripts/chart.sh

kube: build ## a real Kubernetes of one node, built here: installs the chart, plays in pods, scales validators 1 to 3 to 0, rolls the servers (root, Debian's etcd-server, containerd, containernetworking-plugins; slow, the first time very)
	@./scripts/kube.sh

scale: build ## claims beside FINISHED=10000000 ended runs in SQLite and PostgreSQL, agon gc of BLOBS=1000000 blobs (hours; 60 GB of disk)
	@./scripts/scale.sh

image: ## dist/agon-image.tar: an OCI image without Docker, that runs as uid 1000 (root; slow the first time; CHECK=1 runs it)
	@./scripts/image.sh

release: ## dist/: archives, Debian packages, SBOMs, check sums for linux amd64 and arm64, each built twice (slow; AGON_VULNDB, AGON_RELEASE_KEY)
	@./scripts/release.sh

interop: build ## real clients from the package indexes against agon (slow, needs the indexes)
	@./scripts/interop.sh

browser: build ## every page in a real Chromium with axe, over the demo arenas (slow)
	@GO="$(GO)" ./scripts/browser.sh

pictures: build ## take README's pictures of the demo arenas again, into docs/pictures
	@mkdir -p docs/pictures
	@GO="$(GO)" AGON_BROWSER_PICTURES="$(CURDIR)/docs/pictures" ./scripts/browser.sh

walk: ## the first ten minutes of docs/first.md, each command as it stands there, in a clean clone (slow)
	@./scripts/walk.sh

kind: ## a sixth kind, as docs/kinds.md says, in a clean clone and in a module elsewhere (slow, plays in boxes)
	@GO="$(GO)" ./scripts/kind.sh

runners: ## tasks of pytest, Go and node with their twins, and who forges them, in real boxes (slow, fetches toolchains)
	@AGON_SLOW_TESTS=1 $(GO) test -count=1 -timeout 60m -v -run 'TestEnsure|TestRunners|TestScriptRunner' ./kinds/coding/toolchain ./kinds/coding/play | grep -E '^ *(---|ok|FAIL)'

MUTANTS ?=
SHORT ?=
mutants: ## change one line of a rule at a time; the tests of its package must fail (slow; SHORT=1 as in lint; MUTANTS="-only engine/score -seed 7")
	@$(GO) run ./bench/mutants $(if $(SHORT),-short,) $(MUTANTS)

prose: ## phrases and sentences that have to be read twice, in comments, errors, help and docs
	@$(GO) run ./bench/prose

SOAK ?= 10m
CHAINKILLS ?= 200
DRIVER ?=
copies: build ## rewrites of a sampling agent try to take its seat, in real boxes (slow; KINDS, ENTRIES, PAIRS)
	scripts/copies.sh

fuzz: ## each of the fuzz targets for FUZZTIME (10s): half an hour, slow (TARGETS="gateway FuzzPatch" takes some; make test runs their seeds)
	@scripts/fuzz.sh $(TARGETS)

peers: build ## beside programs of others, in one run: River's jobs on PostgreSQL, bifrost and LiteLLM (slow the first time; PEERS=leases, gateway or boxes)
	@scripts/peers.sh

figures: ## simulations through the real platform in full: liars named, copies of a sampling agent (slow)
	@AGON_BENCH_COPIES=2000 $(GO) test -count=1 -timeout 60m -v -run 'TestLiar|TestPairedCopies|TestSimulated|TestLies|TestCopiesAndPower' ./engine/incentive ./engine/platform | grep -E '^(---|ok|FAIL|    )'

soak: build ## 50 boxes at once for SOAK (10m), then strangers at the door as long: nothing may grow or stay
	@$(GO) run ./sandbox/sandboxtest/soak -driver "$(DRIVER)" -boxes 50 -for $(SOAK)
	@$(GO) run ./bench/flood -for $(SOAK)

kills: ## kill a process that plays boxes KILLS (200) times: nothing may stay
	@$(GO) run ./sandbox/sandboxtest/soak -driver "$(DRIVER)" -kills $(KILLS)

.PHONY: images
images: ## gVisor's conformance and attack suites in boxes made of images, programs in what was warm there
	@$(GO) test ./sandbox/runsc -run 'TestConformance|TestAttacks' -args -images

lint: ## vet, gofumpt, staticcheck, golangci-lint, prose, a few mutants
	@./scripts/lint.sh

fmt: ## format
	@$(GO) run mvdan.cc/gofumpt@v0.9.1 -w $$(git ls-files '*.go')

docs: build ## regenerate docs/cli and docs/openapi.json
	@./bin/agon docs docs

clean: ## remove what was built here (not the data of an arena)
	@rm -rf bin .cache
