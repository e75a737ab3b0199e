package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// What the keeper that is killed is told by its environment.
const (
	envNode = "AGON_TEST_KEEPER_NODE" // address of the node
	envFile = "AGON_TEST_KEEPER_FILE" // of the keeper
	// envKills is how often TestKilledProcess kills; 0 = 8 times.
	envKills = "AGON_KEEPER_KILLS"
	// envSeed repeats a run of TestKilledProcess.
	envSeed = "AGON_KEEPER_SEED"

	killedKey = "//keeper//killed"
)

// TestKeeperProcess is the process that TestKilledProcess kills.
func TestKeeperProcess(t *testing.T) {
	node := os.Getenv(envNode)
	if node == "" {
		t.Skip("it is started by TestKilledProcess")
	}
	key, err := auth.KeyFromURI(killedKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := subtensor.New(subtensor.Config{
		URLs: []string{node}, Finalized: true, Poll: 20 * time.Millisecond, Period: 64, Signer: func(string) (auth.Signer, error) { return key, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	genesis, err := c.Genesis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		mechanism := uint8(i % 2)
		k, err := Open(Config{Ledger: c, Genesis: genesis, Netuid: 1, Mechanism: mechanism, Hotkey: key.SS58(), Path: fileOf(os.Getenv(envFile), mechanism)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Tick(t.Context(), func(*ledger.Metagraph) ([]uint16, []uint16, error) { return []uint16{0}, []uint16{65535}, nil }); err != nil {
			t.Log(err) // the next tick goes on
		}
	}
}

// fileOf is a keeper's file of a mechanism.
func fileOf(file string, mechanism uint8) string { return fmt.Sprintf("%s.%d", file, mechanism) }

// counted is a ledger that counts the promises that it took, by epoch and mechanism.
type counted struct {
	*local.Ledger

	mu       sync.Mutex
	commits  map[[2]uint64]int
	revealed [2]int
}

func (c *counted) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	return c.CommitMechanismWeights(ctx, netuid, 0, hotkey, hash)
}

func (c *counted) CommitMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, hash ledger.Hash) error {
	err := c.Ledger.CommitMechanismWeights(ctx, netuid, mechanism, hotkey, hash)
	if err != nil {
		return err
	}
	m, err := c.Ledger.Metagraph(ctx, netuid)
	if err != nil {
		return err
	}
	m, _ = m.Mechanism(mechanism)
	n, _ := m.Neuron(hotkey)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range n.Commits {
		if x.Hash == hash {
			c.commits[[2]uint64{x.Epoch, uint64(mechanism)}]++
		}
	}
	return nil
}

func (c *counted) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	return c.RevealMechanismWeights(ctx, netuid, 0, hotkey, w, salt)
}

func (c *counted) RevealMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights, salt []uint16) error {
	err := c.Ledger.RevealMechanismWeights(ctx, netuid, mechanism, hotkey, w, salt)
	if err == nil {
		c.mu.Lock()
		c.revealed[mechanism]++
		c.mu.Unlock()
	}
	return err
}

// TestKilledProcess kills a process that keeps weights on a node whose finality
// lags by 0 to 20 blocks: at a request drawn by the seed, before or after the
// node takes it. No plaintext of a promise that waits is lost, and no epoch is
// promised twice.
func TestKilledProcess(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if err != nil {
			return otherwise
		}
		return n
	}
	seed, want := number(envSeed, uint64(time.Now().UnixNano())), int(number(envKills, 8))
	t.Logf("%s=%d", envSeed, seed)
	r := rand.New(rand.NewPCG(seed, 1))
	lags := []uint64{0, 20}
	if want > 40 {
		lags = []uint64{0, 1, 3, 6, 10, 20}
	}
	commits, revealed, kills := [2]int{}, [2]int{}, 0
	for _, lag := range lags {
		c, n := killProcesses(t, r, lag, (want+len(lags)-1)/len(lags))
		kills += n
		for at, n := range c.commits {
			if n != 1 {
				t.Errorf("lag %d: %d promises in epoch %d of mechanism %d", lag, n, at[0], at[1])
			}
			commits[at[1]]++
		}
		for id, n := range c.revealed {
			revealed[id] += n
		}
	}
	t.Logf("%d kills, %d epochs promised, %d reveals, on each mechanism", kills, commits, revealed)
	if kills < want || commits[0] == 0 || commits[1] == 0 {
		t.Errorf("%d kills, %d epochs promised", kills, commits)
	}
}

// killProcesses kills so many processes at a node with one lag.
func killProcesses(t *testing.T, r *rand.Rand, lag uint64, want int) (*counted, int) {
	t.Helper()
	dir := t.TempDir()
	l, err := local.Open(t.Context(), filepath.Join(dir, "l.db"), local.Config{Preset: local.PresetDemo, BlockTime: 40 * time.Millisecond, Keep: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	key, err := auth.KeyFromURI(killedKey)
	if err != nil {
		t.Fatal(err)
	}
	h, err := local.Hyperparameters(local.PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.Tempo, h.WeightsRateLimit, h.CommitReveal = 60, 1, true
	if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: key.SS58(), OwnerColdkey: key.SS58(), Hyper: &h}); err != nil {
		t.Fatal(err)
	}
	if err := l.SetRule(t.Context(), 1, key.SS58(), "mechanism_count", 2); err != nil {
		t.Fatal(err)
	}
	c := &counted{Ledger: l, commits: map[[2]uint64]int{}}
	node, err := rpc.New(rpc.Config{Ledger: c, Genesis: t.Name(), Replay: l, BlockTime: l.BlockTime(), Lag: lag})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards what follows
	var child *exec.Cmd
	left, before := 0, false
	kill := func() {
		if child != nil {
			_ = child.Process.Kill()
			child = nil
		}
	}
	step := func(early bool) {
		mu.Lock()
		defer mu.Unlock()
		if early {
			left--
		}
		if left <= 0 && early == before {
			kill()
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		step(true)
		node.ServeHTTP(w, q)
		step(false)
	}))
	defer s.Close()
	file := filepath.Join(dir, "keeper.json")
	kills := 0
	promised := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		on := [2]bool{}
		for at := range c.commits {
			on[at[1]] = true
		}
		return on[0] && on[1]
	}
	for ; kills < want || !promised() && kills < 10*want; kills++ { // a slow machine promises later
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKeeperProcess$", "-test.timeout", "10m")
		cmd.Env = append(os.Environ(), envNode+"="+s.URL, envFile+"="+file, "GORACE=atexit_sleep_ms=0")
		mu.Lock()
		if err := cmd.Start(); err != nil {
			mu.Unlock()
			t.Fatal(err)
		}
		child, left, before = cmd, 1+r.IntN(1500), r.IntN(2) == 0
		mu.Unlock()
		if err := cmd.Wait(); err == nil {
			t.Fatal("the keeper ended by itself")
		}
		for id := range uint8(2) {
			for _, epoch := range lost(t, l, key.SS58(), fileOf(file, id), id) {
				t.Errorf("lag %d, kill %d: the plaintext of a promise of epoch %d of mechanism %d is lost", lag, kills, epoch, id)
			}
		}
	}
	return c, kills
}

// lost lists the epochs of a mechanism's promises that wait and of which the file has no plaintext.
func lost(t *testing.T, l *local.Ledger, hotkey, file string, mechanism uint8) (epochs []uint64) {
	t.Helper()
	promises := map[ledger.Hash]bool{}
	k := &Keeper{cfg: Config{Netuid: 1, Mechanism: mechanism, Hotkey: hotkey}}
	if kept, err := k.read(file); err == nil {
		for _, p := range kept.Promises {
			hash, err := ledger.CommitHash(hotkey, 1+ledger.MechanismStep*uint16(mechanism), p.Weights, p.Salt)
			if err != nil {
				t.Fatal(err)
			}
			promises[hash] = true
		}
	}
	m, err := l.Metagraph(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	m, _ = m.Mechanism(mechanism)
	n, _ := m.Neuron(hotkey)
	for _, x := range n.Commits {
		if x.Epoch+m.Hyper.RevealEpochs() >= m.EpochIndex() && !promises[x.Hash] {
			epochs = append(epochs, x.Epoch)
		}
	}
	return epochs
}
