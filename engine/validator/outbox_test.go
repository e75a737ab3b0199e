package validator_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// postal is a platform that tells of each result, and answers with an error of the test's.
type postal struct {
	platform
	came   chan client.Result
	answer func(ctx context.Context) error
}

func (p *postal) Result(ctx context.Context, lease string, r client.Result) (*client.ResultReply, error) {
	select {
	case p.came <- r:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := p.answer(ctx); err != nil {
		return nil, err
	}
	return &client.ResultReply{}, nil
}

// outboxLoop is a validator of one worker with an outbox in dir.
func outboxLoop(p validator.Platform, dir string) *validator.Loop {
	c := kindtest.FakeCase()
	player := &validator.Player{
		Driver: fake.New(fake.Config{Exec: c.Behave}), Gateway: noGateway{}, Kinds: map[string]kind.Kind{c.Kind.Name(): c.Kind}, Trees: c.Trees, Now: time.Now,
	}
	return validator.NewLoop(validator.LoopConfig{Platform: p, Player: player, Parallel: 1, Outbox: dir, Backoff: time.Millisecond})
}

// A validator that dies between its play and the platform's answer has played for
// the next one on its directory, which sends the same result once.
func TestOutbox(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "outbox")
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	first := &postal{came: make(chan client.Result), answer: hang}
	dead, kill := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); outboxLoop(first, dir).Run(dead) }()
	want := <-first.came // and no answer: the process counts as killed here

	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != "lease.json" {
		t.Fatalf("outbox %v %v", names, err)
	}
	if i, err := names[0].Info(); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("the letter holds a token: %v %v", i.Mode(), err)
	}
	// What a kill in the middle of writing leaves is not taken for a letter.
	if err := os.WriteFile(filepath.Join(dir, ".new-123"), []byte(`{"run":"half`), 0o600); err != nil {
		t.Fatal(err)
	}
	tries := 0
	second := &postal{came: make(chan client.Result), answer: func(context.Context) error {
		if tries++; tries == 1 {
			return &agon.Error{Status: 503, Code: "unavailable"}
		}
		return nil
	}}
	second.given = true // no other work
	play := func(p *postal) (client.Result, func()) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); outboxLoop(p, dir).Run(ctx) }()
		return <-p.came, func() { stop(); <-done }
	}
	got, stop := play(second)
	stop()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sent %+v\nwant %+v", got, want)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(names) != 1 {
		t.Fatalf("an unanswered letter is gone: %v %v", names, err)
	}
	got, stop = play(second)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sent again %+v\nwant %+v", got, want)
	}
	stop()
	if names, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(names) != 0 {
		t.Errorf("an answered letter stays: %v %v", names, err)
	}
	kill()
	<-ended

	// A platform names its leases. One that names a place of ours has its result all the same, and nothing is written.
	thief := &postal{came: make(chan client.Result), answer: func(context.Context) error { return nil }}
	thief.lease = "../../stolen"
	_, stop = play(thief)
	stop()
	if names, err := filepath.Glob(filepath.Join(dir, "..", "*")); err != nil || len(names) != 1 {
		t.Errorf("beside the outbox: %v %v", names, err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(names) != 0 {
		t.Errorf("in the outbox: %v %v", names, err)
	}
}
