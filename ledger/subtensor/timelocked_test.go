package subtensor_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/keeper"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/subtensor"
	"github.com/agon-arena/agon/ledger/timelock"
)

// A real round of the quicknet and its signature.
const (
	realRound     = 30668812
	realSignature = "b7e15d214002905b548474719ec134e1de7935c35b8b12028ced184c233a01555c1b163f8d2cab92cd69b205cd9c1e07"
)

// sealedLedger is a ledger whose weights come as timelocks, as the chain's do.
type sealedLedger struct {
	*local.Ledger

	mu      sync.Mutex // guards what follows
	commits []ledger.SealedCommit
	pulses  map[uint64][]byte
}

func (l *sealedLedger) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	m, err := l.Ledger.Metagraph(ctx, netuid)
	if err == nil {
		m.Hyper.CommitReveal = true
	}
	return m, err
}

func (l *sealedLedger) SetWeights(context.Context, uint16, string, ledger.Weights) error {
	return ledger.ErrCommitRevealEnabled
}

func (l *sealedLedger) CommitTimelocked(ctx context.Context, netuid uint16, hotkey string, data []byte, round uint64, version uint16) error {
	if err := timelock.Check(data); err != nil || version != timelock.Version {
		return &ledger.Error{Name: "IncorrectCommitRevealVersion", Message: fmt.Sprint(version, err)}
	}
	m, err := l.Metagraph(ctx, netuid)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits = append(l.commits, ledger.SealedCommit{Hotkey: hotkey, Epoch: m.EpochIndex(), Block: m.Block, Data: data, RevealRound: round})
	return nil
}

func (l *sealedLedger) Timelocked(context.Context, uint16) ([]ledger.SealedCommit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.commits), nil
}

func (l *sealedLedger) Pulse(_ context.Context, round uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pulses[round], nil
}

// reveal does what the chain does when it has the round. It takes every commit
// away; take sets the weights that they open to.
func (l *sealedLedger) reveal(t *testing.T, take bool) {
	t.Helper()
	l.mu.Lock()
	commits := l.commits
	l.commits = nil
	l.mu.Unlock()
	sig, err := hex.DecodeString(realSignature)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commits {
		plain, err := timelock.Decrypt(c.Data, sig)
		if err != nil {
			t.Fatal(err)
		}
		p, legacy, err := timelock.DecodePayload(plain)
		if err != nil || legacy {
			t.Fatalf("payload: %v, legacy %v", err, legacy)
		}
		if take {
			if err := l.Ledger.SetWeights(t.Context(), netuid, c.Hotkey, ledger.Weights{UIDs: p.UIDs, Values: p.Values, VersionKey: p.VersionKey}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestTimelockedWeights lets a keeper commit timelocked weights on a node in the
// form of runtime 424: to the round in which the reveal begins, in plain on disk
// until the ledger shows them, opened with the round's real signature.
func TestTimelockedWeights(t *testing.T) {
	for _, x := range []struct {
		name         string
		take         bool
		chain, relay bool // who has the round
		action       keeper.Action
		note         string
	}{
		{"revealed, the chain has the round", true, true, false, keeper.ActionRevealed, "revealed, and the commitment opens to them"},
		{"revealed, a relay has the round", true, false, true, keeper.ActionRevealed, "revealed, and the commitment opens to them"},
		{"revealed, nobody has the round", true, false, false, keeper.ActionRevealed, "was not opened here"},
		{"refused by the chain", false, true, false, keeper.ActionLost, "though the commitment opens to them"},
		{"lost, nobody has the round", false, false, false, keeper.ActionLost, "does not open"},
	} {
		t.Run(x.name, func(t *testing.T) {
			sig, err := hex.DecodeString(realSignature)
			if err != nil {
				t.Fatal(err)
			}
			inner := newLedger(t)
			l := &sealedLedger{Ledger: inner, pulses: map[uint64][]byte{}}
			if x.chain {
				l.pulses[realRound] = sig
			}
			n := newNode(t, l, inner, 424)
			relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !x.relay || !strings.HasSuffix(r.URL.Path, fmt.Sprintf("/%s/public/%d", timelock.ChainHash, realRound)) {
					http.NotFound(w, r)
					return
				}
				fmt.Fprintf(w, `{"round":%d,"signature":%q}`, realRound, realSignature)
			}))
			t.Cleanup(relay.Close)

			const tempo, start = 50, 20
			v := ledgertest.Key(t, "v")
			if _, err := inner.Register(t.Context(), netuid, v, ledgertest.Key(t, "v-cold")); err != nil {
				t.Fatal(err)
			}
			if err := inner.SetValidator(t.Context(), netuid, v, true, 100); err != nil {
				t.Fatal(err)
			}
			m, err := inner.Metagraph(t.Context(), netuid)
			if err != nil {
				t.Fatal(err)
			}
			m.Hyper.Tempo, m.Hyper.WeightsRateLimit, m.Hyper.RevealPeriod = tempo, 0, 1
			if err := inner.SetHyperparameters(t.Context(), netuid, m.Hyper); err != nil {
				t.Fatal(err)
			}
			if _, err := inner.Step(t.Context(), start); err != nil {
				t.Fatal(err)
			}
			if m, err = l.Metagraph(t.Context(), netuid); err != nil {
				t.Fatal(err)
			}
			reveal, _, err := m.RevealBlock()
			if err != nil {
				t.Fatal(err)
			}
			// A clock by which the real round is out three blocks into the epoch of the reveal.
			now := func() time.Time {
				b, err := inner.Block(context.Background())
				if err != nil {
					t.Error(err)
				}
				return time.Unix(timelock.Genesis+realRound*3, 0).Add(time.Duration(int64(b)-int64(reveal)-3) * 12 * time.Second)
			}
			c := client(t, subtensor.Config{URLs: []string{"ws" + strings.TrimPrefix(n.http.URL, "http")}, Now: now, Relays: []string{relay.URL}, Stall: time.Hour, Patience: time.Hour})
			path := filepath.Join(t.TempDir(), "keeper.json")
			open := func() *keeper.Keeper {
				k, err := keeper.Open(keeper.Config{Ledger: c, Netuid: netuid, Hotkey: v, Path: path})
				if err != nil {
					t.Fatal(err)
				}
				return k
			}
			tick := func(k *keeper.Keeper) keeper.Report {
				t.Helper()
				r, err := k.Tick(t.Context(), func(*ledger.Metagraph) ([]uint16, []uint16, error) { return []uint16{0, 1}, []uint16{65535, 7}, nil })
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			if r := tick(open()); !slices.Equal(r.Actions, []keeper.Action{keeper.ActionCommitted}) {
				t.Fatalf("first: %+v, plan %+v", r, r.Plan)
			}
			if len(l.commits) != 1 || l.commits[0].RevealRound != realRound {
				t.Fatalf("commits %+v, want one for round %d", l.commits, realRound)
			}
			file, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(file), `"values":[65535,7]`) {
				t.Errorf("the plaintext is not on disk: %s %v", file, err)
			}
			if _, err := c.OpenWeights(t.Context(), v, ledger.Sealed{Round: realRound, Data: l.commits[0].Data}); !errors.Is(err, ledger.ErrRoundNotOut) {
				t.Errorf("opened before its time: %v", err)
			}
			// Another process goes on from the file: the promise waits, and is not made again.
			if r := tick(open()); len(r.Actions) != 0 || !r.Done {
				t.Errorf("second: %+v", r)
			}
			if _, err := inner.Step(t.Context(), reveal+3-m.Block); err != nil {
				t.Fatal(err)
			}
			l.reveal(t, x.take)
			r := tick(open())
			if len(r.Actions) == 0 || r.Actions[0] != x.action || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], x.note) {
				t.Errorf("after the reveal: %+v", r)
			}
		})
	}
}

// TestSealedIsRefused names what the chain refuses of a timelock, and what this client does.
func TestSealedIsRefused(t *testing.T) {
	inner := newLedger(t)
	n := newNode(t, &sealedLedger{Ledger: inner}, inner, 424)
	f := newFaultNode(t, n, nth("author_submitExtrinsic", 0, rawAnswer(`{"jsonrpc":"2.0","id":$ID,"error":{"code":1010,"message":"Invalid Transaction","data":"Custom error: 15"}}`), send))
	c := client(t, subtensor.Config{URLs: []string{f.url(true)}})
	v := ledgertest.Key(t, "v")
	var refused *ledger.Error
	if _, err := c.CommitTimelocked(t.Context(), netuid, v, ledger.Weights{}, 1); !errors.As(err, &refused) || refused.Name != "InvalidRevealRound" {
		t.Errorf("an old round: %v", err)
	}
	// The embedded ledger's own form has no timelocks.
	c = client(t, subtensor.Config{URLs: []string{newNode(t, inner, inner, 0).http.URL}})
	m, err := c.Metagraph(t.Context(), netuid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SealWeights(t.Context(), m, v, ledger.Weights{}); !errors.Is(err, ledger.ErrNoTimelocks) {
		t.Errorf("a ledger without timelocks: %v", err)
	}
	// A version of commit-reveal whose layout is not known here is not guessed at.
	meta, err := scale.Decode(chainMetadata(t, 424))
	if err != nil {
		t.Fatal(err)
	}
	key, err := meta.StorageKey("SubtensorModule", "CommitRevealWeightsVersion")
	if err != nil {
		t.Fatal(err)
	}
	five := newFaultNode(t, n, scriptKey("0x"+hex.EncodeToString(key), "0x0500"))
	c = client(t, subtensor.Config{URLs: []string{five.url(true)}})
	if _, err := c.CommitTimelocked(t.Context(), netuid, v, ledger.Weights{}, 1); !errors.As(err, &refused) || refused.Name != "IncorrectCommitRevealVersion" {
		t.Errorf("another version: %v", err)
	}
}
