package roles

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
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
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/s3/s3test"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
)

// act is one line of the history: what somebody was told, and when.
type act struct {
	At       time.Time   `json:"at"`
	What     string      `json:"what"` // fault, mended, submitted, leased, sealed, counted, late, lost, refused, ready, not ready
	Who      string      `json:"who,omitempty"`
	Name     string      `json:"name,omitempty"` // of a fault, or the code of a refusal
	ID       string      `json:"id,omitempty"`   // of a submission or a lease
	Run      string      `json:"run,omitempty"`
	Attempt  int         `json:"attempt,omitempty"`
	Cost     agon.Micros `json:"cost_micros,omitempty"`
	Status   int         `json:"status,omitempty"` // of a refusal
	Evidence agon.Digest `json:"evidence,omitempty"`
}

// chaos is a cluster whose servers stand in network namespaces of their own, so that each
// can be cut off, and the history of who was told what.
type chaos struct {
	*cluster
	nets    []string                  // of each server: its namespace, and the bridge's end of its cable
	run     func(i int) *serving      // starts server i
	files   func(n int) []client.File // what miners enter
	list    []*serving
	history []act  // guarded by cluster.mu
	link    string // the bridge
	bucket  *s3test.Server
	blobs   string                // its URL
	disks   map[string]*smallDisk // below rows, data and bucket
	entered int                   // submissions tried
	refused atomic.Int64          // requests of miners and validators that failed for a reason of ours
	felt    atomic.Int64          // rounds of faults of bytes that somebody noticed
	ended   int                   // servers that ended by themselves
}

func (c *chaos) note(a act) {
	a.At = time.Now().UTC()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, a)
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s (this test needs root and iproute2)", strings.Join(args, " "), err, out)
	}
}

// host is this machine's address on the bridge, inside a server's.
const host = "10.213.77.1"

func inside(i int) string { return fmt.Sprintf("10.213.77.%d", i+2) }

// bridge makes what the servers' cables come together in.
func (c *chaos) bridge() string {
	c.t.Helper()
	name := fmt.Sprintf("agonbr%d", os.Getpid()%100000)
	ip(c.t, "link", "add", name, "type", "bridge")
	c.t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	ip(c.t, "addr", "add", host+"/24", "dev", name)
	ip(c.t, "link", "set", name, "up")
	return name
}

// cable makes the namespace of server i and a cable from it to the bridge.
func (c *chaos) cable(bridge string, i int) {
	c.t.Helper()
	name := fmt.Sprintf("agon%d-%d", os.Getpid()%100000, i)
	c.nets = append(c.nets, name)
	ip(c.t, "netns", "add", name)
	c.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	ip(c.t, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
	ip(c.t, "link", "set", name, "master", bridge, "up")
	ip(c.t, "-n", name, "addr", "add", inside(i)+"/24", "dev", "eth0")
	ip(c.t, "-n", name, "link", "set", "eth0", "up")
	ip(c.t, "-n", name, "link", "set", "lo", "up")
}

// start starts server i.
func (c *chaos) start(i int) *serving {
	c.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	at := strings.Replace(c.at, "127.0.0.1", host, 1)
	return startCommand(c.t, exec.Command("ip", "netns", "exec", c.nets[i], exe), envServer+"="+c.dir, "AGON_TEST_SERVER_STORE="+at,
		"AGON_TEST_ARENA="+c.arena, "AGON_TEST_SERVER_LISTEN="+inside(i)+":0", "AGON_TEST_SERVER_BLOBS="+c.blobs)
}

// restart starts server i again, which has ended.
func (c *chaos) restart(i int) {
	c.t.Helper()
	c.list[i] = c.run(i)
	c.show(c.list...)
}

// leader is the index of who leads, waited for.
func (c *chaos) leader() int {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // nobody tells a test who leads
		if l, err := c.rows.Leader(c.t.Context()); err == nil {
			for i, s := range c.list {
				if s.url == l.Address && s.ready() {
					return i
				}
			}
		}
		if time.Now().After(end) {
			c.t.Fatal("nobody leads")
		}
	}
}

func (s *serving) ready() bool {
	cl := http.Client{Timeout: time.Second}
	r, err := cl.Get(s.url + "/readyz")
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusNoContent
}

// taken is how long it takes until another than server i leads and is ready.
func (c *chaos) taken(i int) time.Duration {
	c.t.Helper()
	began := time.Now()
	was := c.list[i].url
	for {
		if now := c.leader(); c.list[now].url != was {
			return time.Since(began)
		}
		if time.Since(began) > 2*time.Minute {
			c.t.Fatal("nobody takes over")
		}
	}
}

// faults are what may happen, by name. Each mends what it broke, and may tell how long
// the cluster was without a leader.
func (c *chaos) faults() map[string]func() time.Duration {
	kill := func(i int, sig syscall.Signal) {
		c.balancer.set(c.others(i)...) // as its health checks would
		_ = c.list[i].end(sig)
	}
	list := map[string]func() time.Duration{
		"leader killed": func() time.Duration {
			i := c.leader()
			kill(i, syscall.SIGKILL)
			took := c.taken(i)
			c.restart(i)
			return took
		},
		"leader asked to end": func() time.Duration {
			i := c.leader()
			kill(i, syscall.SIGTERM)
			c.taken(i)
			c.restart(i)
			return 0
		},
		"follower killed": func() time.Duration {
			i := (c.leader() + 1) % len(c.list)
			kill(i, syscall.SIGKILL)
			c.restart(i)
			return 0
		},
		"leader cut off": func() time.Duration { return c.cut(c.leader()) },
		"follower cut off": func() time.Duration {
			c.cut((c.leader() + 1) % len(c.list))
			return 0
		},
		"database killed": func() time.Duration {
			c.server.Kill(c.t)
			c.server.Up(c.t)
			c.leader()
			return 0
		},
		"database restarted": func() time.Duration {
			c.server.Down(c.t)
			c.server.Up(c.t)
			c.leader()
			return 0
		},
		"connections ended": func() time.Duration {
			c.server.Exec(c.t, c.at[strings.LastIndexByte(c.at, '/')+1:], `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agon'`)
			c.leader()
			return 0
		},
	}
	maps.Copy(list, c.bytesFaults())
	return list
}

func (c *chaos) others(i int) (urls []string) {
	for k, s := range c.list {
		if k != i {
			urls = append(urls, s.url)
		}
	}
	return urls
}

// cut takes server i off the network, where it led until another leads.
func (c *chaos) cut(i int) (took time.Duration) {
	led := c.leader() == i
	c.balancer.set(c.others(i)...)
	ip(c.t, "link", "set", c.nets[i], "down")
	c.balancer.abandon(c.list[i].url)
	if led {
		took = c.taken(i)
	}
	ip(c.t, "link", "set", c.nets[i], "up")
	for end := time.Now().Add(time.Minute); !c.list[i].ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatal("a server that was cut off is not ready again")
		}
	}
	c.show(c.list...)
	return took
}

// again runs fn until it succeeds: servers may be away.
func (c *chaos) again(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		var e *agon.Error
		if err == nil || ctx.Err() != nil || errors.As(err, &e) && e.Status < 500 && e.Status != http.StatusTooManyRequests {
			return err
		}
		c.refused.Add(1)
	}
}

// enter registers miner n and submits its script, whatever happens meanwhile.
func (c *chaos) enter(ctx context.Context, n int) error {
	m, err := c.join(ctx, n)
	if err != nil {
		return err
	}
	return c.submitAs(ctx, m, n)
}

// join registers miner n.
func (c *chaos) join(ctx context.Context, n int) (*kit.Party, error) {
	m := c.party(fmt.Sprint("miner-", n))
	op, err := kit.LoadParty(filepath.Join(c.dir, "wallets"), "operator")
	if err != nil {
		return nil, err
	}
	return m, c.again(ctx, func() error {
		err := c.balancer.client(c.t, op.Hotkey).Register(ctx, 3, client.RegisterRequest{Hotkey: m.Hotkey.SS58(), Coldkey: m.Coldkey})
		var e *agon.Error
		if errors.As(err, &e) && e.Status == http.StatusConflict { // the answer to the first was lost
			return nil
		}
		return err
	})
}

// submitAs submits script n.
func (c *chaos) submitAs(ctx context.Context, m *kit.Party, n int) error {
	return c.submitTo(ctx, c.file, m, n)
}

// submitTo submits script n to an arena.
func (c *chaos) submitTo(ctx context.Context, f kit.ArenaFile, m *kit.Party, n int) error {
	cl := c.balancer.client(c.t, m.Hotkey)
	r := client.SubmitRequest{Name: fmt.Sprint("entry ", n), Licence: f.Licence, Files: c.files(n)}
	return c.again(ctx, func() error {
		s, err := cl.Submit(ctx, f.ID, r)
		if err != nil {
			return err
		}
		c.note(act{What: "submitted", ID: s.ID})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.acked[s.ID] = true
		return nil
	})
}

// evidence puts a tree of one file that no other lease has.
func evidence(ctx context.Context, cl *client.Client, lease string) (agon.Digest, error) {
	text := []byte("evidence of " + lease)
	d, err := cl.PutBlob(ctx, lease, text)
	if err != nil {
		return "", err
	}
	tree, err := blob.Manifest{Files: []blob.Entry{{Path: "out.txt", Mode: "file", Size: int64(len(text)), Digest: d}}}.Canonical()
	if err != nil {
		return "", err
	}
	return cl.PutBlob(ctx, lease, tree)
}

// work claims until claims ends, reports, and notes what it was told. Each result costs
// something: the books must sum to it.
func (c *chaos) work(ctx, claims context.Context, key auth.Signer) {
	cl := c.balancer.client(c.t, key)
	spoken := client.Spoken()
	for claims.Err() == nil {
		l, err := cl.Claim(claims, client.ClaimRequest{Kinds: []string{"claim"}, Driver: "runc", WaitMS: 5000, Protocols: &spoken})
		if err != nil || l == nil {
			continue
		}
		a := act{ID: l.ID, Run: l.Run.Run, Attempt: l.Attempt, Cost: agon.Micros(1 + rand.IntN(1000))}
		a.What = "leased"
		c.note(a)
		_, _ = cl.Heartbeat(ctx, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying})
		if a.Evidence, err = evidence(ctx, cl, l.ID); err != nil {
			c.refused.Add(1)
			continue // the lease runs out, another plays
		}
		r := client.Result{Token: l.Token, Outcome: "ok", Evidence: a.Evidence, Cost: a.Cost, Driver: agon.Driver{Name: "runc", Version: "1", Limits: []string{}}}
		for _, tk := range l.Run.Tasks {
			r.Scores = append(r.Scores, agon.Score{Run: l.Run.Run, Task: tk.Key, Value: 1, Solved: true, Scorer: "test"})
		}
		var reply *client.ResultReply
		err = c.again(ctx, func() (err error) { reply, err = cl.Result(ctx, l.ID, r); return err })
		switch {
		case err != nil && ctx.Err() == nil:
			c.t.Errorf("result of %s: %v", l.Run.Run, err)
		case err == nil:
			if a.What = "late"; reply.Counted {
				a.What = "counted"
			}
			c.note(a)
			c.played.Add(1)
		}
	}
}

// compare holds the history of answers against the books.
func (c *chaos) compare(st *store.Store) {
	t := c.t
	t.Helper()
	submitted, leases, holders, counted := map[string]bool{}, map[string]act{}, map[string]string{}, map[string]act{}
	var acked agon.Micros
	for _, a := range c.history {
		switch a.What {
		case "submitted":
			submitted[a.ID] = true
		case "leased":
			of := fmt.Sprintf("%s/%d", a.Run, a.Attempt)
			if other, twice := holders[of]; twice && other != a.ID {
				t.Errorf("attempt %s was leased twice, as %s and %s", of, other, a.ID)
			}
			leases[a.ID], holders[of] = a, a.ID
		case "counted":
			if other, twice := counted[a.Run]; twice && other.ID != a.ID {
				t.Errorf("run %s was counted twice, for leases %s and %s", a.Run, other.ID, a.ID)
			} else if !twice {
				acked += a.Cost
			}
			counted[a.Run] = a
		}
	}
	var kept agon.Micros
	runs := 0
	if err := st.Read(t.Context(), func(tx *store.Tx) error {
		for id := range leases {
			if _, err := tx.AttemptByLease(id); err != nil {
				t.Errorf("lease %s was given out: %v", id, err)
			}
		}
		for id := range submitted {
			if _, err := tx.Entry(id); err != nil {
				t.Errorf("submission %s was acknowledged: %v", id, err)
			}
			list, err := tx.RunsOf(id)
			if err != nil {
				return err
			}
			for _, r := range list {
				runs++
				attempts, err := tx.Attempts(r.RunSpec.Run)
				if err != nil {
					return err
				}
				n := 0
				for _, a := range attempts {
					if !a.Counted {
						continue
					}
					n++
					kept += a.CostMicros
					if told, ok := counted[a.Run]; !ok || told.ID != a.Lease || told.Cost != a.CostMicros {
						t.Errorf("run %s counts lease %s and %d micro-dollars, acknowledged was %+v", a.Run, a.Lease, a.CostMicros, told)
					}
				}
				if n > 1 || n == 0 && counted[r.RunSpec.Run].ID != "" {
					t.Errorf("run %s is %s with %d results that count", r.RunSpec.Run, r.State, n)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if kept != acked {
		t.Errorf("the books say %d micro-dollars, what was acknowledged sums to %d", kept, acked)
	}
	t.Logf("%d answers: %d submissions, %d runs, %d leases, %d results that count, %d micro-dollars on both sides", len(c.history), len(submitted), runs, len(leases), len(counted), kept)
}

func without(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", at most %s without a leader", d.Round(time.Millisecond))
}

// TestServerFaults: two servers over one database, validators at work, and AGON_SERVER_FAULTS
// faults, one after the other: servers killed, asked to end, cut off the network; the
// database killed, restarted, its connections ended; the S3 server killed and away; full
// disks below all three. Then the history of all answers is compared with the books, and
// what was acknowledged is read back. AGON_SERVER_HISTORY names a file for the history.
func TestServerFaults(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("AGON_SERVER_FAULTS"))
	if rounds <= 0 {
		t.Skip("AGON_SERVER_FAULTS says no number: make serverfaults runs this")
	}
	c := newChaos(t, 0)
	c.arena, c.files = claimArena(t, 2), func(n int) []client.File {
		return []client.File{{Path: play.AgentFile, Content: []byte(slowScript(fmt.Sprintf("values[0] if %d else values[-1]", n)))}}
	}
	var err error
	if c.file, err = kit.LoadArenaFile(c.arena, testOptions("").Kits); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		c.cable(c.link, i)
		c.list = append(c.list, c.run(i))
	}
	st, err := postgres.Open(t.Context(), c.at)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c.rows, _ = st.Cluster()
	c.show(c.list...)
	ctx, stop := context.WithCancel(t.Context())
	claims, rest := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() { rest(); stop(); wg.Wait() }()
	for n := range 3 {
		v := c.party(fmt.Sprint("val-", n))
		c.register(v, true)
		wg.Go(func() { c.work(ctx, claims, v.Hotkey) })
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("AGON_SERVER_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	faults := c.faults()
	names := slices.Sorted(maps.Keys(faults))
	if only := os.Getenv("AGON_SERVER_ONLY"); only != "" {
		names = strings.Split(only, ",")
	}
	count, worst, killed := map[string]int{}, map[string]time.Duration{}, []time.Duration(nil)
	for range rounds {
		// Between two faults something is entered and something is played.
		for until := c.played.Load() + 1; c.played.Load() < until; {
			c.entered++
			if err := c.enter(ctx, c.entered); err != nil {
				t.Fatal(err)
			}
		}
		name := names[rng.IntN(len(names))]
		c.note(act{What: "fault", Name: name})
		took := faults[name]()
		c.note(act{What: "mended", Name: name})
		count[name]++
		worst[name] = max(worst[name], took)
		if name == "leader killed" {
			killed = append(killed, took)
		}
		if t.Failed() {
			break
		}
	}
	c.settle(ctx)
	rest()
	wg.Wait()
	for _, s := range c.list {
		if err := s.end(syscall.SIGTERM); err != nil {
			t.Errorf("a server that was asked to end: %v", err)
		}
	}
	c.compare(st)
	c.compareBytes(st)
	o := testOptions(c.dir)
	o.Store, o.Blobs = c.at, c.blobs
	sound(t, o)
	for _, name := range names {
		t.Logf("%3d × %s%s", count[name], name, without(worst[name]))
	}
	t.Logf("%d faults of bytes were noticed, %d servers ended by themselves", c.felt.Load(), c.ended)
	if slices.Sort(killed); len(killed) > 0 {
		median := killed[len(killed)/2]
		t.Logf("a killed leader: %s in the median, %s at worst", median.Round(time.Millisecond), killed[len(killed)-1].Round(time.Millisecond))
		if median > 3*time.Second { // asked for; this test has the machine for itself
			t.Errorf("it takes %s until another leads", median)
		}
	}
	c.keepHistory(os.Getenv("AGON_SERVER_HISTORY"))
}

// keepHistory writes the history to a file, a line each; "" is nowhere.
func (c *chaos) keepHistory(at string) {
	if at == "" {
		return
	}
	f, err := os.Create(at)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.history {
		if err := json.NewEncoder(w).Encode(a); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		c.t.Fatal(err)
	}
}
