package validator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// judgePlatform has nothing to play and one result to judge again.
type judgePlatform struct {
	platform
	stop  context.CancelFunc
	blobs map[agon.Digest][]byte
	lease *client.JudgeLease
	got   []client.JudgeResult
}

func (p *judgePlatform) Claim(ctx context.Context, _ client.ClaimRequest) (*client.Lease, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (p *judgePlatform) ClaimJudging(ctx context.Context, _ client.ClaimRequest) (*client.JudgeLease, error) {
	if l := p.lease; l != nil {
		p.lease = nil
		return l, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (p *judgePlatform) BeatJudging(context.Context, string, client.JudgeHeartbeat) (*client.HeartbeatReply, error) {
	return &client.HeartbeatReply{}, nil
}

func (p *judgePlatform) JudgingResult(_ context.Context, _ string, r client.JudgeResult) (*client.JudgeReply, error) {
	p.got = append(p.got, r)
	p.stop()
	return &client.JudgeReply{}, nil
}

func (p *judgePlatform) Blob(_ context.Context, d agon.Digest) ([]byte, error) {
	if b, ok := p.blobs[d]; ok {
		return b, nil
	}
	return nil, errors.New("no such blob")
}

// putMap stores blobs in a map.
type putMap struct{ m map[agon.Digest][]byte }

func (s putMap) Put(_ context.Context, b []byte) (agon.Digest, error) {
	d := agon.Sum(b)
	s.m[d] = b
	return d, nil
}

func (putMap) Get(context.Context, agon.Digest) ([]byte, error) { return nil, blob.ErrNotFound }

func (putMap) Has(context.Context, agon.Digest) (bool, error) { return false, nil }

// A validator judges another's result by the kind's Judge from the stored
// evidence alone, and gives back what it cannot judge.
func TestLoopJudges(t *testing.T) {
	for _, c := range []struct {
		name, answer, outcome string
		lost                  bool
		value                 float64
		fault                 agon.Fault
	}{
		{"right", "42", "ok", false, 1, ""},
		{"wrong", "41", "ok", false, 0, ""},
		{"evidence is gone", "42", "ok", true, 0, agon.FaultValidator},
		{"nothing to judge", "42", "exited", false, 0, agon.FaultValidator},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			p := &judgePlatform{stop: cancel, blobs: map[agon.Digest][]byte{}}
			d, err := blob.PutFiles(ctx, putMap{p.blobs}, []blob.File{{Path: "result", Content: []byte(c.answer)}}, blob.TreeLimits{})
			if err != nil {
				t.Fatal(err)
			}
			if c.lost {
				clear(p.blobs)
			}
			k := kindtest.FakeCase()
			p.lease = &client.JudgeLease{
				ID: "j", Token: "t", Attempt: 1, Arena: k.Arena, Submission: k.Submission, Outcome: c.outcome, Evidence: d,
				Run: agon.RunSpec{Run: "run-1", Arena: k.Arena.ID, Tasks: k.Arena.Tasks[:1], Policy: k.Arena.Policy}, HeartbeatMS: int(beatFor.Milliseconds()),
			}
			drv := fake.New(fake.Config{Exec: func(ctx context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
				if cmd.Untrusted {
					t.Error("the agent was played")
				}
				return k.Behave(ctx, b, cmd)
			}})
			validator.NewLoop(validator.LoopConfig{Platform: p, Player: &validator.Player{
				Driver: drv, Gateway: noGateway{}, Kinds: map[string]kind.Kind{k.Kind.Name(): k.Kind}, Trees: k.Trees, Now: time.Now,
			}}).Run(ctx)
			if len(p.got) != 1 || p.got[0].Token != "t" || p.got[0].Fault != c.fault {
				t.Fatalf("reported %+v", p.got)
			}
			r := p.got[0]
			if c.fault != "" {
				if len(r.Scores) > 0 || strings.TrimSpace(r.Reason) == "" {
					t.Errorf("given back as %+v", r)
				}
				return
			}
			if len(r.Scores) != 1 || r.Scores[0].Value != c.value || r.Scores[0].Scorer == "" {
				t.Errorf("scores %+v, want %v", r.Scores, c.value)
			}
		})
	}
}
