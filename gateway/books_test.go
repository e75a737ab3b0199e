package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/gateway/book"
	"github.com/agon-arena/agon/gateway/provider"
)

func openStore(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func durable(t testing.TB, j Journal) *Books {
	t.Helper()
	b, err := NewBooks(context.Background(), BooksConfig{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sound(t testing.TB, s *store.Store) {
	t.Helper()
	bad, err := s.CheckBooks(context.Background())
	if err != nil || len(bad) > 0 {
		t.Errorf("books: %v %v", bad, err)
	}
}

// Two sessions of one attempt share one budget, also one after the other.
func TestAccountIsPerRunAndPayer(t *testing.T) {
	u := upstream(t, says(answerJSON)) // 10 in, 5 out: 20 micro-dollars
	s := openStore(t, filepath.Join(t.TempDir(), "b.db"))
	g := start(t, Config{Upstreams: []provider.Upstream{u}, Books: durable(t, s)})
	p := policy("m")
	p.Budget = agon.Budget{Micros: 1_000_000, Calls: 3}
	one, two := open(t, g, p, nil), open(t, g, p, nil)
	statuses := []int{post(t, one, chatPath, hello).status, post(t, two, chatPath, hello).status}
	_, _ = one.Close(), two.Close()
	three := open(t, g, p, nil)
	statuses = append(statuses, post(t, three, chatPath, hello).status, post(t, three, chatPath, hello).status)
	if !slices.Equal(statuses, []int{200, 200, 200, 429}) {
		t.Errorf("statuses %v", statuses)
	}
	other := p
	other.Budget.Calls = 4
	if _, err := g.Open(t.Context(), other, nil); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("another limit: %v", err)
	}
	judge := other
	judge.Payer = "platform"
	if r := post(t, open(t, g, judge, nil), chatPath, hello); r.status != 200 {
		t.Errorf("the platform's account: %d", r.status)
	}
	// An attempt's agents share one account, whatever they play; each task's judge has its own.
	elsewhere := p
	elsewhere.Task = "small/y"
	if r := post(t, open(t, g, elsewhere, nil), chatPath, hello); r.status != 429 {
		t.Errorf("another task of the attempt: %d", r.status)
	}
	judge.Budget.Calls, judge.Attempt = 1, 7
	other = judge
	other.Task = "small/y"
	statuses = nil
	for _, p := range []Policy{judge, judge, other, other} {
		statuses = append(statuses, post(t, open(t, g, p, nil), chatPath, hello).status)
	}
	if !slices.Equal(statuses, []int{200, 429, 200, 429}) {
		t.Errorf("judges of two tasks, one call each: statuses %v", statuses)
	}
	retry := p
	retry.Attempt++
	if r := post(t, open(t, g, retry, nil), chatPath, hello); r.status != 200 {
		t.Errorf("another attempt: %d", r.status)
	}
	sound(t, s)
}

// The time of an account begins with its first session.
func TestTimeBudget(t *testing.T) {
	now := time.Unix(1000, 0)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}, Clock: clock})
	p := policy("m")
	p.Budget.TimeMS = 5000
	s := open(t, g, p, nil)
	if r := post(t, s, chatPath, hello); r.status != 200 {
		t.Errorf("in time: %d", r.status)
	}
	mu.Lock()
	now = now.Add(5 * time.Second)
	mu.Unlock()
	if r := post(t, s, chatPath, hello); r.status != 429 || !strings.Contains(r.body, "time") {
		t.Errorf("out of time: %d %s", r.status, r.body)
	}
}

// A crash loses nothing that was acknowledged, and leaves nothing held.
func TestRecovery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.db")
	s := openStore(t, path)
	b := durable(t, s)
	limit := agon.Budget{Micros: 100, Calls: 10}
	a, err := b.open(t.Context(), "r", 1, "r/1/run", limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		c, err := a.reserve(id, Amount{Micros: 40, Calls: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.waitHeld(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	first := &agon.Receipt{ID: "a", Run: "r", Attempt: 1, Reserved: 40}
	if _, err := a.settle(t.Context(), "a", Amount{Micros: 30, Calls: 1}, first); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // no account is closed, "b" is held
		t.Fatal(err)
	}

	s = openStore(t, path)
	open, err := s.OpenBooks(t.Context())
	if err != nil || len(open) != 1 || len(open[0].Accounts[0].Holds) != 1 {
		t.Fatalf("before recovery: %+v %v", open, err)
	}
	b = durable(t, s)
	if open, err = s.OpenBooks(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("after recovery: %+v %v", open, err)
	}
	if a, err = b.open(t.Context(), "r", 1, "r/1/run", limit); err != nil {
		t.Fatal(err)
	}
	if spent, left := a.balance(); spent.Micros != 30 || spent.Calls != 1 || left.Micros != 70 {
		t.Errorf("spent %+v left %+v", spent, left)
	}
	if _, err := a.reserve("c", Amount{Micros: 70, Calls: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.settle(t.Context(), "c", Amount{Micros: 70, Calls: 1}, &agon.Receipt{ID: "c", Run: "r", Attempt: 1, Reserved: 70}); err != nil {
		t.Fatal(err)
	}
	list, err := s.GatewayReceipts(t.Context(), "r", 1, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	// Another key has signed the second half: the chain holds, and names both.
	if c := VerifyChain(list, nil); len(c.Problems) != 0 || c.Receipts != 2 || len(c.Signers) != 2 || c.Run != 100 {
		t.Errorf("chain %+v", c)
	}
	if err := a.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
}

// 64 callers spend one budget over durable books and random crashes of them:
// what stands is within the limit and adds up after each.
func TestDurableBooksNeverOverspend(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(2) {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", seed))
		limit := agon.Budget{Micros: 60_011, Calls: 2000, Tokens: 90_001}
		var acked sync.Map
		for round := range 3 {
			s := openStore(t, path)
			b := durable(t, s)
			a, err := b.open(t.Context(), "r", 1, "r/1/run", limit)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			crash := make(chan struct{})
			var settled atomic.Int64
			for w := range 64 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(round*64+w)))
					for i := range 12 {
						id := fmt.Sprintf("%d-%d-%d", round, w, i)
						want := Amount{agon.Micros(r.Int64N(400)), 1, r.Int64N(500)}
						if _, err := a.reserve(id, want); err != nil {
							continue
						}
						if r.IntN(40) == 0 {
							continue // the caller dies with its reservation
						}
						rec := &agon.Receipt{ID: id, Run: "r", Attempt: 1, Reserved: want.Micros}
						_, err := a.settle(t.Context(), id, Amount{agon.Micros(r.Int64N(500)), 1, r.Int64N(900)}, rec)
						if err != nil {
							return // crashed
						}
						acked.Store(id, rec.Cost)
						if settled.Add(1) == 20 {
							close(crash)
						}
					}
				})
			}
			if round < 2 {
				select {
				case <-crash:
				case <-time.After(10 * time.Second):
					t.Error("nobody settles")
				}
				_ = s.Close() // under the writers: like a crash, nobody is told
			}
			wg.Wait()
			_ = s.Close()
			s = openStore(t, path)
			sound(t, s)
			list, err := s.GatewayReceipts(t.Context(), "r", 1, 0, 100_000)
			if err != nil {
				t.Fatal(err)
			}
			if c := VerifyChain(list, nil); len(c.Problems) > 0 {
				t.Errorf("seed %d round %d: %+v", seed, round, c.Problems[0])
			}
			cost := map[string]agon.Micros{}
			for _, x := range list {
				cost[x.ID] = x.Cost
			}
			n := 0
			acked.Range(func(id, c any) bool {
				n++
				if got, ok := cost[id.(string)]; !ok || got != c {
					t.Errorf("acknowledged %v of %v: stored %v %v", id, c, got, ok)
				}
				return true
			})
			if n == 0 {
				t.Error("nothing was acknowledged")
			}
			_ = s.Close()
		}
	}
}

// brittle is a journal that fails on demand.
type brittle struct {
	Journal
	mu  sync.Mutex
	bad error
}

func (j *brittle) AppendBooks(ctx context.Context, batch []book.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.bad != nil {
		return j.bad
	}
	return j.Journal.AppendBooks(ctx, batch)
}

// When the disk is full no reply leaves, and the session says so at its end.
func TestBooksThatFail(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "b.db"))
	j := &brittle{Journal: s}
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}, Books: durable(t, j)})
	ses := open(t, g, policy("m"), nil)
	if r := post(t, ses, chatPath, hello); r.status != 200 {
		t.Fatalf("reply %d", r.status)
	}
	j.mu.Lock()
	j.bad = errors.New("no space left")
	j.mu.Unlock()
	for range 2 {
		if r := post(t, ses, chatPath, hello); r.status != 500 || strings.Contains(r.body, "hi <b>") || strings.Contains(r.body, "space") {
			t.Errorf("reply %d %s", r.status, r.body)
		}
	}
	if err := ses.Close(); err == nil || !errors.Is(err, errBroken) {
		t.Errorf("close: %v", err)
	}
	if _, err := g.Open(t.Context(), policy("m"), nil); err == nil {
		t.Error("opened over broken books")
	}
	sound(t, s)
}

func TestCanonicalReceipt(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 120_000_000, time.UTC)
	for _, r := range []agon.Receipt{
		{},
		{
			ID: "a", Session: "s", Run: "r", Attempt: 2, Task: "t/ü", Route: "/v1", Model: "m<>&\"\\\u2028\x01", Provider: "p",
			RequestHash: agon.Sum(nil), ResponseHash: agon.Sum(nil), Prompt: 1, Completion: 2, Estimated: true, PriceVersion: "v",
			Reserved: 4, Cost: 3, Status: 200, Outcome: "ok", Start: at, End: at.Add(1), Payer: "run", Emitted: "x", N: 3, Prev: agon.Sum(nil), Signer: "5",
		},
	} {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(m) // a map's keys are sorted
		if got := canonicalReceipt(nil, &r); !bytes.Equal(got, want) {
			t.Errorf("got\n%s want\n%s", got, want)
		}
		signed := r
		signed.Sig = "ff"
		if ReceiptHash(signed) != ReceiptHash(r) {
			t.Error("the hash covers the signature")
		}
	}
}

func TestVerifyChain(t *testing.T) {
	b, err := NewBooks(t.Context(), BooksConfig{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := b.open(t.Context(), "r", 1, "r/1/run", agon.Budget{Micros: 100, Calls: 10})
	if err != nil {
		t.Fatal(err)
	}
	var list []agon.Receipt
	for i := range 4 {
		id := fmt.Sprint(i)
		if _, err := a.reserve(id, Amount{Micros: 9, Calls: 1}); err != nil {
			t.Fatal(err)
		}
		r := &agon.Receipt{ID: id, Run: "r", Attempt: 1, Reserved: 9, Payer: "run"}
		if _, err := a.settle(t.Context(), id, Amount{Micros: 7, Calls: 1}, r); err != nil {
			t.Fatal(err)
		}
		list = append(list, *r)
	}
	for _, c := range []struct {
		name, want string
		trusted    []string
		f          func(l []agon.Receipt) []agon.Receipt
	}{
		{"as it is", "", nil, func(l []agon.Receipt) []agon.Receipt { return l }},
		{"trusted", "", []string{b.Signer()}, func(l []agon.Receipt) []agon.Receipt { return l }},
		{"another key", "signer", []string{"5x"}, func(l []agon.Receipt) []agon.Receipt { return l }},
		{"other order", "", nil, func(l []agon.Receipt) []agon.Receipt { slices.Reverse(l); return l }},
		{"cost changed", "signature", nil, func(l []agon.Receipt) []agon.Receipt { l[1].Cost = 1; return l }},
		{"cost changed and signature dropped", "prev", nil, func(l []agon.Receipt) []agon.Receipt { l[1].Cost, l[1].Sig = 1, ""; return l }},
		{"one left out", "gap", nil, func(l []agon.Receipt) []agon.Receipt { return slices.Delete(l, 1, 2) }},
		{"last left out", "", nil, func(l []agon.Receipt) []agon.Receipt { return l[:3] }}, // only the head tells
		{"last unsigned", "unsigned", nil, func(l []agon.Receipt) []agon.Receipt { l[3].Sig = ""; return l }},
		{"a group under one signature", "", nil, func(l []agon.Receipt) []agon.Receipt { l[1].Sig, l[2].Sig = "", ""; return l }},
		{"other run", "signature", nil, func(l []agon.Receipt) []agon.Receipt { l[0].Run = "q"; return l }},
		{"bad hex", "signature", nil, func(l []agon.Receipt) []agon.Receipt { l[0].Sig = "zz"; return l }},
		{"none", "", nil, func([]agon.Receipt) []agon.Receipt { return nil }},
	} {
		got := VerifyChain(c.f(slices.Clone(list)), c.trusted)
		code := ""
		if len(got.Problems) > 0 {
			code = got.Problems[0].Code
		}
		if code != c.want {
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
	}
}

// A gateway that signs a receipt of more than it reserved broke the rule that no
// budget is overrun, however good its signature is.
func TestVerifyChainCost(t *testing.T) {
	for _, c := range []struct {
		reserved, cost agon.Micros
		want           string
	}{{9, 0, ""}, {9, 9, ""}, {0, 0, ""}, {9, 10, "cost"}, {0, 1, "cost"}, {-1, 0, "cost"}} {
		b, err := NewBooks(t.Context(), BooksConfig{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := b.open(t.Context(), "r", 1, "r/1/run", agon.Budget{Micros: 100, Calls: 10})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.reserve("1", Amount{Micros: max(c.reserved, c.cost), Calls: 1}); err != nil {
			t.Fatal(err)
		}
		r := &agon.Receipt{ID: "1", Run: "r", Attempt: 1, Reserved: c.reserved, Payer: "run"}
		if _, err := a.settle(t.Context(), "1", Amount{Micros: c.cost, Calls: 1}, r); err != nil {
			t.Fatal(err)
		}
		got := VerifyChain([]agon.Receipt{*r}, []string{b.Signer()})
		if r.Cost != c.cost || (c.want == "") != (len(got.Problems) == 0) || c.want != "" && (len(got.Problems) != 1 || got.Problems[0].Code != c.want) {
			t.Errorf("%d of %d reserved: receipt %+v, %+v", c.cost, c.reserved, r, got)
		}
	}
}

func TestLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.key")
	one, err := LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	two, err := LoadKey(path)
	if err != nil || one.SS58() != two.SS58() {
		t.Errorf("%v %v %v", one, two, err)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", st.Mode().Perm())
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); err == nil || !strings.Contains(err.Error(), "readable") {
		t.Errorf("open to others: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	_ = os.WriteFile(bad, []byte("abc"), 0o600)
	if _, err := LoadKey(bad); err == nil {
		t.Error("took a bad key")
	}
}
