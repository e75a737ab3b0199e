package roles

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger/local"
)

// envServer makes the test binary one of several servers: its data directory.
const envServer = "AGON_TEST_SERVER"

// testServer is `agon serve` in a process of its own.
func testServer(ctx context.Context, dir string) error {
	o := testOptions(dir)
	o.Arenas, o.Store = filepath.SplitList(os.Getenv("AGON_TEST_ARENA")), os.Getenv("AGON_TEST_SERVER_STORE")
	o.Registration, o.Lease = local.RegistrationOpen, 3*time.Second
	if at := os.Getenv("AGON_TEST_SERVER_LISTEN"); at != "" {
		o.Listen, o.Registration = at, local.RegistrationOperator
	}
	o.Blobs = os.Getenv("AGON_TEST_SERVER_BLOBS")
	o.Ready = func(url string) { fmt.Println("ready", url) }
	return Serve(ctx, o)
}

// serving is one server process.
type serving struct {
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when the process has ended
	err  error         // how it ended, once done
}

// startServer starts a server over a database and a data directory.
func startServer(t *testing.T, at, dir, arena string, env ...string) *serving {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startCommand(t, exec.Command(exe), append(env, envServer+"="+dir, "AGON_TEST_SERVER_STORE="+at, "AGON_TEST_ARENA="+arena)...)
}

// startCommand starts a server and waits until it is ready.
func startCommand(t *testing.T, cmd *exec.Cmd, env ...string) *serving {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &serving{cmd: cmd}
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			s.url = url
			break
		}
	}
	if s.url == "" {
		t.Fatalf("a server ended before it was ready: %v", cmd.Wait())
	}
	s.done = make(chan struct{})
	go func() { s.err = cmd.Wait(); close(s.done) }() // ends with the process
	return s
}

// gone reports whether the process has ended.
func (s *serving) gone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// end sends a signal and waits for the end.
func (s *serving) end(sig syscall.Signal) error {
	if s.gone() {
		return nil
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.done
	return s.err
}

// balancer sends requests to servers in turn, as any HTTP balancer in front of
// them does: one that does not answer is left out.
type balancer struct {
	mu   sync.Mutex
	urls []string          // guarded by mu
	via  http.RoundTripper // nil: Go's
	next atomic.Int64
	seen sync.Map                                // url: *atomic.Int64, answers to claims
	open map[string]map[int64]context.CancelFunc // guarded by mu; requests under way by server
	ids  int64                                   // guarded by mu
}

// under is a context of a request to a server, until end.
func (b *balancer) under(ctx context.Context, u string) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[string]map[int64]context.CancelFunc{}
	}
	if b.open[u] == nil {
		b.open[u] = map[int64]context.CancelFunc{}
	}
	b.ids++
	id := b.ids
	b.open[u][id] = cancel
	return ctx, func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open[u], id)
	}
}

// abandon ends the requests to a server that does not answer.
func (b *balancer) abandon(u string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, cancel := range b.open[u] {
		cancel()
	}
}

// body is that of a reply; its end is that of the request.
type body struct {
	io.ReadCloser
	end func()
}

func (b body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func (b *balancer) set(urls ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.urls = urls
}

func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	urls := b.urls
	b.mu.Unlock()
	var last error
	first := int(b.next.Add(1)) // others take their turn beside this one
	for i := range urls {
		u := urls[(first+i)%len(urls)]
		ctx, end := b.under(r.Context(), u)
		out := r.Clone(ctx)
		out.URL.Host = strings.TrimPrefix(u, "http://")
		if r.GetBody != nil {
			out.Body, _ = r.GetBody()
		}
		via := b.via
		if via == nil {
			via = http.DefaultTransport
		}
		resp, err := via.RoundTrip(out)
		if err == nil {
			if r.URL.Path == "/v1/leases" && resp.StatusCode == http.StatusOK {
				n, _ := b.seen.LoadOrStore(u, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			}
			resp.Body = body{resp.Body, end}
			return resp, nil
		}
		end()
		last = err
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break // it may have been done
		}
	}
	return nil, last
}

func (b *balancer) claims(url string) int64 {
	n, ok := b.seen.Load(url)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

func (b *balancer) client(t *testing.T, key auth.Signer) *client.Client {
	t.Helper()
	c, err := client.New("http://balancer", key)
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP.Transport = b
	return c
}

// cluster is a database, its servers and who speaks to them.
type cluster struct {
	t        *testing.T
	server   *pgtest.Server
	at, dir  string
	arena    string
	file     kit.ArenaFile
	balancer balancer
	rows     store.Cluster
	played   atomic.Int64
	mu       sync.Mutex
	acked    map[string]bool // submissions; guarded by mu
	results  map[string]int  // runs whose result counted, by acknowledgement; guarded by mu
}

// leads is the address of who leads.
func (c *cluster) leads() store.Leader {
	c.t.Helper()
	l, err := c.rows.Leader(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

func (c *cluster) party(name string) *kit.Party {
	c.t.Helper()
	p, err := kit.LoadParty(filepath.Join(c.t.TempDir(), "wallets"), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// register makes a hotkey a member of the arena's subnet.
func (c *cluster) register(p *kit.Party, validator bool) {
	c.t.Helper()
	by := p.Hotkey
	if validator {
		op, err := kit.LoadParty(filepath.Join(c.dir, "wallets"), "operator")
		if err != nil {
			c.t.Fatal(err)
		}
		by = op.Hotkey
	}
	if err := c.balancer.client(c.t, by).Register(c.t.Context(), 3, client.RegisterRequest{Hotkey: p.Hotkey.SS58(), Coldkey: p.Coldkey, Validator: validator}); err != nil {
		c.t.Fatal(err)
	}
}

// submit enters a script and remembers that it was acknowledged.
func (c *cluster) submit(n int) {
	c.t.Helper()
	m := c.party(fmt.Sprint("miner-", n))
	c.register(m, false)
	verdict := fmt.Sprintf("values[0] if %d else values[-1]", n)
	files := []client.File{{Path: play.AgentFile, Content: []byte(slowScript(verdict))}}
	s, err := c.balancer.client(c.t, m.Hotkey).Submit(c.t.Context(), c.file.ID, client.SubmitRequest{Name: verdict, Licence: c.file.Licence, Files: files})
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[s.ID] = true
}

// validate plays, as a validator of the test's own, until ctx ends: it claims,
// beats, puts evidence and reports, through the balancer.
func (c *cluster) validate(ctx context.Context, key auth.Signer) {
	cl := c.balancer.client(c.t, key)
	spoken := client.Spoken()
	for ctx.Err() == nil {
		l, err := cl.Claim(ctx, client.ClaimRequest{Kinds: []string{"claim"}, Driver: "runc", WaitMS: 20000, Protocols: &spoken})
		if err != nil || l == nil {
			continue // a server is away, or there is nothing now
		}
		if _, err := cl.Heartbeat(ctx, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying, Events: []agon.Event{{Seq: 1, Type: agon.EventNote, Data: []byte(`{"text":"plays"}`)}}}); err != nil {
			continue
		}
		c.report(ctx, cl, l)
	}
}

func (c *cluster) report(ctx context.Context, cl *client.Client, l *client.Lease) {
	tree, err := blob.Manifest{}.Canonical()
	if err != nil {
		c.t.Error(err)
		return
	}
	d, err := cl.PutBlob(ctx, l.ID, tree)
	if err != nil {
		return // the lease runs out, another plays
	}
	r := client.Result{Token: l.Token, Outcome: "ok", Evidence: d, Driver: agon.Driver{Name: "runc", Version: "1", Limits: []string{}}}
	for _, tk := range l.Run.Tasks {
		r.Scores = append(r.Scores, agon.Score{Run: l.Run.Run, Task: tk.Key, Value: 1, Solved: true, Scorer: "test"})
	}
	for range 20 { // it is the same result each time: a lost answer is asked again
		reply, err := cl.Result(ctx, l.ID, r)
		var e *agon.Error
		if errors.As(err, &e) && e.Status < 500 {
			c.t.Errorf("result of %s: %v", l.Run.Run, err)
			return
		}
		if err == nil {
			if reply.Counted {
				c.mu.Lock()
				c.results[l.Run.Run]++
				c.mu.Unlock()
			}
			c.played.Add(1)
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// newCluster starts a database and n servers over it, which have an arena of claims, and those of
// also.
func newCluster(t *testing.T, n int, also ...string) (*cluster, []*serving) {
	t.Helper()
	c := &cluster{t: t, server: pgtest.Start(t), dir: t.TempDir(), arena: claimArena(t, 2), acked: map[string]bool{}, results: map[string]int{}}
	c.at = c.server.Database(t)
	var err error
	if c.file, err = kit.LoadArenaFile(c.arena, testOptions("").Kits); err != nil {
		t.Fatal(err)
	}
	c.arena = strings.Join(append([]string{c.arena}, also...), string(filepath.ListSeparator))
	var list []*serving
	for range n {
		list = append(list, startServer(t, c.at, c.dir, c.arena))
	}
	st, err := postgres.Open(t.Context(), c.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	c.rows, _ = st.Cluster()
	c.show(list...)
	return c, list
}

func (c *cluster) show(list ...*serving) {
	var urls []string
	for _, s := range list {
		urls = append(urls, s.url)
	}
	c.balancer.set(urls...)
}

// Two servers share a database: one leads, the other follows; both hand out
// leases, and everything works through either. The leader is killed at work: the
// other leads (how soon, TestServerFaults says), nothing acknowledged is lost, and no run
// is counted twice. A third joins; the second gets SIGTERM, hands over and exits well.
func TestServers(t *testing.T) {
	c, list := newCluster(t, 2)
	if l := c.leads(); l.Term != 1 || l.Address != list[0].url {
		t.Fatalf("who leads: %+v, servers %s and %s", l, list[0].url, list[1].url)
	}
	vals := []*kit.Party{c.party("val-1"), c.party("val-2")}
	for _, v := range vals {
		c.register(v, true)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	for _, v := range vals {
		for range 2 {
			wg.Go(func() { c.validate(ctx, v.Hotkey) })
		}
	}
	entered := 0
	play := func(n int64) { // enters until n more runs were played
		t.Helper()
		for until := c.played.Load() + n; c.played.Load() < until; entered++ {
			c.submit(entered)
			if entered > 400 {
				t.Fatal("nothing is played any more")
			}
		}
	}
	for play(6); c.balancer.claims(list[0].url) == 0 || c.balancer.claims(list[1].url) == 0; { // each hands out leases
		play(1)
	}

	killed := time.Now()
	if err := list[0].end(syscall.SIGKILL); err == nil {
		t.Fatal("a killed server ended well")
	}
	c.submit(entered) // waits in the follower, then is taken by it: it leads
	took := time.Since(killed)
	entered++
	if l := c.leads(); l.Term != 2 || l.Address != list[1].url {
		t.Fatalf("who leads after the kill: %+v", l)
	}
	t.Logf("the other server leads and has taken a submission %s after the kill", took.Round(time.Millisecond))
	play(3)

	third := startServer(t, c.at, c.dir, c.arena)
	c.show(list[1], third)
	play(3)
	if err := list[1].end(syscall.SIGTERM); err != nil {
		t.Errorf("a server that was asked to end: %v", err)
	}
	play(3)
	if l := c.leads(); l.Term != 3 || l.Address != third.url {
		t.Fatalf("who leads at the end: %+v", l)
	}
	c.settle(ctx)
}

// settle waits until nothing is queued, and compares the books with what was acknowledged.
func (c *cluster) settle(ctx context.Context) {
	t := c.t
	t.Helper()
	op, err := kit.LoadParty(filepath.Join(c.dir, "wallets"), "operator")
	if err != nil {
		t.Fatal(err)
	}
	cl := c.balancer.client(t, op.Hotkey)
	runs := map[string]client.Run{}
	for open := true; open; {
		open = false
		for page, after := 0, ""; ; page++ {
			list, err := cl.Runs(ctx, c.file.ID, "", "", client.ListOptions{Limit: 200, Cursor: after})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list.Items {
				runs[r.RunSpec.Run] = r
				open = open || !r.State.Final()
			}
			if after = list.Next; after == "" {
				break
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	subs := map[string]bool{}
	for id, r := range runs {
		subs[r.Submission] = true
		full, err := cl.Run(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		counted := 0
		for _, a := range full.List {
			if a.Counted {
				counted++
			}
		}
		if r.State == agon.RunScored && counted != 1 {
			t.Errorf("run %s has %d counted attempts", id, counted)
		}
		if c.results[id] > 0 && r.State != agon.RunScored {
			t.Errorf("a result of run %s was acknowledged, and it is %s", id, r.State)
		}
	}
	for id := range c.acked {
		if !subs[id] {
			t.Errorf("submission %s was acknowledged and has no run", id)
		}
	}
	t.Logf("%d submissions, %d runs, %d results acknowledged as counted", len(c.acked), len(runs), len(c.results))
}

// A server whose data directory is another than the leader's has another log and
// another ledger: it refuses to start, and says why.
func TestServerWithOtherData(t *testing.T) {
	c, _ := newCluster(t, 1)
	o := testOptions(t.TempDir())
	o.Store, o.Registration = c.at, local.RegistrationOpen
	err := Serve(t.Context(), o)
	var e *agon.Error
	if !errors.As(err, &e) || e.Field != "data" {
		t.Errorf("%v", err)
	}
}
