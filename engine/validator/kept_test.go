package validator_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// patient is a kind whose plays go on after a stop: the first is stopped, the next says
// what it has found.
type patient struct {
	kindtest.Fake
	stop  func() // ends the validator; nil: the play ends by itself
	anew  bool   // the play gives up what was kept
	found kind.Kept
	there bool
}

func (k *patient) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	keeper, ok := env.(kind.Keeper)
	if !ok {
		return agon.Record{}, errors.New("the engine keeps nothing")
	}
	var err error
	if k.found, k.there, err = keeper.Kept(ctx); err != nil {
		return agon.Record{}, err
	}
	switch {
	case k.anew:
		return agon.Record{}, keeper.Anew("from its beginning")
	case k.stop == nil:
		return k.Fake.Play(ctx, env, s, r)
	}
	k.stop()
	<-ctx.Done()
	return agon.Record{}, errors.Join(keeper.Keep(kind.Kept{Doc: json.RawMessage(`{"n":1}`), State: []byte("half")}), ctx.Err())
}

// What a validator must stop it gives back and keeps: the next process on its directory
// goes on from it, and what has ended is forgotten.
func TestStoppedRunIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	play := func(k *patient, seed int64) client.Result {
		var out client.Result
		synctest.Test(t, func(t *testing.T) {
			p := &platform{seed: seed}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if k.stop != nil {
				k.stop = stop
			}
			time.AfterFunc(time.Hour, stop)
			c := kindtest.FakeCase()
			validator.NewLoop(validator.LoopConfig{Platform: p, Player: &validator.Player{
				Driver: fake.New(fake.Config{Exec: c.Behave}), Gateway: noGateway{}, Kinds: map[string]kind.Kind{k.Name(): k}, Trees: c.Trees, Now: time.Now,
				Keeps: &validator.Keeps{Dir: dir},
			}}).Run(ctx)
			if len(p.results) != 1 {
				t.Fatalf("%d results", len(p.results))
			}
			out = p.results[0]
		})
		return out
	}
	stopped := func() *patient { return &patient{stop: func() {}} }
	if r := play(stopped(), 1); r.Fault != agon.FaultValidator || r.Outcome != client.OutcomeKept {
		t.Fatalf("stopped: %+v", r)
	}
	other := &patient{}
	if r := play(other, 2); r.Fault != agon.FaultNone || other.there {
		t.Errorf("a play on another seed found %+v: %+v", other.found, r)
	}
	if r := play(stopped(), 1); r.Outcome != client.OutcomeKept {
		t.Fatalf("stopped: %+v", r)
	}
	next := &patient{}
	if r := play(next, 1); r.Fault != agon.FaultNone || !next.there || string(next.found.State) != "half" || string(next.found.Doc) != `{"n":1}` {
		t.Errorf("the next attempt found %t %+v: %+v", next.there, next.found, r)
	}
	if again := (&patient{}); play(again, 1).Fault != agon.FaultNone || again.there {
		t.Error("a run that has ended is kept")
	}
	if r := play(stopped(), 1); r.Outcome != client.OutcomeKept {
		t.Fatalf("stopped: %+v", r)
	}
	if r := play(&patient{anew: true}, 1); r.Fault != agon.FaultValidator || r.Outcome == client.OutcomeKept || r.Reason != "from its beginning" {
		t.Errorf("given up: %+v", r)
	}
	if last := (&patient{}); play(last, 1).Fault != agon.FaultNone || last.there {
		t.Error("what was given up is kept")
	}
}
