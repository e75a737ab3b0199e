package subtensor_test

import (
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// Burns are read by the receipt that a client has of them, in the forms of the
// embedded ledger and of the chain, and alike after a restart.
func TestBurned(t *testing.T) {
	for name, spec := range map[string]uint32{"own form": 0, "metadata 424": 424} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			path := filepath.Join(t.TempDir(), "l.db")
			hot, cold := ledgertest.Key(t, "m"), ledgertest.Key(t, "m-cold")
			var l *local.Ledger
			var c *subtensor.Client
			open := func() (end func()) {
				var err error
				if l, err = local.Open(ctx, path, local.Config{Stepped: true}); err != nil {
					t.Fatal(err)
				}
				cfg := rpc.Config{Ledger: l, Genesis: "test", Replay: l, Now: time.Now}
				if spec != 0 {
					cfg.Metadata, cfg.SpecVersion = chainMetadata(t, spec), spec
				}
				node, err := rpc.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				h := httptest.NewServer(node)
				if c, err = subtensor.New(subtensor.Config{URLs: []string{h.URL}, Signer: keys(t), Poll: 5 * time.Millisecond}); err != nil {
					t.Fatal(err)
				}
				return func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					h.Close()
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			end := open()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(l.EnsureSubnet(ctx, netuid, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold")}))
			must(l.Fund(ctx, cold, 100e9))
			_, err := l.Register(ctx, netuid, hot, cold)
			must(err)
			must(l.AddStake(ctx, netuid, hot, cold, 5.5e9))
			if n, err := c.Burnable(ctx, netuid, cold, hot); n != 5.5e9 || err != nil {
				t.Fatalf("burnable: %d %v", n, err)
			}
			if n, err := c.Burnable(ctx, netuid, ledgertest.Key(t, "a-cold"), hot); n != 0 || err != nil {
				t.Errorf("of a stranger: %d %v", n, err)
			}
			before, err := l.Balance(ctx, cold)
			must(err)
			first, err := c.Submit(ctx, cold, "SubtensorModule", "burn_alpha", scale.Map{"hotkey": hot, "amount": uint64(2e9), "netuid": netuid})
			must(err)
			bought, err := c.Submit(ctx, cold, "SubtensorModule", "add_stake_burn", scale.Map{"hotkey": hot, "netuid": netuid, "amount": uint64(1e9), "limit": nil})
			must(err)
			if _, err := c.Submit(ctx, cold, "SubtensorModule", "burn_alpha", scale.Map{"hotkey": hot, "amount": uint64(4e9), "netuid": netuid}); err == nil {
				t.Error("more was burned than is staked")
			}
			recycled, err := c.Submit(ctx, cold, "SubtensorModule", "recycle_alpha", scale.Map{"hotkey": hot, "amount": uint64(5e8), "netuid": netuid})
			must(err)
			after, err := l.Balance(ctx, cold)
			must(err)
			if n, err := c.Burnable(ctx, netuid, cold, hot); n != 3e9 || err != nil || before-after != 1e9 {
				t.Errorf("left: %d %v, paid %d", n, err, before-after)
			}
			_, err = l.Step(ctx, 3)
			must(err)
			check := func() {
				t.Helper()
				for _, x := range []struct {
					in     *subtensor.Included
					call   string
					amount int64
				}{{first, "burn_alpha", 2e9}, {bought, "add_stake_burn", 1e9}, {recycled, "recycle_alpha", 5e8}} {
					b, err := c.Burned(ctx, x.in.BlockHash, x.in.Index, hot)
					must(err)
					if b == nil || time.Since(b.At) > time.Hour {
						t.Fatalf("%s: %+v", x.call, b)
					}
					b.At = time.Time{}
					if want := (ledger.Burn{Call: "SubtensorModule." + x.call, Signer: cold, Owner: cold, Coldkey: cold, Hotkey: hot, Netuid: netuid, Amount: x.amount}); *b != want {
						t.Errorf("%s: %+v, want %+v", x.call, *b, want)
					}
					same, err := c.Burned(ctx, strconv.FormatUint(x.in.Block, 10), x.in.Index, hot)
					must(err)
					if same.At = b.At; *same != *b {
						t.Errorf("%s by its block's number: %+v, want %+v", x.call, *same, *b)
					}
				}
				if b, err := c.Burned(ctx, first.BlockHash, first.Index+2, hot); err != nil || b == nil || !b.Failed || b.Coldkey != "" {
					t.Errorf("the failed one: %+v %v", b, err)
				}
				if b, err := c.Burned(ctx, first.BlockHash, 99, hot); err != nil || b == nil || b.Call != "" {
					t.Errorf("no extrinsic: %+v %v", b, err)
				}
				for _, hash := range []string{"4000000000", "0x" + "ab", "0x" + "11223344556677889900aabbccddeeff11223344556677889900aabbccddeeff"} {
					if b, err := c.Burned(ctx, hash, 0, hot); b != nil || err != nil {
						t.Errorf("no block: %+v %v", b, err)
					}
				}
			}
			check()
			end()
			end = open()
			defer end()
			check()
		})
	}
}
