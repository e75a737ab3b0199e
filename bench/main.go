// Command bench prints the table of agon's speeds: what was asked, what this
// machine shows, and the command of each row. Ratios are taken in one run;
// absolute figures are what a quiet machine should show.
//
//	go run ./bench [row ...]
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// row is one line of the table.
type row struct {
	name, bar string
	run       func(ctx context.Context) (string, error)
	cmd       string
}

// gotest is a row from a Go benchmark: its metrics as they are printed.
func gotest(name, bar, pkg, pattern string, flags ...string) row {
	return gotestEnv(name, bar, pkg, pattern, nil, flags...)
}

// gotestEnv is gotest with more environment.
func gotestEnv(name, bar, pkg, pattern string, env []string, flags ...string) row {
	args := append([]string{"test", "-run", "^$", "-bench", pattern, "-benchtime", "2s"}, flags...)
	args = append(args, pkg)
	return row{name, bar, func(ctx context.Context) (string, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, tail(out))
		}
		return metrics(out), nil
	}, strings.Join(append(slices.Clone(env), "go "+strings.Join(args, " ")), " ")}
}

// waiting is the row of 50 boxes that each wait 10 s for their model.
func waiting(driver string) row {
	args := []string{"run", "./sandbox/sandboxtest/soak", "-driver", driver, "-boxes", "50", "-wait", "10s"}
	return row{"50 boxes that wait 10 s (" + driver + ")", "within 15 s", func(ctx context.Context) (string, error) {
		out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, tail(out))
		}
		return tail(out), nil
	}, "go " + strings.Join(args, " ")}
}

// printed is a row whose command prints its figures in one line.
func printed(pkg string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		out, err := exec.CommandContext(ctx, "go", "run", pkg).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, tail(out))
		}
		return strings.TrimSpace(string(out)), nil
	}
}

func tail(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// metrics joins the figures of all benchmark lines.
func metrics(out []byte) string {
	var parts []string
	sc := bufio.NewScanner(bytes.NewReader(out))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i]
		}
		var m []string
		for i := 2; i+1 < len(f); i += 2 {
			m = append(m, f[i]+" "+f[i+1])
		}
		parts = append(parts, name+": "+strings.Join(m, ", "))
	}
	return strings.Join(parts, "; ")
}

func main() {
	rows := []row{
		{"first scored run", "< 60 s after make setup", firstScored, "bin/agon up"},
		{"idle platform, RSS", "< 80 MB", idleRSS, "bin/agon serve"},
		{"engine's overhead per run, median", "< 50 ms", overhead, "bin/agon up --once: leased to ended, minus box time"},
		{"agon key show, start to end", "<= 30 ms", keyShow, "bin/agon key show"},
		gotest("a million simulated pairs", "2 s", "./engine/incentive", "BenchmarkSimulate"),
		gotest("a decision over 1,200 pairs", "5 ms", "./engine/incentive", "BenchmarkDecision"),
		gotest("an entry clustered against 10,000", "2 s", "./kinds", "BenchmarkCluster"),
		gotest("sign and verify", "sign >= 40,000/s, verify >= 15,000/s a core", "./auth", "Sign$|Verify$", "-cpu", "1"),
		gotest("signed request checked", "<= 0.2 ms", "./auth", "VerifyRequest"),
		gotest("claim and result, in process", ">= 3,000/s", "./engine/platform", "ClaimAndResult"),
		gotestEnv("claim and result, the log published beside", "<= 3 % below the row above", "./engine/platform", "ClaimAndResult", []string{"AGON_BENCH_LOG=1"}),
		gotest("log: a head over 3,000 new leaves", "<= 1 s", "./engine/translog", "Publish"),
		gotestEnv("log: proof in a log of 10,000,000", "<= 10 ms", "./engine/translog", "Inclusion", []string{"AGON_BENCH_LEAVES=10000000"}),
		gotest("check of a run of 200 calls", "<= 200 ms", "./engine/audit", "Check"),
		{"claim and complete over HTTP, 200 workers", ">= 3,000/s, p99 <= 20 ms at that pace", leasePath, "go run ./bench/lease"},
		gotest("closing statements: claim and complete, without and with", "<= 5 % more", "./engine/platform", "ClaimAndComplete"),
		{"strangers: 200 connections, a flood of a minute", "<= 200 MB; an honest miner's p99 <= 2x", printed("./bench/flood"), "go run ./bench/flood"},
		gotest("search of 100 MB of hidden data in 250 MB of root file system", "<= 30 s", "./engine/task/leak", "Scan", "-benchtime", "1x"),
		gotest("box: start, print(1), close (runc)", "<= 4x bare python", "./sandbox/runc", "Box"),
		gotest("box: start, print(1), close (runsc)", "<= 15x bare python", "./sandbox/runsc", "Box"),
		gotest("a box's view of a tree of 200 MB", "cp -a / overlay >= 50", "./sandbox/internal/layers", "Overlay"),
		gotest("an image of 1 GB in five layers; a second task on it", "<= 60 s; again <= 100 ms", "./sandbox/rootfs", "Import", "-benchtime", "1x"),
		gotest("100 images pruned", "<= 5 s", "./sandbox/rootfs", "PruneImages", "-benchtime", "1x"),
		gotest("a data set of 10 GB, the second time", "<= 50 ms", "./sandbox/datasets", "Again"),
		waiting("runsc"), waiting("runc"),
		gotestEnv("claim pairs: box, script, receipts, grade", ">= 100/s on 2 cores", "./kinds/claim/play", "Pairs$", nil),
		gotestEnv("claim pairs in runc", ">= 100/s on 2 cores", "./kinds/claim/play", "Pairs$", []string{"AGON_DRIVER=runc"}),
		gotestEnv("claim pairs, one caller", "p50 <= 30 ms", "./kinds/claim/play", "Pairs$", nil, "-cpu", "1"),
		gotest("who may read what, of a read", "<= 5 %", "./engine/platform", "Gate$", "-benchtime", "2000x"),
		gotest("10,000 claim pairs settle", "flat memory", "./engine/platform", "PairsSettle", "-benchtime", "1x"),
		gotest("claim tool call, overhead", "<= 1 ms", "./engine/tools", "ToolCall"),
		gotest("gateway, added latency", "<= 1 ms at the median", "./gateway", "Latency"),
		{"shopping: scoring, beside Python", ">= 5,000 episodes/s and 20x", printed("./kinds/shopping/bench"), "go run ./kinds/shopping/bench"},
		gotest("policy pack checked", "p50 <= 5 ms", "./kinds/pack/packfile", "Check"),
		{name: "256 policies of 8 KB, all against all", bar: ">= 20x a Python zlib loop", run: packPairs, cmd: "go run ./bench '256 policies'"},
		gotest("a policy against 10,000", "<= 2 s", "./kinds/pack/ncd", "OneAgainst10000", "-benchtime", "1x"),
		gotest("mock tool call", "<= 50 us", "./kinds/pack/mock", "Call"),
		gotest("consensus of 64 payloads x 256 miners", "<= 50 ms", "./kinds/pack/consensus", "Aggregate64x256"),
		gotest("shopping: first page of 100,000 products", "p50 <= 3 ms, >= 1,000/s on 2 cores", "./kinds/shopping/search", "Find"),
		gotest("shopping: index of 100,000 products", "<= 60 s, <= 1.5 GB", "./kinds/shopping/search", "Build", "-benchtime", "1x"),
		gotest("research: signed claim and submit over HTTP", ">= 1,000/s", "./kinds/research/wire", "ClaimSubmit", "-benchtime", "2000x"),
		gotest("merkle: standard tree of 100,000 leaves", "<= 1 s", "./kinds/research/merkle", "Tree", "-benchtime", "3x"),
		gotest("research: check of a patch of 256 KB", "<= 50 ms", "./kinds/research/surface", "Check256K"),
		gotest("packs: GET /api/validators as its readers know it", ">= 5,000/s", "./kinds/pack/wire", "Validators"),
		gotestEnv("research: replay on 50 MB, but setup and benchmark", "overhead <= 300 ms", "./kinds/research/play", "Replay$", []string{"AGON_DRIVER=runc"}, "-benchtime", "10x"),
		{"environments: shopping, scored over HTTP", ">= 500 episodes/s; a call p50 <= 3 ms; 1,000 sessions <= 300 MB", printed("./bench/env"), "make build && go run ./bench/env"},
		{"corpus: filter of event logs, beside Python", ">= 50 MB/s a core and 20x", printed("./bench/corpus"), "go run ./bench/corpus"},
		gotest("corpus: import of 15,000 foreign rows of 8 KB", "<= 10 s", "./corpus", "Import", "-benchtime", "1x"),
		gotest("web: board of 10,000 submissions", "<= 50 ms, first load <= 100 KB", "./ui/web", "Board$"),
		gotest("web: trajectory of 10,000 steps", "opens <= 100 ms", "./ui/web", "Trajectory"),
		gotest("web: 500 watchers of a live run, with their own cost", "<= 10 % of a core", "./ui/web", "Watchers", "-benchtime", "1x"),
		gotest("leaderboards of 10,000 submissions, page and /v1", ">= 1,000/s", "./ui/web", "Leaderboards"),
		gotest("coding: a grade with twins against one without", "<= 2.5x", "./kinds/coding/play", "Grade", "-benchtime", "8x"),
		gotest("10,000 stored pairs scored anew by a scripted judge", "<= 20 s", "./cmd/agon/roles", "Rescore", "-benchtime", "1x"),
		gotest("yuma epoch, 256 neurons, 64 validators", "<= 20 ms", "./ledger/yuma", "Epoch"),
		gotest("ledger: durable extrinsics, a year of blocks", ">= 2,000/s; <= 60 s", "./ledger/local", "BenchmarkYear|Extrinsics"),
		gotest("ledger: a year of a subnet of 256 with two mechanisms", "<= 60 s", "./ledger/local", "WholeYear", "-benchtime", "1x"),
		gotest("ledger: state of block n-1000, 256 neurons", "<= 20 ms", "./ledger/local", "StateAt", "-benchtime", "200x"),
		gotest("localnet: what SDK 10.5 asks for a full metagraph of 256", "<= 20 ms", "./ledger/rpc", "FullMetagraph"),
		gotest("chain: metadata of spec 424 decoded", "<= 100 ms", "./ledger/scale", "Metadata"),
		gotest("chain: compose and sign set_weights", ">= 5,000/s", "./ledger/scale", "ComposeAndSign"),
		gotest("chain: memory over 100,000 blocks followed", "flat: heap-growth-bytes", "./ledger/subtensor", "Follow", "-benchtime", "100000x"),
		gotest("chain: metagraph of 256 neurons over WebSocket", "<= 20 ms", "./ledger/subtensor", "Metagraph"),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tASKED\tMEASURED\tCOMMAND")
	failed := false
	for _, r := range rows {
		if len(os.Args) > 1 && !slices.ContainsFunc(os.Args[1:], func(s string) bool { return strings.Contains(r.name, s) }) {
			continue
		}
		fmt.Fprintln(os.Stderr, "bench:", r.name)
		got, err := r.run(ctx)
		if err != nil {
			got, failed = "failed: "+err.Error(), true
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.name, r.bar, got, r.cmd)
	}
	w.Flush()
	if failed {
		os.Exit(1)
	}
}

// leasePath is the table of bench/lease in one line.
func leasePath(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "run", "./bench/lease").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, tail(out))
	}
	var parts []string
	for l := range strings.Lines(string(out)) {
		f := strings.Split(strings.Trim(l, "| \n"), " | ")
		if len(f) == 10 && strings.HasSuffix(f[4], " ms") {
			parts = append(parts, fmt.Sprintf("%s workers, %s: %s pairs/s, p99 claim %s, result %s, CPU of a pair: %s", f[1], f[2], f[3], f[5], f[7], f[9]))
		}
	}
	return strings.Join(parts, "; "), nil
}

// start runs bin/agon with its own data directory and returns its address.
func start(ctx context.Context, args ...string) (cmd *exec.Cmd, url string, clean func(), err error) {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return nil, "", nil, err
	}
	const listen = "127.0.0.1:18900"
	cmd = exec.CommandContext(ctx, "bin/agon", append(args, "--data", dir, "--listen", listen)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "AGON_LLM_") }), "AGON_URL=http://"+listen)
	if err := cmd.Start(); err != nil {
		return nil, "", nil, err
	}
	clean = func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	url = "http://" + listen
	for ctx.Err() == nil {
		if resp, err := http.Get(url + "/v1/server"); err == nil {
			resp.Body.Close()
			return cmd, url, clean, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	clean()
	return nil, "", nil, ctx.Err()
}

func firstScored(ctx context.Context) (string, error) {
	began := time.Now()
	_, url, clean, err := start(ctx, "up")
	if err != nil {
		return "", err
	}
	defer clean()
	c, err := client.New(url, nil)
	if err != nil {
		return "", err
	}
	for {
		ov, err := c.Overview(ctx)
		if err != nil {
			return "", err
		}
		if ov.Runs.Scored > 0 {
			return time.Since(began).Round(10 * time.Millisecond).String(), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func idleRSS(ctx context.Context) (string, error) {
	cmd, _, clean, err := start(ctx, "serve")
	if err != nil {
		return "", err
	}
	defer clean()
	time.Sleep(3 * time.Second)
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "status"))
	if err != nil {
		return "", err
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "VmRSS:" {
			kb, err := strconv.Atoi(f[1])
			return fmt.Sprintf("%.1f MB", float64(kb)/1024), err
		}
	}
	return "", errors.New("no VmRSS")
}

// overhead plays the demo and takes, of each counted attempt, the time from
// lease to result that was not spent in boxes.
func overhead(ctx context.Context) (string, error) {
	_, url, clean, err := start(ctx, "up")
	if err != nil {
		return "", err
	}
	defer clean()
	c, err := client.New(url, nil)
	if err != nil {
		return "", err
	}
	var over []time.Duration
	for len(over) < 30 { // the first runs are those of nop and repair's quick ones
		time.Sleep(time.Second)
		over = over[:0]
		p, err := c.Runs(ctx, "", "", string(agon.RunScored), client.ListOptions{Limit: 200})
		if err != nil {
			return "", err
		}
		for _, r := range p.Items {
			full, err := c.Run(ctx, r.Run.Run)
			if err != nil {
				return "", err
			}
			for _, a := range full.List {
				if a.Counted {
					over = append(over, a.EndedAt.Sub(a.LeasedAt)-time.Duration(a.BoxMS)*time.Millisecond)
				}
			}
		}
	}
	slices.Sort(over)
	return fmt.Sprintf("%v (n=%d, p95 %v)", over[len(over)/2].Round(time.Millisecond), len(over), over[len(over)*95/100].Round(time.Millisecond)), nil
}

func keyShow(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	env := append(os.Environ(), "AGON_WALLET_PATH="+dir)
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "bin/agon", args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, tail(out))
		}
		return nil
	}
	if err := run("key", "new", "bench"); err != nil {
		return "", err
	}
	var took []time.Duration
	for range 20 {
		began := time.Now()
		if err := run("key", "show", "-o", "json"); err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b, err := json.Marshal(map[string]string{"p50": took[10].Round(100 * time.Microsecond).String(), "min": took[0].Round(100 * time.Microsecond).String()})
	return string(b), err
}
