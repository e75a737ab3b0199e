package platform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// beacon is a public beacon with a round a second; it has those up to have.
type beacon struct {
	have  uint64
	asked []uint64
}

func (b *beacon) After(t time.Time) (uint64, time.Time) {
	n := uint64(t.Unix())
	if time.Unix(int64(n), 0).Before(t) {
		n++
	}
	return n, time.Unix(int64(n), 0)
}

func (b *beacon) Signature(_ context.Context, round uint64) ([]byte, error) {
	b.asked = append(b.asked, round)
	if round > b.have {
		return nil, errors.New("not yet")
	}
	return []byte{byte(round), byte(round >> 8)}, nil
}

// A set is drawn by a round that comes after its secret was committed to: the operator
// cannot know it then, and everybody can compute it afterwards.
func TestSetIsDrawnByDrand(t *testing.T) {
	s, b := &shelf{have: 20, uses: 1}, &beacon{have: 1 << 40}
	f := suppliedFixture(t, s, func(c *Config, _ *agon.Arena) { c.Rounds = b })
	f.arena.Supply.Beacon = agon.BeaconDrand
	must(t, f.EnsureArena(bg, f.arena))
	list, err := f.Seeds(bg, "turning")
	must(t, err)
	first := list[len(list)-1]
	want, at := b.After(first.CommittedAt.Add(agon.DrandOffset))
	if first.Period != 0 || first.Drand == nil || first.Drand.Round != want || !at.After(*first.CommittedAt) || b.asked[0] != want {
		t.Fatalf("%+v, drand %+v, want round %d of %v", first, first.Drand, want, b.asked)
	}
	f.read(func(tx *store.Tx) error {
		x, err := tx.Note("turning/0/set")
		if err == nil && !strings.Contains(string(x.Body), first.Drand.Signature) {
			t.Errorf("the log says %s", x.Body)
		}
		if err != nil {
			return err
		}
		p, err := tx.Period("turning", 0)
		if err != nil {
			return err
		}
		sig, err := hex.DecodeString(first.Drand.Signature)
		if err != nil {
			return err
		}
		random := sha256.Sum256(sig)
		world, err := seeds.World(p.Secret, random[:])
		if err != nil {
			return err
		}
		seed, err := seeds.Of(world, seeds.Source{Arena: "turning", Task: seedSet})
		if err == nil && s.asked[0].Seed != seed {
			t.Errorf("drawn by %d, anybody computes %d", s.asked[0].Seed, seed)
		}
		return err
	})
}

// Where the round is not out, the next set waits for it, and is not drawn by the secret alone.
func TestNextSetWaitsForDrand(t *testing.T) {
	s, b := &shelf{have: 20, uses: 1}, &beacon{have: 1 << 40}
	f := suppliedFixture(t, s, func(c *Config, _ *agon.Arena) { c.Rounds = b })
	f.arena.Supply.Beacon = agon.BeaconDrand
	must(t, f.EnsureArena(bg, f.arena))
	if n := len(s.asked); n != 1 {
		t.Fatalf("%d sets are drawn before the round of the second is out", n)
	}
	b.have = 0
	f.clock.add(2 * agon.DrandOffset)
	must(t, f.rotate(bg))
	if n := len(s.asked); n != 1 {
		t.Fatalf("%d sets are drawn, nobody has the round of the second", n)
	}
	b.have = 1 << 40
	f.clock.add(drawAgain + time.Second)
	must(t, f.rotate(bg))
	if n := len(s.asked); n != 2 || s.asked[1].Period != 1 {
		t.Fatalf("%d sets are drawn once the round is out", n)
	}
	none := suppliedFixture(t, s)
	none.arena.Supply.Beacon = agon.BeaconDrand
	if err := none.EnsureArena(bg, none.arena); err == nil || !strings.Contains(err.Error(), "rounds") {
		t.Errorf("without anybody to ask: %v", err)
	}
	none.arena.Supply.Beacon = "dice"
	if err := none.EnsureArena(bg, none.arena); err == nil || !strings.Contains(err.Error(), "beacon") {
		t.Errorf("a beacon of dice: %v", err)
	}
}
