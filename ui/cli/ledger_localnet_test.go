package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/subtensor"
	"github.com/agon-arena/agon/ledger/timelock"
)

// localnetOf runs `agon ledger localnet` until the test ends and gives its address.
func localnetOf(t *testing.T, args ...string) string {
	t.Helper()
	a, _, _ := newApp(t)
	r, w := io.Pipe()
	a.IO.Err = w
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- a.Main(ctx, append([]string{"ledger", "localnet", "--listen", "127.0.0.1:0"}, args...))
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	url, said := "", ""
	for url == "" && lines.Scan() {
		said += lines.Text() + "\n"
		if _, at, ok := strings.Cut(lines.Text(), "the ledger is at "); ok {
			url = at
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	t.Cleanup(func() { cancel(); <-done })
	if url == "" {
		t.Fatalf("it ended: %s", said)
	}
	if !strings.Contains(said, "DEVELOPMENT KEYS") || !strings.Contains(said, "//Alice//hot") || !strings.Contains(said, "/faucet") {
		t.Errorf("said %s", said)
	}
	return url
}

// A localnet has a subnet of development keys, a faucet and finality that lags;
// another one begins with what was read of it.
func TestLocalnet(t *testing.T) {
	url := localnetOf(t, "--block-time", "50ms", "--lag", "2", "--commit-reveal")
	client := func(url string, finalized bool) *subtensor.Client {
		c, err := subtensor.New(subtensor.Config{URLs: []string{"ws" + strings.TrimPrefix(url, "http")}, Finalized: finalized})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := client(url, false)
	m, err := c.Metagraph(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	permits := 0
	for _, n := range m.Neurons {
		if n.Permit && n.Stake == devStake {
			permits++
		}
	}
	if len(m.Neurons) != len(devKeys) || permits != devValidators || !m.Hyper.CommitReveal {
		t.Errorf("%d neurons, %d permits, %+v", len(m.Neurons), permits, m.Hyper)
	}
	const stranger = "5CXA7jqEuDK7Bau8NxHNVd1Wo779MwoPHT6wvX4APTVk6vsg"
	for q, want := range map[string]int{"address=" + stranger + "&tao=12.5": 200, "address=" + stranger + "&tao=99999999": 422, "address=x&tao=1": 422, "tao=-1&address=" + stranger: 422} {
		res, err := http.Post(url+"/faucet?"+q, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != want {
			t.Errorf("faucet %s: %d %s %v", q, res.StatusCode, b, err)
		}
		_ = res.Body.Close()
		var got struct{ Balance uint64 }
		if want == 200 && (json.Unmarshal(b, &got) != nil || got.Balance != 1012_500_000_000) {
			t.Errorf("the faucet gave %s", b)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sn.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	fork, err := client(localnetOf(t, "--fork", file, "--block-time", "1m", "--lag", "0"), true).Metagraph(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*ledger.Metagraph{m, fork} {
		g.Block, g.Epoch.Since, g.Burn, g.Hyper.EmissionPerBlock = 0, 0, 0, 0
	}
	x, _ := json.Marshal(m)
	y, _ := json.Marshal(fork)
	if string(x) != string(y) {
		t.Errorf("the fork is\n%s, of\n%s", y, x)
	}
	a, _, errs := newApp(t)
	if code := a.Main(t.Context(), []string{"ledger", "localnet", "--fork", file, "--ledger", file}); code != 2 || !strings.Contains(errs.String(), "is there already") {
		t.Errorf("a fork into a file that is there: code %d: %s", code, errs.String())
	}
	if code := a.Main(t.Context(), []string{"ledger", "localnet", "--fork", "/dev/null"}); code != 2 || !strings.Contains(errs.String(), "not a metagraph") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// With --beacon the localnet signs drand's rounds itself, tells its key, and
// opens what is sealed to them.
func TestLocalnetBeacon(t *testing.T) {
	url := localnetOf(t, "--block-time", "50ms", "--lag", "0", "--beacon")
	hot, err := auth.KeyFromURI("//Bob//hot")
	if err != nil {
		t.Fatal(err)
	}
	c, err := subtensor.New(subtensor.Config{URLs: []string{"ws" + strings.TrimPrefix(url, "http")}, Signer: func(string) (auth.Signer, error) { return hot, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	key := timelock.NewBeacon([]byte("development")).Key()
	const item = "0xa285cdb66e8b8524ea70b1693c7b1e0508194cd5e83170f4eb38043b5770aa61" // Drand.BeaconConfig
	res, err := http.Post(url, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"state_getStorage","params":["`+item+`"]}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || !strings.Contains(string(b), key.String()) {
		t.Errorf("BeaconConfig is %s, without %s: %v", b, key, err)
	}
	data, err := key.Encrypt(nil, 1000, []byte("\x18sealed"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Commit(t.Context(), 1, hot.SS58(), ledger.Raw([]byte("open")), ledger.Field{Type: ledger.FieldTimelock, Data: data, Round: 1000}); err != nil {
		t.Fatal(err)
	}
	for {
		all, err := c.Commitments(t.Context(), 1)
		if err != nil || len(all) != 1 {
			t.Fatalf("commitments %+v: %v", all, err)
		}
		if len(all[0].Fields) == 1 && string(all[0].Fields[0].Data) == "open" {
			return // what was sealed is opened, and no part of it any more
		}
	}
}
