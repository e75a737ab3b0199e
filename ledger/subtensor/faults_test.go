package subtensor_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// nth makes a script that does something with the n-th request of a method, from 1; 0 = each.
func nth(method string, n int32, result any, do act) script {
	var count atomic.Int32
	return func(q *asked, _ func() json.RawMessage) (any, act) {
		if q.Method != method || n > 0 && count.Add(1) != n {
			return nil, send
		}
		return result, do
	}
}

// every makes a script that does the same with every n-th request.
func every(n int32, do act) script {
	var count atomic.Int32
	return func(*asked, func() json.RawMessage) (any, act) {
		if count.Add(1)%n == 0 {
			return nil, do
		}
		return nil, send
	}
}

// TestFaults lets a validator live against a node with the metadata of a real
// runtime that cuts, delays, reorders, half-opens and lies: each ends in the
// right result, or in an error that says what is wrong, and in time.
func TestFaults(t *testing.T) {
	const short = 5 * time.Second // also what the sound node has for an answer
	l := newLedger(t)
	n := newNode(t, l, l, 424)
	row := 0
	for _, x := range []struct {
		name   string
		script func() script
		http   bool // asked over HTTP too, besides WebSocket
		spare  bool // a sound node beside it
		short  bool // wait only a little for an answer
		want   error
	}{
		{name: "sound", script: func() script { return every(1<<30, send) }, http: true},
		{name: "cuts instead of answering, alone", script: func() script { return nth("chain_getHeader", 0, nil, cut) }, http: true, want: subtensor.ErrNoNode},
		{name: "cuts every seventh answer", script: func() script { return every(7, cut) }, http: true, spare: true},
		{name: "cuts answers in the middle", script: func() script { return every(5, half) }, http: true, spare: true},
		{name: "half-opens: a request is never answered", script: func() script { return nth("chain_getHeader", 2, nil, silent) }, http: true, spare: true, short: true},
		{name: "half-opens: none is answered any more, alone", script: func() script { return nth("chain_getHeader", 0, nil, silent) }, http: true, short: true, want: subtensor.ErrNoNode},
		{name: "half-opens before the submission is answered", script: func() script { return nth("author_submitExtrinsic", 1, nil, silent) }, http: true, spare: true, short: true},
		{name: "cuts after the submission", script: func() script { return nth("author_submitExtrinsic", 1, nil, cut) }, http: true, spare: true},
		{name: "delays and reorders answers", script: func() script { return every(2, late) }},
		{name: "answers twice", script: func() script { return every(3, twice) }},
		{name: "says more than it sends", script: func() script { return every(6, frame) }, http: true, spare: true},
		{name: "answers what nobody asked", script: func() script {
			return nth("chain_getHeader", 1, rawAnswer(`{"jsonrpc":"2.0","id":4000000000,"result":{"number":"0x7"}}`), send)
		}, spare: true, short: true},
		{name: "speaks no JSON", script: func() script { return nth("chain_getHeader", 1, rawAnswer(`<html>busy</html>`), send) }, http: true, spare: true},
		{name: "cuts metadata", script: func() script {
			return func(q *asked, real func() json.RawMessage) (any, act) {
				if q.text(0) == "Metadata_metadata_at_version" || q.Method == "state_getMetadata" {
					var s string
					_ = json.Unmarshal(real(), &s)
					return s[:len(s)/4*2], send
				}
				return nil, send
			}
		}, http: true, want: scale.ErrShort},
		{name: "has no metadata of version 15", script: func() script {
			return func(q *asked, _ func() json.RawMessage) (any, act) {
				if q.text(0) == "Metadata_metadata_at_version" {
					return rawAnswer(`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"Method not found"}}`), send
				}
				return nil, send
			}
		}},
		{name: "lies about the length of a list", script: func() script {
			return func(q *asked, real func() json.RawMessage) (any, act) {
				if q.text(0) != "SubnetInfoRuntimeApi_get_metagraph" {
					return nil, send
				}
				var s string
				_ = json.Unmarshal(real(), &s)
				return strings.Replace(s, "0x01", "0x01feffffff", 1), send // the name then has a gigabyte
			}
		}, http: true, want: subtensor.ErrBadState},
		{name: "lies about the length of storage", script: func() script {
			return func(q *asked, _ func() json.RawMessage) (any, act) {
				if q.Method == "state_queryStorageAt" {
					var keys []string
					_ = json.Unmarshal(q.Params[0], &keys)
					changes := [][2]string{}
					for _, k := range keys {
						changes = append(changes, [2]string{k, "0xfeffffff01"})
					}
					return []any{map[string]any{"block": "0x", "changes": changes}}, send
				}
				return nil, send
			}
		}, http: true, want: errAny},
		{name: "pages of keys that never end", script: func() script {
			return func(q *asked, _ func() json.RawMessage) (any, act) {
				if q.Method == "state_getKeysPaged" {
					return slices.Repeat([]string{q.text(0) + "00"}, 500), send
				}
				return nil, send
			}
		}, http: true, want: subtensor.ErrBadState},
	} {
		for _, ws := range []bool{true, false} {
			if !ws && !x.http {
				continue
			}
			miner := fmt.Sprint("row", row)
			row++
			t.Run(fmt.Sprintf("%s, websocket %v", x.name, ws), func(t *testing.T) {
				if x.short {
					t.Parallel() // they wait
				}
				f := newFaultNode(t, n, x.script())
				cfg := subtensor.Config{URLs: []string{f.url(ws)}, Timeout: 30 * time.Second}
				if x.short {
					cfg.Timeout = short
				}
				if x.spare {
					cfg.URLs = append(cfg.URLs, n.http.URL)
				}
				c := client(t, cfg)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				err := live(ctx, t, c, miner)
				if ctx.Err() != nil {
					t.Fatalf("it hangs: %v", err)
				}
				if x.want != nil {
					if err == nil || x.want != errAny && !errors.Is(err, x.want) {
						t.Errorf("%v, want %v", err, x.want)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				m, err := l.Metagraph(t.Context(), netuid)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := m.Neuron(ledgertest.Key(t, miner)); !ok {
					t.Error("the miner is not registered")
				}
			})
		}
	}
}

// errAny stands for an error of any kind.
var errAny = errors.New("any")

// live registers a miner, and reads it back, by four readers at once.
func live(ctx context.Context, t *testing.T, c *subtensor.Client, miner string) error {
	t.Helper()
	a := ledgertest.Key(t, miner)
	if _, err := c.Register(ctx, netuid, a, ledgertest.Key(t, miner+"-cold")); err != nil {
		return err
	}
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			m, err := c.Metagraph(ctx, netuid)
			if err == nil {
				if n, ok := m.Neuron(a); !ok || n.UID == 0 || n.Coldkey == "" {
					err = fmt.Errorf("the miner is %+v", n)
				}
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// TestHugeFrame leaves a node that announces a terabyte.
func TestHugeFrame(t *testing.T) {
	t.Parallel() // it waits
	_, s := newBed(t)
	c := client(t, subtensor.Config{URLs: []string{hugeFrame(t), s.URL}, Timeout: 5 * time.Second})
	if _, err := c.Block(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := c.Health(); h[0].Failed == 0 || !h[1].InUse {
		t.Errorf("health %+v", h)
	}
}

// fork is a chain on which the block of a submission is retracted: another
// empty block takes its place, and the submission comes into the next one when
// it is sent again.
type fork struct {
	mu     sync.Mutex // guards what follows
	block  uint64     // of the submission; 0 = not yet
	hash   string     // of that block
	gone   bool       // it is retracted
	sent   int        // how often the submission was sent
	onRead string     // the method whose request retracts the block
	hashOf func(uint64) string
}

const forked = "0xf0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0"

func (k *fork) script(q *asked, real func() json.RawMessage) (any, act) {
	k.mu.Lock()
	defer k.mu.Unlock()
	again := k.gone && k.sent > 1 // the submission is in the block after
	switch q.Method {
	case "author_submitExtrinsic":
		k.sent++
	case "chain_getBlock":
		if q.text(0) == forked {
			return map[string]any{"block": map[string]any{"header": map[string]any{}, "extrinsics": []string{}}}, send
		}
		r := real()
		if k.block == 0 && strings.Contains(string(r), `"extrinsics":["0x`) {
			var b struct {
				Block struct {
					Header struct{ Number string }
				}
			}
			_ = json.Unmarshal(r, &b)
			_, _ = fmt.Sscanf(b.Block.Header.Number, "0x%x", &k.block)
			k.hash = q.text(0)
			k.gone = k.onRead == q.Method
		}
		return r, send
	case "state_getStorage":
		k.gone = k.gone || k.block > 0 && k.onRead == q.Method
	case "chain_getFinalizedHead":
		if k.block > 0 && !again {
			return k.hashOf(k.block - 1), send
		}
		if again {
			return k.hash, send
		}
	case "chain_getBlockHash":
		n, ok := q.number(0)
		switch {
		case !k.gone:
		case !ok && again, ok && n == k.block+1 && again:
			return k.hash, send
		case !ok, n == k.block:
			return forked, send
		case n > k.block:
			return absent, send
		}
	case "chain_getHeader":
		switch {
		case q.text(0) == forked:
			return map[string]any{"number": fmt.Sprintf("0x%x", k.block)}, send
		case again && q.text(0) == k.hash:
			return map[string]any{"number": fmt.Sprintf("0x%x", k.block+1), "parentHash": k.hashOf(k.block - 1)}, send // whose runtime is that of the fork
		}
	}
	return nil, send
}

// TestRetracted loses the block that a submission is in: before it is final, and
// between its sight and its events. It is told, sent again and found again.
func TestRetracted(t *testing.T) {
	for _, x := range []struct {
		name   string
		final  bool
		onRead string
	}{
		{"finalized", true, "chain_getBlock"},
		{"in a block, retracted under its events", false, "state_getStorage"},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := newLedger(t)
			if _, err := l.Step(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			n := newNode(t, l, l, 424)
			plain := client(t, subtensor.Config{URLs: []string{n.http.URL}})
			k := &fork{onRead: x.onRead, hashOf: func(b uint64) string { return subtensor.HashAt(t.Context(), plain, b) }}
			f := newFaultNode(t, n, k.script)
			var told []uint64
			var in subtensor.Included
			c := client(t, subtensor.Config{
				URLs: []string{f.url(true)}, Finalized: x.final, Retracted: func(_ string, b uint64) { told = append(told, b) }, Included: func(i subtensor.Included) { in = i },
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if _, err := c.Submit(ctx, ledgertest.Key(t, "a"), "System", "remark", scale.Map{"remark": scale.Bytes("x")}); err != nil {
				t.Fatal(err)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			if in.Block != k.block+1 || in.BlockHash != k.hash || k.sent < 2 || !slices.Equal(told, []uint64{k.block}) {
				t.Errorf("included in %d, sent %d times, told of %v; it was in %d first", in.Block, k.sent, told, k.block)
			}
		})
	}
}

// TestPatience ends the wait for an extrinsic on a chain that stands still.
func TestPatience(t *testing.T) {
	l := newLedger(t)
	n := newNode(t, l, l, 424)
	f := newFaultNode(t, n, func(q *asked, real func() json.RawMessage) (any, act) {
		if q.Method == "author_submitExtrinsic" { // taken, and never in a block
			return forked, send
		}
		return nil, send
	})
	c := client(t, subtensor.Config{URLs: []string{f.url(true)}, Patience: time.Minute, Stall: time.Hour, Now: fastClock()})
	if err := registers(t, c); !errors.Is(err, subtensor.ErrStalled) {
		t.Errorf("%v", err)
	}
}

// TestEraEnds says that an extrinsic can be taken no more, after it was sent more than once.
func TestEraEnds(t *testing.T) {
	l := newLedger(t)
	n := newNode(t, l, l, 424)
	var sent atomic.Int32
	f := newFaultNode(t, n, func(q *asked, real func() json.RawMessage) (any, act) {
		switch q.Method {
		case "author_submitExtrinsic":
			sent.Add(1)
			return forked, send
		case "chain_getHeader":
			if sent.Load() > 0 {
				if _, err := l.Step(t.Context(), 1); err != nil {
					t.Error(err)
				}
			}
		}
		return nil, send
	})
	c := client(t, subtensor.Config{URLs: []string{f.url(true)}, Period: 32})
	if err := registers(t, c); !errors.Is(err, subtensor.ErrUnknownFate) || sent.Load() < 2 {
		t.Errorf("sent %d times: %v", sent.Load(), err)
	}
}

// TestRuntimeUpgrade reads and submits over an upgrade from runtime 393 to 424:
// what is of a block is read as its runtime wrote it.
func TestRuntimeUpgrade(t *testing.T) {
	for _, atSubmit := range []bool{false, true} {
		t.Run(fmt.Sprint("at the submission ", atSubmit), func(t *testing.T) {
			l := newLedger(t)
			if _, err := l.Step(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			old, next := newNode(t, l, l, 393), newNode(t, l, l, 424)
			var upgraded atomic.Bool
			f := newFaultNode(t, switchHandler{&upgraded, old, next}, func(q *asked, _ func() json.RawMessage) (any, act) {
				if q.Method == "author_submitExtrinsic" && atSubmit {
					upgraded.Store(true)
				}
				return nil, send
			})
			c := client(t, subtensor.Config{URLs: []string{f.url(true)}})
			m, err := c.Metagraph(t.Context(), netuid)
			if err != nil || m.Hyper.Model != ledger.Modulo {
				t.Fatalf("before: %v", err)
			}
			if !atSubmit {
				upgraded.Store(true)
			}
			if err := live(t.Context(), t, c, "a"); err != nil {
				t.Fatal(err)
			}
			if m, err = c.Metagraph(t.Context(), netuid); err != nil || m.Hyper.Model != ledger.Dynamic || len(m.Neurons) != 2 {
				t.Errorf("after: %+v %v", m, err)
			}
		})
	}
}

// TestRefusedInBlockOfUpgrade: the events of the block of an upgrade were written
// by the runtime before it, by whose metadata a refusal has its name.
func TestRefusedInBlockOfUpgrade(t *testing.T) {
	l := newLedger(t)
	if _, err := l.Step(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	old, next := newNode(t, l, l, 393), newNode(t, l, l, 424)
	var sent atomic.Bool
	spoken := map[string]bool{} // hashes of which the next runtime is in force
	// The block that takes the extrinsic is that of the upgrade: its state names
	// the new runtime, its events are of the old one.
	f := newFaultNode(t, old, func(q *asked, _ func() json.RawMessage) (any, act) {
		switch {
		case q.Method == "author_submitExtrinsic":
			sent.Store(true)
		case q.Method == "state_getRuntimeVersion" && sent.Load() && (q.text(0) == "" || spoken[q.text(0)]):
			return map[string]any{"specVersion": 424, "transactionVersion": 1}, send
		case q.Method == "chain_getBlock" && sent.Load():
			spoken[q.text(0)] = true
		case q.text(0) == "Metadata_metadata_at_version" && spoken[q.text(2)]:
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"state_call","params":["Metadata_metadata_at_version","0x0f000000"]}`)))
			var r struct{ Result string }
			if err := json.Unmarshal(rec.Body.Bytes(), &r); err != nil {
				t.Error(err)
			}
			return r.Result, send
		}
		return nil, send
	})
	c := client(t, subtensor.Config{URLs: []string{f.url(true)}})
	v := ledgertest.Key(t, "owner")
	err := c.SetWeights(t.Context(), netuid, v, ledger.Weights{UIDs: []uint16{0, 0}, Values: []uint16{1, 1}})
	if !sent.Load() || !errors.Is(err, ledger.ErrTooManyUIDs) {
		t.Errorf("refused in the block of the upgrade: %v, sent %v", err, sent.Load())
	}
}

// TestGenesisIsPinned: the first node that answers does not decide what chain it is.
func TestGenesisIsPinned(t *testing.T) {
	_, s := newBed(t)
	c := client(t, subtensor.Config{URLs: []string{s.URL}, Genesis: subtensor.Genesis["finney"]})
	if _, err := c.Block(t.Context()); !errors.Is(err, subtensor.ErrGenesis) {
		t.Errorf("a node of another chain: %v", err)
	}
	free := client(t, subtensor.Config{URLs: []string{s.URL}})
	if _, err := subtensor.New(subtensor.Config{URLs: []string{s.URL}, Genesis: "0x12"}); err == nil {
		t.Error("a short genesis was taken")
	}
	own := client(t, subtensor.Config{URLs: []string{s.URL}, Genesis: subtensor.HashAt(t.Context(), free, 0)})
	if _, err := own.Block(t.Context()); err != nil {
		t.Errorf("its own genesis: %v", err)
	}
}

// TestPoolCodesOfOlderRuntimes names the code of a registration that comes while
// the interval is full, and invents none for the others.
func TestPoolCodesOfOlderRuntimes(t *testing.T) {
	l := newLedger(t)
	n := newNode(t, l, l, 393)
	f := newFaultNode(t, n, nth("author_submitExtrinsic", 0, rawAnswer(`{"jsonrpc":"2.0","id":$ID,"error":{"code":1010,"message":"Invalid Transaction","data":"Custom error: 5"}}`), send))
	c := client(t, subtensor.Config{URLs: []string{f.url(true)}})
	var refused *ledger.Error
	if err := registers(t, c); !errors.As(err, &refused) || refused.Name != "TooManyRegistrationsThisInterval" {
		t.Errorf("registration: %v", err)
	}
	if err := c.SetWeights(t.Context(), netuid, ledgertest.Key(t, "owner"), ledger.Weights{}); !errors.As(err, &refused) || refused.Name != "Custom5" {
		t.Errorf("weights: %v", err)
	}
}

// TestImmortal sends an extrinsic that never dies, and one that has an era.
func TestImmortal(t *testing.T) {
	for _, immortal := range []bool{true, false} {
		l := newLedger(t)
		n := newNode(t, l, l, 424)
		var era atomic.Value
		f := newFaultNode(t, n, func(q *asked, _ func() json.RawMessage) (any, act) {
			if q.Method == "author_submitExtrinsic" {
				raw, err := hex.DecodeString(strings.TrimPrefix(q.text(0), "0x"))
				if err != nil {
					t.Error(err)
				}
				x, err := n.meta.ParseExtrinsic(raw)
				if err != nil {
					t.Error(err)
					return nil, cut
				}
				era.Store(fmt.Sprintf("%x", x.Era))
			}
			return nil, send
		})
		if err := live(t.Context(), t, client(t, subtensor.Config{URLs: []string{f.url(true)}, Immortal: immortal}), "a"); err != nil {
			t.Fatal(err)
		}
		if e := era.Load().(string); immortal != (e == "00") || !immortal && len(e) != 4 {
			t.Errorf("immortal %v: era %s", immortal, e)
		}
	}
}
