package roles

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox/netns"
)

// The test binary is also the process that the kill test kills.
func TestMain(m *testing.M) {
	netns.MaybeChild()
	if url := os.Getenv("AGON_TEST_VALIDATOR"); url != "" {
		if err := testValidator(url, os.Getenv("AGON_TEST_WALLETS"), os.Getenv("AGON_TEST_DATA")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(envServer); dir != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := testServer(ctx, dir); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if url := os.Getenv(envPlayer); url != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := playerMain(ctx, url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv("AGON_TEST_UP"); dir != "" {
		o := testOptions(dir)
		o.Once = os.Getenv("AGON_TEST_ONCE") != ""
		o.Arenas = []string{os.Getenv("AGON_TEST_ARENA")}
		o.Listen = "127.0.0.1:0"
		o.Ready = func(url string) { fmt.Println("ready", url) }
		ov, err := Up(context.Background(), o)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := json.NewEncoder(os.Stdout).Encode(ov); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func testOptions(dir string) kit.Options { return kittest.Options(dir, kinds.All()) }

// smallArena writes an arena over three of the small tasks.
func smallArena(t *testing.T, keys ...string) string {
	t.Helper()
	dir := t.TempDir()
	set := filepath.Join(dir, "small")
	list, err := kit.Options{Kits: kinds.All()}.ShippedSet("coding", "small")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, tk := range list {
		for _, k := range keys {
			if tk.Key == k {
				if err := task.Materialise(tk, filepath.Join(set, filepath.Base(k))); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
	}
	if n != len(keys) {
		t.Fatalf("found %d of %d tasks", n, len(keys))
	}
	path := filepath.Join(dir, "arena.toml")
	text := fmt.Sprintf("id = \"test-coding\"\nkind = \"coding\"\ntitle = \"test\"\nnetuid = 3\nincentive = \"winner_takes_all\"\nsets = [%q]\nsamples = true\n", set)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A whole arena in real boxes: five agents, three validators on this machine, because
// each run is played three times. The best agent that is not a script takes the seat, its
// weight stands on the ledger; a second start changes nothing.
func TestUpOnce(t *testing.T) {
	path := smallArena(t, "small/interval-merge")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("replicas = 3\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := kittest.Strongest(testOptions(dir))
	o.Once, o.Arenas = true, []string{path}
	var mu sync.Mutex // guards said
	var said strings.Builder
	o.Say = func(format string, _ ...any) {
		mu.Lock()
		defer mu.Unlock()
		said.WriteString(format + "\n")
	}
	sent := collectSpans(t, &o)
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	first, err := Up(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	sent.check(t, 15)
	checkPrivate(t, dir)
	b, _ := json.MarshalIndent(first, "", " ")
	t.Logf("%s", b)
	a := first.Arenas[0]
	if first.Runs.Failed != 0 || first.Runs.Scored != 15 {
		t.Errorf("runs %+v, want 15 scored", first.Runs)
	}
	if len(a.Submissions) != 5 || a.Champion == nil {
		t.Fatalf("%d submissions, champion %v", len(a.Submissions), a.Champion)
	}
	byName := map[string]client.BoardRow{}
	for _, s := range a.Submissions {
		byName[s.Name] = s
		if s.State != agon.SubmissionScored || s.Score == nil {
			t.Errorf("%s is %s with score %v", s.Name, s.State, s.Score)
		}
	}
	if byName["repair"].ID != *a.Champion {
		t.Errorf("champion %s, want repair", *a.Champion)
	}
	if !byName["llm"].Scripted || byName["repair"].Scripted {
		t.Error("scripted marks are wrong")
	}
	for _, d := range a.Decisions {
		if d.Challenger == byName["llm"].ID && (d.Outcome != agon.KeptSeat || d.Rule != "scripted") {
			t.Errorf("the script's decision: %+v", d)
		}
	}
	if played := playedBy(t, dir); len(played) != 3 {
		t.Errorf("%d validators played: %v", len(played), played)
	}
	if !strings.Contains(said.String(), "this machine plays as") {
		t.Errorf("nothing says so:\n%s", said.String())
	}
	if len(a.Weights) != 1 || a.Weights[0].Weight != 65535 || a.Weights[0].Hotkey != byName["repair"].Miner {
		t.Errorf("weights %+v", a.Weights)
	}
	second, err := Up(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	b2, _ := json.MarshalIndent(second, "", " ")
	if string(b) != string(b2) {
		t.Errorf("a second start changed the outcome:\n%s", b2)
	}
}

// kill -9 at five random moments: every run ends exactly once, nothing that
// was acknowledged is gone.
func TestKilledAtAnyMoment(t *testing.T) {
	dir, arena := t.TempDir(), smallArena(t, "small/interval-merge", "small/semver")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(once bool) (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "AGON_TEST_UP="+dir, "AGON_TEST_ARENA="+arena)
		if once {
			cmd.Env = append(cmd.Env, "AGON_TEST_ONCE=1")
		}
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 16<<20)
		return cmd, sc
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	submitted := map[string]bool{}
	for i := range 5 {
		cmd, sc := start(false)
		var url string
		for sc.Scan() {
			if u, ok := strings.CutPrefix(sc.Text(), "ready "); ok {
				url = u
				break
			}
		}
		if url == "" {
			t.Fatalf("round %d: never ready", i)
		}
		// The moment is random; what was acknowledged by then is noted.
		deadline := time.Now().Add(time.Duration(300+rnd.IntN(4000)) * time.Millisecond)
		c, err := client.New(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for time.Now().Before(deadline) {
			ctx, cancel := context.WithDeadline(context.Background(), deadline)
			p, err := c.Submissions(ctx, "test-coding", "", client.ListOptions{})
			cancel()
			if err == nil {
				for _, s := range p.Items {
					submitted[s.ID] = true
				}
			}
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the killed process ended well")
		}
	}
	cmd, sc := start(true)
	var last string
	for sc.Scan() {
		last = sc.Text()
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var ov client.Overview
	if err := json.Unmarshal([]byte(last), &ov); err != nil {
		t.Fatalf("%v in %q", err, last)
	}
	if ov.Runs.Scored != 10 || ov.Runs.Failed != 0 {
		t.Errorf("runs %+v, want 10 scored and none failed", ov.Runs)
	}
	have := map[string]bool{}
	for _, s := range ov.Arenas[0].Submissions {
		have[s.ID] = true
	}
	for id := range submitted {
		if !have[id] {
			t.Errorf("acknowledged submission %s is gone", id)
		}
	}
	counted := map[string]int{}
	o := testOptions(dir)
	s, err := openServer(context.Background(), o, o.Kinds(""))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.gate.open.Store(true)
	c, err := client.New(s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := c.Runs(context.Background(), "test-coding", "", "", client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs.Items {
		full, err := c.Run(context.Background(), r.Run.Run)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range full.List {
			if a.Counted {
				counted[r.Run.Run]++
			}
		}
		if counted[r.Run.Run] != 1 {
			t.Errorf("run %s has %d counted attempts", r.Run.Run, counted[r.Run.Run])
		}
	}
}

func TestArenaFileNamesEveryMistake(t *testing.T) {
	_, err := kit.ParseArenaFile([]byte("id = \"X\"\nkind = \"chess\"\nsets = []\nmax_leases = -1\n[policy.agent]\nwall_ms = 5\n"), kinds.All())
	var e *agon.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	for _, want := range []string{"id:", "kind:", "sets:", "max_leases:", "policy.agent.wall_ms:"} {
		if !slices.ContainsFunc(e.Findings, func(f agon.Finding) bool { return strings.Contains(f.Message, want) }) {
			t.Errorf("%q is not named in: %+v", want, e.Findings)
		}
	}
	if _, err := kit.ParseArenaFile([]byte("id = \"aa\"\nbudgte = 1\n"), kinds.All()); err == nil {
		t.Error("an unknown field was let in")
	}
}

func FuzzArenaFile(f *testing.F) {
	f.Add([]byte("id = \"aa\"\nkind = \"coding\"\nsets = [\"small\"]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := kit.ParseArenaFile(b, kinds.All()); err == nil && a.Arena().Attempts < 0 {
			t.Fatal("negative attempts")
		}
	})
}

func TestOneProcessPerDirectory(t *testing.T) {
	d, err := kit.OpenData(filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := kit.OpenData(d.Dir); err == nil {
		t.Error("two processes opened one directory")
	}
}
