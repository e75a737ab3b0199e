package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// row is one thing that is measured: a command that prints lines in the format
// of Go's benchmarks, and the bars of the figures that matter.
type row struct {
	name string
	bars string // see bars
	cmd  string
	run  func(ctx context.Context) (string, error)
}

// gotest is a row from a Go benchmark.
func gotest(name, bars, pkg, pattern string, flags ...string) row {
	return gotestEnv(name, bars, pkg, pattern, nil, flags...)
}

// gotestEnv is gotest with more environment.
func gotestEnv(name, bars, pkg, pattern string, env []string, flags ...string) row {
	args := append([]string{"test", "-run", "^$", "-bench", pattern, "-benchtime", "2s"}, flags...)
	return command(name, bars, env, append(args, pkg)...)
}

// gorun is a row from a program of its own.
func gorun(name, bars, pkg string, args ...string) row {
	return command(name, bars, nil, append([]string{"run", pkg}, args...)...)
}

func command(name, bars string, env []string, args ...string) row {
	return row{name, bars, strings.Join(append(slices.Clone(env), "go "+strings.Join(args, " ")), " "), func(ctx context.Context) (string, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, tail(out))
		}
		return string(out), nil
	}}
}

func tail(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// with adds figures that are made of others of the same run.
func with(r row, more func([]figure) string) row {
	run := r.run
	r.run = func(ctx context.Context) (string, error) {
		out, err := run(ctx)
		if err != nil {
			return "", err
		}
		return out + more(figures(out)), nil
	}
	return r
}

func value(list []figure, bench, unit string) float64 {
	f, _ := bar{bench: bench, unit: unit}.of(list)
	return f.Value
}

// waiting is the row of 50 boxes that each wait 10 s for their model.
func waiting(driver string) row {
	return gorun("50 boxes that wait 10 s ("+driver+")", "s <= 14.5", "./sandbox/sandboxtest/soak", "-driver", driver, "-boxes", "50", "-wait", "10s")
}

// pairs plays whole claim runs in both drivers, one after the other.
func pairs() row {
	inRunc := gotestEnv("", "", "./kinds/claim/play", "Pairs$", []string{"AGON_DRIVER=runc"})
	r := gotestEnv("claim pairs: box, script, receipts, grade; gVisor and runc", "Pairs pairs/s >= 50; Runc pairs/s >= 150; Pairs x-runc <= 3.2",
		"./kinds/claim/play", "Pairs$", []string{"AGON_DRIVER=runsc"})
	r.cmd += "; " + inRunc.cmd
	run := r.run
	r.run = func(ctx context.Context) (string, error) {
		out, err := run(ctx)
		if err != nil {
			return "", err
		}
		other, err := inRunc.run(ctx)
		if err != nil {
			return "", err
		}
		here, there := figures(out), figures(other)
		const call = "p50-ms/call"
		return out + line("Runc", value(there, "Pairs", "pairs/s"), "pairs/s", value(there, "Pairs", call), call) +
			line("Pairs", value(here, "Pairs", call)/value(there, "Pairs", call), "x-runc"), nil
	}
	return r
}

// added is what the gateway adds to a call at the median, and what the dearest other form adds to that.
func added(list []figure) string {
	const p50 = "p50-µs"
	chat, most := value(list, "Latency/chat", p50), 0.0
	for _, form := range []string{"messages", "responses", "google"} {
		most = max(most, value(list, "Latency/"+form, p50)-chat)
	}
	return line("Added", value(list, "Latency/gateway", p50)-value(list, "Latency/direct", p50), p50) + line("Forms", most, p50)
}

// rows are all that is measured, by area.
func rows() []row {
	return []row{
		{"first scored run", "s <= 60", "bin/agon up", firstScored},
		{"an idle server's memory, all and without files", "Idle MB <= 40; Idle own-MB <= 40", "bin/agon serve", idle},
		{"the program's size", "MB <= 45", "ls -l bin/agon", size},
		{"agon key show, start to end", "p50-ms <= 12", "bin/agon key show", keyShow},
		{"the engine's share of a run", "p50-ms <= 50", "bin/agon up --once: leased to ended, minus box time", overhead},

		gotest("a million simulated pairs", "s/Mpairs <= 2", "./engine/incentive", "BenchmarkSimulate"),
		gotest("a decision over 1,200 pairs", "ns/op <= 5e6", "./engine/incentive", "BenchmarkDecision"),
		gotest("an entry clustered against 10,000", "s/entry <= 2", "./kinds", "BenchmarkCluster"),
		gotest("sign and verify", "Sign op/s/core >= 40000; Verify op/s/core >= 15000", "./auth", "Sign$|Verify$", "-cpu", "1"),
		gotest("a signed request checked", "ns/op <= 200e3", "./auth", "VerifyRequest"),
		gotest("claim and result, in process", "pairs/s >= 6000", "./engine/platform", "ClaimAndResult"),
		gotestEnv("claim and result, the log published beside", "pairs/s >= 5820", "./engine/platform", "ClaimAndResult", []string{"AGON_BENCH_LOG=1"}),
		gotest("log: a head over 3,000 new leaves", "ns/op <= 1e9", "./engine/translog", "Publish"),
		gotestEnv("log: a proof in a log of 10,000,000", "ns/op <= 10e6", "./engine/translog", "Inclusion", []string{"AGON_BENCH_LEAVES=10000000"}),
		gotest("check of a run of 200 calls", "ns/op <= 200e6", "./engine/audit", "Check"),
		gorun("claim and complete over HTTP", "Lease/SQLite/200 pairs/s >= 3500; Lease/SQLite/200-half p99-ms <= 20; Lease/SQLite/20 p99-ms <= 20", "./bench/lease"),
		gotest("closing statements: claim and complete, without and with", "%-more-alone <= 5; %-more-with-2-calls <= 5", "./engine/platform", "ClaimAndComplete"),
		gotest("a tenth of the results judged again: the platform's part", "%-more <= 10; judging/play <= 1", "./engine/platform", "JudgedAgain", "-benchtime", "60x"),
		gorun("strangers: 200 connections, a flood of a minute", "held-MB <= 200; x-calm-p99 <= 2", "./bench/flood"),
		gotest("search of 100 MB of hidden data in 250 MB of root file system", "ns/op <= 30e9", "./engine/task/leak", "Scan", "-benchtime", "1x"),
		gotest("who may read what, of a read", "gate-% <= 5", "./engine/platform", "Gate$", "-benchtime", "2000x"),
		gotest("10,000 claim pairs settle", "KiB-grown <= 1024", "./engine/platform", "PairsSettle", "-benchtime", "1x"),

		gotest("a box: start, print(1), close (runc)", "x-bare <= 3.2", "./sandbox/runc", "Box"),
		gotest("a box: start, print(1), close (gVisor)", "x-bare <= 9", "./sandbox/runsc", "Box"),
		gotest("a box's view of a tree of 200 MB", "cp/overlay >= 50", "./sandbox/internal/layers", "Overlay"),
		gotest("an image of 1 GB in five layers; a second task on it", "ns/op <= 60e9; again_ms <= 100", "./sandbox/rootfs", "Import", "-benchtime", "1x"),
		gotest("100 images pruned", "ns/op <= 5e9", "./sandbox/rootfs", "PruneImages", "-benchtime", "1x"),
		gotest("a data set of 10 GB, the second time", "ns/op <= 50e6", "./sandbox/datasets", "Again"),
		waiting("runsc"), waiting("runc"),

		with(gotest("the gateway's added median, books in memory", "Added p50-µs <= 200; Forms p50-µs <= 100", "./gateway", "Latency"), added),
		gorun("the gateway beside a bare proxy of the standard library", "JSON x-proxy >= 1.1; SSE x-proxy >= 1; Durable added-ms <= 0.4; Half p99-ms <= 3", "-C", "bench/gateway", "-mod=mod", ".", "-for", "2s"),
		gorun("the gateway with 5,000 open streams", "Streams MB <= 400; Streams ended >= 5000", "-C", "bench/gateway", "-mod=mod", ".", "-streams", "5000"),
		gotest("a tool call, overhead", "ns/op <= 1e6", "./engine/tools", "ToolCall"),

		gotest("harbor: 100 tasks loaded and checked in form", "ns/op <= 2e9", "./kinds/harbor", "Form"),
		gotest("harbor: an agent's 500 MB, 20 MB of them new, to the verifier", "p50-ms <= 200", "./kinds/harbor", "Snapshot", "-benchtime", "10x"),
		gotest("coding: a grade with twins against one without", "x <= 2.5", "./kinds/coding/play", "Grade", "-benchtime", "8x"),
		gotestEnv("coding: 50 agents that wait 10 s for a model (runc)", "s <= 15", "./kinds/coding/play", "Sleepers", []string{"AGON_DRIVER=runc"}, "-benchtime", "1x"),
		gotest("coding: upload to queued", "ns/op <= 50e6", "./kinds/coding/wire", "Upload"),
		gotest("coding: 200 validators that poll", "p99-ms <= 50", "./kinds/coding/wire", "Polling"),
		gotest("coding: leaderboard of 10,000 agents", "ns/op <= 20e6", "./kinds/coding/wire", "Leaderboard"),
		pairs(),
		gotest("claims: a round of 200 out of 1,000 documents, beside models and boxes", "ns/op <= 60e9", "./kinds/claim/supply", "Round", "-benchtime", "1x"),
		gotest("10,000 stored pairs scored anew by a scripted judge", "s/10000-pairs <= 20", "./cmd/agon/roles", "Rescore", "-benchtime", "1x"),
		gorun("shopping: scoring, beside Python", "episodes/s >= 40000; x-python >= 20", "./kinds/shopping/bench"),
		gotest("shopping: first page of 100,000 products", "Find/compat/latency p50-ms <= 3; Find/compat/throughput queries/s >= 1000", "./kinds/shopping/search", "Find"),
		gotest("shopping: 2.5 M products: index and first page", "Huge/index s <= 240; Huge/index heap-MB <= 4000; Huge/compat/latency p50-ms <= 5; Huge/strict/latency p50-ms <= 5",
			"./kinds/shopping/search", "Huge", "-timeout", "30m"),
		gotest("shopping: index of 100,000 products", "ns/op <= 60e9; heap-MB <= 1500", "./kinds/shopping/search", "Build", "-benchtime", "1x"),
		gotest("a policy pack checked", "ns/op <= 5e6", "./kinds/pack/packfile", "Check"),
		{"256 policies of 8 KB, all against all", "x-python >= 20", "go run ./bench '256 policies'", packPairs},
		gotest("a policy against 10,000", "ns/op <= 2e9", "./kinds/pack/ncd", "OneAgainst10000", "-benchtime", "1x"),
		gotest("a mock tool call", "ns/op <= 50e3", "./kinds/pack/mock", "Call"),
		gotest("an office scenario made", "ns/op <= 2e6", "./kinds/pack/office", "Make"),
		gotest("consensus of 64 payloads of 256 miners", "ns/op <= 20e6", "./kinds/pack/consensus", "Aggregate64x256"),
		gotest("packs: a world of stateful services: doors, box, files", "p50-ms <= 100", "./kinds/pack/play", "World", "-benchtime", "20x"),
		gotest("packs: a step over 200 servers that never answer", "ns/op <= 35e9", "./kinds/pack/consensus", "SilentStores", "-benchtime", "1x"),
		gotest("packs: GET /api/validators as its readers know it", "requests/s >= 5000", "./kinds/pack/wire", "Validators"),
		gotest("research: signed claim and submit over HTTP", "pairs/s >= 1000", "./kinds/research/wire", "ClaimSubmit", "-benchtime", "2000x"),
		gotest("research: standard tree of 100,000 leaves", "ns/op <= 1e9", "./kinds/research/merkle", "Tree", "-benchtime", "3x"),
		gotest("research: check of a patch of 256 KB", "ns/op <= 50e6", "./kinds/research/surface", "Check256K"),
		gotestEnv("research: replay on 50 MB, but setup and benchmark", "overhead_ms/op <= 300", "./kinds/research/play", "Replay$", []string{"AGON_DRIVER=runc"}, "-benchtime", "10x"),
		gotestEnv("research: a suite of 22 kernels, over the sum of its programs", "overhead_pct <= 10", "./kinds/research/play", "Suite$", []string{"AGON_DRIVER=runc"}, "-benchtime", "1x"),

		gorun("environments: shopping, scored over HTTP", "episodes/s >= 500; p50-ms <= 3; MB <= 300", "./bench/env"),
		gorun("corpus: filter of event logs, beside Python", "MB/s >= 50; x-python >= 20", "./bench/corpus"),
		gotest("corpus: import of 15,000 foreign rows of 8 KB", "Import/written ns/op <= 10e9", "./corpus", "Import", "-benchtime", "1x"),
		gotest("web: board of 10,000 submissions", "ms/page <= 50; first-KB <= 100", "./ui/web", "Board$"),
		gotest("web: trajectory of 10,000 steps", "ns/op <= 100e6", "./ui/web", "Trajectory"),
		gotest("web: 500 watchers of a live run, with their own cost", "%core <= 10", "./ui/web", "Watchers", "-benchtime", "1x"),
		gotest("web: leaderboards of 10,000 submissions", "Leaderboards/page requests/s >= 1000; Leaderboards/v1 requests/s >= 1000", "./ui/web", "Leaderboards"),

		gotest("ledger: yuma epoch, 256 neurons, 64 validators", "Epoch/classic ns/op <= 20e6; Epoch/liquid ns/op <= 20e6", "./ledger/yuma", "Epoch"),
		gotest("ledger: a year of blocks; durable extrinsics", "Year ns/op <= 60e9; Extrinsics extrinsics/s >= 2000", "./ledger/local", "BenchmarkYear|Extrinsics"),
		gotest("ledger: a year of a subnet of 256 with two mechanisms", "ns/op <= 60e9", "./ledger/local", "WholeYear", "-benchtime", "1x"),
		gotest("ledger: state of block n-1000, 256 neurons", "ns/op <= 20e6", "./ledger/local", "StateAt", "-benchtime", "200x"),
		gotest("localnet: what SDK 10.5 asks for a full metagraph of 256", "ns/op <= 20e6", "./ledger/rpc", "FullMetagraph"),
		gotest("chain: metadata of spec 424 decoded", "ns/op <= 100e6", "./ledger/scale", "Metadata"),
		gotest("chain: compose and sign set_weights", "ns/op <= 200e3", "./ledger/scale", "ComposeAndSign"),
		gotest("chain: memory over 100,000 blocks followed", "heap-growth-bytes <= 4e6", "./ledger/subtensor", "Follow", "-benchtime", "100000x"),
		gotest("chain: metagraph of 256 neurons over WebSocket", "ns/op <= 20e6", "./ledger/subtensor", "Metagraph"),
	}
}
