package roles

import (
	"context"
	"encoding/json"
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

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
)

// countedPromises is a ledger that counts the promises and reveals that it took, by epoch.
type countedPromises struct {
	*local.Ledger

	mu       sync.Mutex
	commits  map[uint64]int
	revealed int
}

func (c *countedPromises) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	if err := c.Ledger.CommitWeights(ctx, netuid, hotkey, hash); err != nil {
		return err
	}
	m, err := c.Metagraph(ctx, netuid)
	if err != nil {
		return err
	}
	n, _ := m.Neuron(hotkey)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range n.Commits {
		if x.Hash == hash {
			c.commits[x.Epoch]++
		}
	}
	return nil
}

func (c *countedPromises) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	err := c.Ledger.RevealWeights(ctx, netuid, hotkey, w, salt)
	if err == nil {
		c.mu.Lock()
		c.revealed++
		c.mu.Unlock()
	}
	return err
}

func (c *countedPromises) promised() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.commits)
}

// TestValidatorKilledOnChain kills `agon validator`, which commits and reveals
// weights on a node whose finality lags by 0 to 20 blocks: at a request to the
// node drawn by the seed (AGON_KEEPER_SEED), before or after the node takes it,
// AGON_KEEPER_KILLS times; without that, twice at a lag of 6, and on until an
// epoch is promised. No plaintext of a promise that waits is lost, and no epoch
// is promised twice.
func TestValidatorKilledOnChain(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if err != nil {
			return otherwise
		}
		return n
	}
	seed, want := number("AGON_KEEPER_SEED", uint64(time.Now().UnixNano())), int(number("AGON_KEEPER_KILLS", 0))
	lags, kills := []uint64{0, 1, 3, 6, 10, 20}, 0
	if want == 0 { // make chainkills runs the whole of it, which takes minutes
		lags, want = []uint64{6}, 2
	}
	t.Logf("AGON_KEEPER_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	c, s, f, val := promisingArena(t)
	data := t.TempDir()
	if err := os.Chmod(data, 0o755); err != nil { // boxes enter it
		t.Fatal(err)
	}
	k := &killer{t: t, server: s, data: data, hotkey: val.Hotkey.SS58(), ledger: c, rand: r}
	for _, lag := range lags {
		kills += k.round(f.Netuid, lag, (want+len(lags)-1)/len(lags))
	}
	for epoch, n := range c.commits {
		if n != 1 {
			t.Errorf("%d promises in epoch %d", n, epoch)
		}
	}
	t.Logf("%d kills, %d epochs promised, %d reveals", kills, len(c.commits), c.revealed)
	if kills < want || len(c.commits) == 0 {
		t.Errorf("%d kills, %d epochs promised", kills, len(c.commits))
	}
}

// promisingArena is a platform with an arena that has a seat to give weights to,
// on a ledger of quick blocks where weights are committed and revealed.
func promisingArena(t *testing.T) (*countedPromises, *server, kit.ArenaFile, *kit.Party) {
	t.Helper()
	ctx := t.Context()
	o := testOptions(t.TempDir())
	quick, err := local.Open(ctx, filepath.Join(o.Data, "ledger.db"), local.Config{Preset: local.PresetDemo, BlockTime: 40 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := quick.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := openServer(ctx, o, o.Kinds(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	val, err := kit.LoadParty(s.Data.Path("wallets"), "validator")
	if err != nil {
		t.Fatal(err)
	}
	f, err := kit.LoadArenaFile(claimArena(t, 3), kinds.All())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.openArena(ctx, f, val); err != nil {
		t.Fatal(err)
	}
	m, err := s.Ledger.Metagraph(ctx, f.Netuid)
	if err != nil {
		t.Fatal(err)
	}
	m.Hyper.Tempo, m.Hyper.WeightsRateLimit, m.Hyper.CommitReveal = 150, 1, true
	if err := s.Ledger.SetHyperparameters(ctx, f.Netuid, m.Hyper); err != nil {
		t.Fatal(err)
	}
	s.gate.open.Store(true)
	miner, err := kit.LoadParty(s.Data.Path("wallets"), "miner")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureRegistered(ctx, f.Arena(), miner); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.URL(), miner.Hotkey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(ctx, f.ID, client.SubmitRequest{Name: "first", Licence: f.Licence, Files: []client.File{{Path: play.AgentFile, Content: []byte(slowScript("values[0]"))}}}); err != nil {
		t.Fatal(err)
	}
	return &countedPromises{Ledger: s.Ledger, commits: map[uint64]int{}}, s, f, val
}

// killer starts validators and kills them.
type killer struct {
	t      *testing.T
	server *server
	data   string // of the validator
	hotkey string
	ledger *countedPromises
	rand   *rand.Rand

	mu     sync.Mutex // guards what follows
	child  *exec.Cmd
	left   int  // requests until the kill
	before bool // it is killed before the node takes the last of them
	armed  bool // the arena has a seat: requests count
}

// step counts a request, early before and late after the node took it.
func (k *killer) step(early bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if early && k.armed {
		k.left--
	}
	if k.left <= 0 && early == k.before && k.child != nil {
		_ = k.child.Process.Kill()
		k.child = nil
	}
}

// round kills so many validators at a node with one lag, and one more where none of them promised anything.
func (k *killer) round(netuid uint16, lag uint64, want int) (kills int) {
	k.t.Helper()
	node, err := rpc.New(rpc.Config{Ledger: k.ledger, Genesis: k.t.Name(), Replay: k.ledger.Ledger, BlockTime: k.ledger.BlockTime(), Lag: lag})
	if err != nil {
		k.t.Fatal(err)
	}
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		k.step(true)
		node.ServeHTTP(w, q)
		k.step(false)
	}))
	defer at.Close()
	exe, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	promised := k.ledger.promised()
	for ; kills < want || k.ledger.promised() == promised && kills < 10*want; kills++ {
		cmd := exec.CommandContext(k.t.Context(), exe)
		cmd.Env = append(os.Environ(), "AGON_TEST_VALIDATOR="+k.server.URL(), "AGON_TEST_WALLETS="+k.server.Data.Path("wallets"), "AGON_TEST_DATA="+k.data,
			"AGON_LEDGER="+at.URL+"/node", "GORACE=atexit_sleep_ms=0")
		k.mu.Lock()
		if err := cmd.Start(); err != nil {
			k.mu.Unlock()
			k.t.Fatal(err)
		}
		k.child, k.left, k.before = cmd, 1+k.rand.IntN(maxStep), k.rand.IntN(2) == 0
		k.mu.Unlock()
		if !k.armed {
			waitFor(k.t, k.t.Context(), k.server, "the miner's run", func(runs []client.Run) bool {
				return len(runs) > 0 && runs[0].State == agon.RunScored
			})
			k.mu.Lock()
			k.armed = true
			k.mu.Unlock()
		}
		if err := cmd.Wait(); err == nil {
			k.t.Fatal("the validator ended by itself")
		}
		k.check(netuid, lag, kills)
	}
	return kills
}

// maxStep is at which request of its life a validator is killed at the latest.
const maxStep = 64

// check looks whether the plaintext of every promise that waits is on disk.
func (k *killer) check(netuid uint16, lag uint64, kill int) {
	k.t.Helper()
	files, err := filepath.Glob(filepath.Join(k.data, "validator-*", "*-0-"+k.hotkey+".json"))
	if err != nil {
		k.t.Fatal(err)
	}
	promises := map[ledger.Hash]bool{}
	for _, file := range files { // one of each chain
		b, err := os.ReadFile(file)
		if err != nil {
			k.t.Fatal(err)
		}
		var kept struct {
			Promises []struct {
				Weights ledger.Weights
				Salt    []uint16
			}
		}
		if err := json.Unmarshal(b, &kept); err != nil {
			k.t.Fatalf("%s: %v", file, err)
		}
		for _, p := range kept.Promises {
			hash, err := ledger.CommitHash(k.hotkey, netuid, p.Weights, p.Salt)
			if err != nil {
				k.t.Fatal(err)
			}
			promises[hash] = true
		}
	}
	m, err := k.ledger.Metagraph(k.t.Context(), netuid)
	if err != nil {
		k.t.Fatal(err)
	}
	n, _ := m.Neuron(k.hotkey)
	for _, x := range n.Commits {
		if x.Epoch+m.Hyper.RevealEpochs() >= m.EpochIndex() && !promises[x.Hash] {
			k.t.Errorf("lag %d, kill %d: the plaintext of a promise of epoch %d is lost", lag, kill, x.Epoch)
		}
	}
}
