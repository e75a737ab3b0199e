//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/timelock"
)

const (
	tempos = 10 // that TestTempos runs with the weights of all validators
	miners = 4
)

// tempoValidator is a validator of TestTempos.
type tempoValidator struct {
	env, script, library string // of its SDK; library holds drand's key
	name                 string
	stake                int64 // TAO
	rows                 [][]uint16
}

// said is a line of a validator.
type said struct {
	who       int
	Epoch     *uint64  `json:"epoch"`
	Consensus []uint16 `json:"consensus"`
	Incentive []uint16 `json:"incentive"`
	Gave      *uint64  `json:"gave"`
	OK        bool     `json:"ok"`
	Says      string   `json:"says"`
}

// TestTempos lets three validators written with SDK 10.5 and two with 11.3 weigh
// four miners for ten tempos, committed with timelocks in each and opened by
// rounds that a beacon of ours signs. What each SDK reads of consensus and
// incentive in each tempo is what Yuma says, computed here from the weights as
// fractions. Of the SDKs only drand's key is another, in a copy of their library.
func TestTempos(t *testing.T) {
	beacon := timelock.NewBeacon([]byte("interop"))
	// The SDKs aim three blocks into an epoch and take a round that is out three to six
	// seconds before. With quicker blocks it may be out before the epoch, which
	// then counts the weights a tempo earlier.
	l, url := localnetOf(t, 2*time.Second, beacon.Key(), 0, func(h *ledger.Hyperparameters) { h.Tempo, h.CommitReveal = 10, true })
	go l.FollowRounds(t.Context(), 200*time.Millisecond, beacon.Signature, slog.New(slog.DiscardHandler))
	for i := range miners {
		if _, err := l.Register(t.Context(), 1, ledgertest.Key(t, fmt.Sprint("miner", i)), ledgertest.Key(t, "miners")); err != nil {
			t.Fatal(err)
		}
	}
	ten := tempoValidator{env: "sdk", script: "validator10.py", library: "bittensor_drand"}
	eleven := tempoValidator{env: "sdk11", script: "validator11.py", library: "bittensor_core"}
	validators := []tempoValidator{ten, ten, ten, eleven, eleven}
	lines := make(chan said, 100)
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range validators {
		v := &validators[i]
		v.name, v.stake = fmt.Sprintf("//validator%d", i), []int64{100, 250, 300, 150, 200}[i]
		for range 1000 {
			row := make([]uint16, miners)
			for j := range row {
				row[j] = uint16(1 + r.IntN(65535))
			}
			row[r.IntN(miners)] = 65535
			v.rows = append(v.rows, row)
		}
		startValidator(t, dir, url, i, *v, beacon.Key(), lines)
	}
	gave := make([]map[uint64]bool, len(validators))
	for i := range gave {
		gave[i] = map[uint64]bool{}
	}
	whole := func(epoch uint64) bool {
		return !slices.ContainsFunc(gave, func(g map[uint64]bool) bool { return !g[epoch] })
	}
	checked := map[uint64]map[int]bool{} // who saw the consensus of an epoch's weights
	deadline := time.After(10 * time.Minute)
	for seen := 0; seen < tempos; {
		var x said
		select {
		case x = <-lines:
		case <-deadline:
			t.Fatalf("%d tempos after ten minutes", seen)
		}
		switch {
		case x.Gave != nil && !x.OK:
			t.Errorf("validator %d in epoch %d: %s", x.who, *x.Gave, x.Says)
		case x.Gave != nil:
			gave[x.who][*x.Gave] = true
		case x.Epoch != nil && *x.Epoch >= 2 && whole(*x.Epoch-2):
			// What is committed in an epoch is opened in the next and counts at its end.
			of := *x.Epoch - 2
			consensus, incentive := yumaOf(validators, of)
			near(t, fmt.Sprintf("epoch %d: consensus, read by validator %d", of, x.who), x.Consensus, consensus)
			near(t, fmt.Sprintf("epoch %d: incentive, read by validator %d", of, x.who), x.Incentive, incentive)
			if checked[of] == nil {
				checked[of] = map[int]bool{}
			}
			if checked[of][x.who] = true; len(checked[of]) == len(validators) {
				seen++
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d tempos of five validators", tempos)
}

// startValidator starts a validator, which is killed with the test.
func startValidator(t *testing.T, dir, url string, who int, v tempoValidator, key timelock.Key, lines chan<- said) {
	t.Helper()
	packages := filepath.Join(dir, v.env)
	if _, err := os.Stat(packages); err != nil {
		replaceDrand(t, packages, v, key)
	}
	b, err := json.Marshal(v.rows)
	if err != nil {
		t.Fatal(err)
	}
	rows := filepath.Join(dir, fmt.Sprintf("rows%d.json", who))
	if err := os.WriteFile(rows, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), interoptest.Python(t, v.env), v.script, url, v.name, fmt.Sprint(v.stake), rows)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "NO_PROXY=*", "PYTHONPATH="+packages)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		s := bufio.NewScanner(out)
		for s.Scan() {
			x := said{who: who}
			if json.Unmarshal(s.Bytes(), &x) != nil {
				continue // what the SDK prints of itself
			}
			select {
			case lines <- x:
			case <-t.Context().Done():
			}
		}
		if err := cmd.Wait(); t.Context().Err() == nil {
			t.Errorf("validator %d ended: %v\n%s", who, err, errs.String())
		}
	})
	t.Cleanup(done.Wait) // the context of the test is over by then
}

// replaceDrand copies the library of an SDK that seals weights, with another
// key of drand in it than quicknet's.
func replaceDrand(t *testing.T, packages string, v tempoValidator, key timelock.Key) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(interoptest.Dir(t), v.env, "lib", "python3*", "site-packages", v.library))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v %v", v.library, found, err)
	}
	to := filepath.Join(packages, v.library)
	if err := os.CopyFS(to, os.DirFS(found[0])); err != nil {
		t.Fatal(err)
	}
	libraries, err := filepath.Glob(filepath.Join(to, "*.so"))
	if err != nil || len(libraries) != 1 {
		t.Fatalf("%s: %v %v", to, libraries, err)
	}
	b, err := os.ReadFile(libraries[0])
	if err != nil {
		t.Fatal(err)
	}
	quicknet := []byte(timelock.Key{}.String())
	if !bytes.Contains(b, quicknet) {
		t.Fatalf("%s has no key of quicknet", libraries[0])
	}
	if err := os.WriteFile(libraries[0], bytes.ReplaceAll(b, quicknet, []byte(key.String())), 0o700); err != nil {
		t.Fatal(err)
	}
}

// yumaOf computes consensus and incentive of the miners from the weights of an
// epoch, as fractions: the consensus of a miner is the largest weight that half
// of the stake gives it or more, its incentive its part of what the stake gives up to that.
func yumaOf(validators []tempoValidator, epoch uint64) (consensus, incentive []uint16) {
	total, kappa := new(big.Rat), big.NewRat(32767, 65535)
	for _, v := range validators {
		total.Add(total, big.NewRat(v.stake, 1))
	}
	shares := make([][]*big.Rat, len(validators))
	for i, v := range validators {
		var sum int64
		for _, w := range v.rows[epoch] {
			sum += int64(w)
		}
		for _, w := range v.rows[epoch] {
			shares[i] = append(shares[i], big.NewRat(int64(w), sum))
		}
	}
	all := new(big.Rat)
	ranks := make([]*big.Rat, miners)
	out := make([]*big.Rat, miners)
	for j := range miners {
		best := new(big.Rat)
		for i := range validators {
			behind := new(big.Rat)
			for k, v := range validators {
				if shares[k][j].Cmp(shares[i][j]) >= 0 {
					behind.Add(behind, new(big.Rat).Quo(big.NewRat(v.stake, 1), total))
				}
			}
			if behind.Cmp(kappa) >= 0 && shares[i][j].Cmp(best) > 0 {
				best = shares[i][j]
			}
		}
		ranks[j], out[j] = new(big.Rat), best
		for i, v := range validators {
			w := shares[i][j]
			if w.Cmp(best) > 0 {
				w = best
			}
			ranks[j].Add(ranks[j], new(big.Rat).Mul(w, new(big.Rat).Quo(big.NewRat(v.stake, 1), total)))
		}
		all.Add(all, ranks[j])
	}
	u16 := func(x *big.Rat) uint16 {
		n := new(big.Int).Mul(x.Num(), big.NewInt(65535))
		return uint16(n.Quo(n, x.Denom()).Uint64())
	}
	for j := range miners {
		consensus, incentive = append(consensus, u16(out[j])), append(incentive, u16(new(big.Rat).Quo(ranks[j], all)))
	}
	return consensus, incentive
}

// near compares the miners, which have the uids from 1, within one of 65535: the
// chain counts in fixed point.
func near(t *testing.T, what string, got, want []uint16) {
	t.Helper()
	if len(got) <= len(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
		return
	}
	for i, g := range got {
		w := 0
		if i >= 1 && i <= len(want) {
			w = int(want[i-1])
		}
		if d := int(g) - w; d < -1 || d > 1 {
			t.Errorf("%s: %v, want %v from uid 1", what, got, want)
			return
		}
	}
}
