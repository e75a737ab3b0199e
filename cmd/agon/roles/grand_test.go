package roles

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
)

const (
	grandServers, grandGateways, grandPlayers = 3, 2, 6
	grandTasks                                = 50 // of an arena: so many runs has a submission
	grandSlots                                = 4  // runs that a validator plays at once
	grandMiners                               = 20
)

// grand is a whole service: servers, a gateway for each of its arenas, validators, all in
// processes of their own, and a balancer that they all speak to.
type grand struct {
	*chaos
	dir      string
	old, new string   // programs: that of before, and this one
	program  []string // which one each server and, after them, each gateway is
	front    string   // URL of the balancer
	model    string   // URL of the provider of models
	sick     atomic.Bool
	arenas   []kit.ArenaFile
	gates    []*serving
	players  []*serving
	killed   map[string]int // validators, by name; written by the test alone
	reported atomic.Int64   // results that were answered
	logs     *os.File
}

// launch starts a program of the service. Each of its lines goes to heard; it is ready
// when it prints sign.
func (g *grand) launch(cmd *exec.Cmd, sign string, heard func(line string)) *serving {
	g.t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = cmd.Stdout
	}
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	s := &serving{cmd: cmd, done: make(chan struct{})}
	ready := make(chan struct{})
	g.t.Cleanup(func() { s.end(syscall.SIGKILL) })
	go func() { // ends with the process
		defer close(s.done)
		said := false
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			if !said && strings.Contains(line, sign) {
				said = true
				close(ready)
			}
			heard(line)
		}
		s.err = cmd.Wait()
	}()
	select {
	case <-ready:
	case <-s.done:
		g.t.Fatalf("%s ended before it was ready: %v (see %s)", cmd.Args, s.err, g.logs.Name())
	}
	return s
}

func (g *grand) log(who string) func(line string) {
	return func(line string) { _, _ = fmt.Fprintf(g.logs, "%s %s", who, line) }
}

// in is a command of the program of part i (servers, then gateways), in its namespace.
func (g *grand) in(i int, args ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", g.nets[i], g.program[i]}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+g.dir, "NO_COLOR=1")
	return cmd
}

func (g *grand) startServer(i int) *serving {
	g.t.Helper()
	args := []string{"serve", "--data", g.chaos.dir, "--listen", inside(i) + ":8900", "--store", strings.Replace(g.at, "127.0.0.1", host, 1), "--blobs", g.blobs}
	for k := range g.arenas {
		args = append(args, "--arena", filepath.Join(g.dir, fmt.Sprintf("arena-%d.toml", k)))
	}
	s := g.launch(g.in(i, args...), "agon serves at", g.log(fmt.Sprint("server-", i)))
	s.url = "http://" + inside(i) + ":8900"
	return s
}

func (g *grand) gateURL(k int) string { return "http://" + inside(grandServers+k) + ":8901" }

func (g *grand) startGate(k int) *serving {
	g.t.Helper()
	cmd := g.in(grandServers+k, "gateway", "--data", filepath.Join(g.dir, fmt.Sprint("gate-", k)), "--listen", inside(grandServers+k)+":8901", "--url", g.front)
	cmd.Env = append(cmd.Env, "AGON_LLM_BASE_URL="+g.model+"/v1", "AGON_LLM_API_KEY=key-of-the-test", "AGON_LLM_MODEL=m", "AGON_LLM_PRICE_IN=1000000", "AGON_LLM_PRICE_OUT=3000000")
	return g.launch(cmd, "the gateway is at", g.log(fmt.Sprint("gateway-", k)))
}

func (g *grand) startPlayer(k int) *serving {
	g.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		g.t.Fatal(err)
	}
	name := fmt.Sprint("val-", k)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envPlayer+"="+g.front, "AGON_TEST_WALLETS="+filepath.Join(g.dir, "wallets"), "AGON_TEST_PLAYER_NAME="+name, fmt.Sprint("AGON_TEST_PLAYER_SLOTS=", grandSlots))
	cmd.Stderr = g.logs
	return g.launch(cmd, "ready", func(line string) {
		var a act
		if json.Unmarshal([]byte(line), &a) != nil {
			return // its first line
		}
		g.mu.Lock()
		g.history = append(g.history, a)
		g.mu.Unlock()
		switch a.What {
		case "counted", "late", "lost":
			g.reported.Add(1)
		case "refused":
			g.refused.Add(1)
		}
	})
}

// serveHTTP serves on this machine's address on the bridge until the test ends.
func (g *grand) serveHTTP(h http.Handler) string {
	g.t.Helper()
	ln, err := net.Listen("tcp", host+":0")
	if err != nil {
		g.t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(ln) }() // ends with Close
	g.t.Cleanup(func() { _ = srv.Close() })
	return "http://" + ln.Addr().String()
}

// balance is the balancer as a server.
func (g *grand) balance() http.Handler {
	g.balancer.via = &http.Transport{MaxIdleConnsPerHost: 200, IdleConnTimeout: time.Minute}
	proxy := &httputil.ReverseProxy{
		Transport: &g.balancer, Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme = "http" },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
		r.Body, _ = r.GetBody()
		proxy.ServeHTTP(w, r)
	})
}

// provider is a model that says as many words as it is asked for, and fails while it is sick.
func (g *grand) provider() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || g.sick.Load() {
			http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
			return
		}
		n := 1
		if i := bytes.Index(b, []byte("Say ")); i >= 0 {
			_, _ = fmt.Sscanf(string(b[i:]), "Say %d", &n)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
			strings.Repeat("yes ", n), 12, n+1, n+13)
	})
}

// writeArena writes arena k: copies of one small task, and its gateway.
func (g *grand) writeArena(k int) {
	t := g.t
	t.Helper()
	set := filepath.Join(g.dir, "tasks")
	if k == 0 {
		list, err := kit.Options{Kits: kinds.All()}.ShippedSet("harbor", "basic")
		if err != nil {
			t.Fatal(err)
		}
		for n := range grandTasks {
			at := filepath.Join(set, fmt.Sprintf("small-%02d", n))
			if err := task.Materialise(list[0], at); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, "instruction.md"), fmt.Appendf(nil, "Say how many words task %d has.\n", n), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	resp, err := http.Get(g.gateURL(k) + "/gateway/v1/info")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var info gateway.Info
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`id = "grand-%d"
kind = "harbor"
title = "grand"
netuid = 3
incentive = "winner_takes_all"
sets = [%q]
submissions_per_coldkey = 100000
max_leases = 8
attempts = 5
rejudge = 0.0
[policy]
models = ["m"]
gateway = %q
gateway_key = %q
[policy.budget]
micros = 1000
calls = 10
`, k, set, g.gateURL(k), info.Signer)
	path := filepath.Join(g.dir, fmt.Sprintf("arena-%d.toml", k))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := kit.LoadArenaFile(path, kinds.All())
	if err != nil {
		t.Fatal(err)
	}
	g.arenas = append(g.arenas, f)
}

// newGrand starts the whole service with the program of before.
func newGrand(t *testing.T, runs int) *grand {
	t.Helper()
	g := &grand{dir: t.TempDir(), old: os.Getenv("AGON_GRAND_OLD"), new: os.Getenv("AGON_GRAND_NEW"), killed: map[string]int{}}
	if g.new == "" {
		t.Fatal("AGON_GRAND_NEW names no program: make grand does")
	}
	if g.old == "" {
		g.old = g.new
	}
	for range grandServers + grandGateways {
		g.program = append(g.program, g.old)
	}
	at := os.Getenv("AGON_GRAND_LOG")
	if at == "" {
		at = filepath.Join(g.dir, "log")
	}
	var err error
	if g.logs, err = os.Create(at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.logs.Close() })
	g.chaos = newChaos(t, runs/20) // 50 kB a run
	g.run = g.startServer
	g.files = func(n int) []client.File {
		return []client.File{{Path: "agent.py", Content: fmt.Appendf(nil, "def agent_main(input):\n    return %d\n", n)}}
	}
	for i := range grandServers + grandGateways {
		g.cable(g.link, i)
	}
	g.front, g.model = g.serveHTTP(g.balance()), g.serveHTTP(g.provider())
	for k := range grandGateways {
		g.gates = append(g.gates, g.startGate(k))
		g.writeArena(k)
	}
	g.file = g.arenas[0]
	for i := range grandServers {
		g.list = append(g.list, g.startServer(i))
	}
	st, err := postgres.Open(t.Context(), g.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	g.rows, _ = st.Cluster()
	g.show(g.list...)
	for k := range grandPlayers {
		v, err := kit.LoadParty(filepath.Join(g.dir, "wallets"), fmt.Sprint("val-", k))
		if err != nil {
			t.Fatal(err)
		}
		g.register(v, true)
		g.players = append(g.players, g.startPlayer(k))
	}
	return g
}

// feed enters submissions of both arenas until they have so many runs.
func (g *grand) feed(ctx context.Context, runs int) error {
	var miners []*kit.Party
	for n := range grandMiners {
		m, err := g.join(ctx, 1_000_000+n)
		if err != nil {
			return err
		}
		miners = append(miners, m)
	}
	entered := func() int { // with what the faults have entered
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.acked) * grandTasks
	}
	for n := 0; entered() < runs; n++ {
		for int64(entered()) > g.reported.Load()+20*grandTasks && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond) // the queue is long enough; results come through a pipe
		}
		m := &miners[n%grandMiners]
		err := g.submitTo(ctx, g.arenas[n%len(g.arenas)], *m, 1_000_000+n)
		var e *agon.Error
		if errors.As(err, &e) && e.Status == http.StatusForbidden { // newer miners took its place on the subnet
			if *m, err = g.join(ctx, 2_000_000+n); err == nil {
				err = g.submitTo(ctx, g.arenas[n%len(g.arenas)], *m, 1_000_000+n)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// grandFaults are those of chaos, and those of gateways, validators and the provider.
func (g *grand) grandFaults(rng *rand.Rand) map[string]func() time.Duration {
	list := g.faults()
	maps.Copy(list, map[string]func() time.Duration{
		"gateway killed": func() time.Duration {
			k := rng.IntN(grandGateways)
			_ = g.gates[k].end(syscall.SIGKILL)
			g.gates[k] = g.startGate(k)
			return 0
		},
		"gateway cut off": func() time.Duration {
			i := grandServers + rng.IntN(grandGateways)
			ip(g.t, "link", "set", g.nets[i], "down")
			g.more(20)
			ip(g.t, "link", "set", g.nets[i], "up")
			return 0
		},
		"validator killed": func() time.Duration {
			k := rng.IntN(grandPlayers)
			_ = g.players[k].end(syscall.SIGKILL)
			g.killed[fmt.Sprint("val-", k)]++
			g.players[k] = g.startPlayer(k)
			return 0
		},
		"provider fails": func() time.Duration {
			g.sick.Store(true)
			g.more(5)
			g.sick.Store(false)
			return 0
		},
	})
	return list
}

// more waits until so many more results were answered, or for three seconds.
func (g *grand) more(n int64) {
	until, end := g.reported.Load()+n, time.Now().Add(3*time.Second)
	for g.reported.Load() < until && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond) // results come through a pipe
	}
}

// upgrade replaces part i (servers, then gateways) by the new program.
func (g *grand) upgrade(i int) {
	g.t.Helper()
	g.program[i] = g.new
	if i >= grandServers {
		k := i - grandServers
		if err := g.gates[k].end(syscall.SIGTERM); err != nil {
			g.t.Errorf("a gateway that was asked to end: %v", err)
		}
		g.gates[k] = g.startGate(k)
		return
	}
	g.balancer.set(g.others(i)...)
	if err := g.list[i].end(syscall.SIGTERM); err != nil {
		g.t.Errorf("a server that was asked to end: %v", err)
	}
	g.restart(i)
}

// watch notes when each server begins and ceases to be ready.
func (g *grand) watch(ctx context.Context) {
	ready := map[int]bool{}
	cl := &http.Client{Timeout: time.Second}
	for ctx.Err() == nil {
		for i := range grandServers {
			a := act{What: "not ready", Who: fmt.Sprint("server-", i)}
			resp, err := cl.Get("http://" + inside(i) + ":8900/readyz")
			if err != nil {
				a.Name = "no answer"
			} else {
				b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
				_ = resp.Body.Close()
				if a.Status, a.Name = resp.StatusCode, string(b); a.Status == http.StatusNoContent {
					a.What = "ready"
				}
			}
			if was, known := ready[i]; !known || was != (a.What == "ready") {
				ready[i] = a.What == "ready"
				g.note(a)
			}
		}
		time.Sleep(100 * time.Millisecond) // it has no other sign
	}
}

func envNumber(name string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return standard
}

// TestGrand is the whole proof: three servers over one PostgreSQL and one bucket, two gateways,
// six validators, AGON_GRAND_RUNS runs, AGON_GRAND_FAULTS faults while they are played, and an
// upgrade of all servers and gateways, one by one, from AGON_GRAND_OLD to AGON_GRAND_NEW. Then the
// history of all answers is held against the rows, the gateways' books and the bucket.
func TestGrand(t *testing.T) {
	runs, faults := envNumber("AGON_GRAND_RUNS", 0), envNumber("AGON_GRAND_FAULTS", 0)
	if runs == 0 {
		t.Skip("AGON_GRAND_RUNS says no number: make grand runs this")
	}
	g := newGrand(t, runs)
	t.Cleanup(func() { g.keepHistory(os.Getenv("AGON_SERVER_HISTORY")) })
	seed := uint64(envNumber("AGON_SERVER_SEED", int(time.Now().UnixNano())))
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	wg.Go(func() { g.watch(ctx) })
	began := time.Now()
	fed := make(chan error, 1)
	wg.Go(func() { fed <- g.feed(ctx, runs) })
	list := g.grandFaults(rng)
	names := slices.Sorted(maps.Keys(list))
	if only := os.Getenv("AGON_SERVER_ONLY"); only != "" {
		names = strings.Split(only, ",")
	}
	count, worst, parts := map[string]int{}, map[string]time.Duration{}, 0
	var killed []time.Duration
	for f := range faults {
		for last, at := g.reported.Load(), time.Now(); g.reported.Load() < int64(runs)*int64(f)/int64(faults); {
			if now := g.reported.Load(); now != last {
				last, at = now, time.Now()
			}
			if time.Since(at) > 3*time.Minute {
				t.Fatal("nothing is played any more")
			}
			time.Sleep(10 * time.Millisecond) // results come through a pipe
		}
		if parts < len(g.program) && f >= faults/4+parts*faults/(2*len(g.program)) {
			g.upgrade(parts)
			g.note(act{What: "upgraded", ID: strconv.Itoa(parts)})
			parts++
		}
		if f%len(names) == 0 {
			rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		name := names[f%len(names)]
		g.note(act{What: "fault", Name: name})
		took := list[name]()
		g.revive()
		g.note(act{What: "mended", Name: name})
		count[name]++
		if worst[name] = max(worst[name], took); name == "leader killed" {
			killed = append(killed, took)
		}
		if t.Failed() {
			break
		}
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	g.rest()
	t.Logf("%s for %d runs and %d faults: %.1f runs a second", time.Since(began).Round(time.Second), runs, faults, float64(runs)/time.Since(began).Seconds())
	stop()
	wg.Wait()
	for _, s := range slices.Concat(g.players, g.gates, g.list) {
		if err := s.end(syscall.SIGTERM); err != nil {
			t.Errorf("%s, which was asked to end: %v", s.cmd.Args, err)
		}
	}
	g.check()
	o := testOptions(g.chaos.dir)
	o.Store, o.Blobs = g.at, g.blobs
	sound(t, o)
	for _, name := range slices.Sorted(slices.Values(names)) {
		t.Logf("%3d × %s%s", count[name], name, without(worst[name]))
	}
	if slices.Sort(killed); len(killed) > 0 {
		t.Logf("a killed leader: %s in the median, %s at worst", killed[len(killed)/2].Round(time.Millisecond), killed[len(killed)-1].Round(time.Millisecond))
	}
	t.Logf("%d parts upgraded, %d servers ended by themselves, %d requests refused for a reason of ours", parts, g.ended, g.refused.Load())
}
