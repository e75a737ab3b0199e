package platform

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/teststore"
)

// blocks is a ledger whose blocks have hashes.
type blocks struct {
	Ledger
	newest uint64
	asked  int
}

func (b *blocks) Newest(context.Context, uint16) (uint64, error) { return b.newest, nil }

func (b *blocks) BlockHash(_ context.Context, n uint64) (string, error) {
	b.asked++
	if n > b.newest {
		return "", nil
	}
	return fmt.Sprintf("0x%064x", n*n+7), nil
}

// A submission is played when the block after its acceptance is there; its seeds
// are those that everybody computes when the period's secret is shown.
func TestSeedsAreUnknownThenPublic(t *testing.T) {
	f := newFixture(t, 3)
	l := &blocks{Ledger: f.cfg.Ledger, newest: 40}
	f.cfg.Ledger = l
	a, err := f.Arena(bg, "demo")
	must(t, err)
	now := a.Seeds.Period
	if a.Seeds.BeaconRule != agon.BeaconBlock || now == nil || now.Commitment == "" || a.Seeds.Next == "" || now.Secret != "" {
		t.Fatalf("seeds of the arena: %+v, %+v", a.Seeds, now)
	}
	s := f.submit(miner1, "x")
	if s.Beacon == nil || s.Beacon.Block != 41 || s.Beacon.Hash != "" || s.Beacon.Period != now.Period {
		t.Fatalf("beacon: %+v", s.Beacon)
	}
	must(t, f.awaitBeacons(bg))
	if lease := f.claim(val1); lease != nil {
		t.Fatalf("it is played before its block is there: %+v", lease)
	}
	l.newest = 41
	must(t, f.awaitBeacons(bg))
	f.playAll(val1, func(*client.Lease) float64 { return 1 })
	asked := l.asked
	must(t, f.awaitBeacons(bg))
	if l.asked != asked {
		t.Error("the ledger is asked though nobody waits")
	}
	got, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if got.State != agon.SubmissionScored || got.Beacon.Hash == "" {
		t.Fatalf("submission: %+v", got)
	}
	if list, err := f.Seeds(bg, "demo"); err != nil || len(list) != 2 || list[0].Secret != "" || list[1].Secret != "" {
		t.Fatalf("a secret is shown before its period has ended: %+v, %v", list, err)
	}
	f.clock.add(DefaultPeriod)
	must(t, f.periods(bg))
	list, err := f.Seeds(bg, "demo")
	must(t, err)
	ended := list[len(list)-1]
	if ended.Secret == "" || ended.RevealedAt == nil || ended.Unverifiable || ended.Commitment != now.Commitment {
		t.Fatalf("ended period: %+v", ended)
	}
	if c, err := seeds.Commitment(ended.Secret); err != nil || c != now.Commitment {
		t.Fatalf("the secret is not what was committed to: %s, %v", c, err)
	}
	n := 0
	f.read(func(tx *store.Tx) error {
		runs, err := tx.RunsOf(s.ID)
		for _, r := range runs {
			want, err := seeds.Of(ended.Secret, seeds.SourceOf(f.arena, r.RunSpec, s.ID, *got.Beacon))
			if err != nil || want != r.Seed {
				t.Errorf("run %s has seed %d, want %d (%v)", r.RunSpec.Run, r.Seed, want, err)
			}
			n++
		}
		return err
	})
	if n != 3 {
		t.Errorf("%d runs", n)
	}
	if list[0].Secret != "" || list[1].Secret != "" || list[1].Period != now.Period+1 {
		t.Errorf("periods after the turn: %+v", list[:2])
	}
}

// A secret that is lost makes its period unverifiable, and a new period begins.
func TestSecretLost(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit(miner1, "x")
	f.playAll(val1, func(*client.Lease) float64 { return 1 })
	db, _ := teststore.Raw(t, f.dir)
	_, err := db.Exec("UPDATE seed_periods SET secret = '' WHERE n = 0")
	must(t, err)
	must(t, db.Close())
	second := f.submit(miner2, "y")
	if second.Beacon.Period == s.Beacon.Period {
		t.Fatalf("the lost period goes on: %+v", second.Beacon)
	}
	f.playAll(val1, func(*client.Lease) float64 { return 1 })
	f.clock.add(RevealWithin + time.Second)
	must(t, f.periods(bg))
	list, err := f.Seeds(bg, "demo")
	must(t, err)
	if old := list[len(list)-1]; !old.Unverifiable || old.Secret != "" {
		t.Errorf("the lost period: %+v", old)
	}
	got, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if !got.Unverifiable {
		t.Error("its decision is not marked")
	}
	if got, err = f.Submission(bg, Caller{}, second.ID); err != nil || got.Unverifiable {
		t.Errorf("the next period's decision: %v, %v", got.Unverifiable, err)
	}
}

// Nobody is here for several periods: the one that begins then has a commitment
// of its own, and the old ones are shown late.
func TestPeriodsAfterAGap(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	f.clock.add(5*DefaultPeriod + time.Hour)
	must(t, f.periods(bg))
	a, err := f.Arena(bg, "demo")
	must(t, err)
	if p := a.Seeds.Period; p == nil || p.Opens.After(f.clock.Now()) || !p.Closes.After(f.clock.Now()) || p.Period != 2 {
		t.Errorf("period after the gap: %+v", p)
	}
	list, err := f.Seeds(bg, "demo")
	must(t, err)
	if old := list[len(list)-1]; old.Secret == "" || !old.Unverifiable {
		t.Errorf("a secret that was shown late: %+v", old)
	}
}
