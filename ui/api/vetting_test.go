package api_test

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind/kindtest"
)

// vettedFake has each entry vetted before it is played.
type vettedFake struct{ kindtest.Fake }

func (vettedFake) Vets(*agon.Arena) (entries, seats bool) { return true, false }

// A worker takes a vetting, keeps it, loses it when it says nothing, and the operator
// settles what the next one was unsure of; then the submission is played.
func TestVettings(t *testing.T) {
	w := newHostileOf(t, "", vettedFake{})
	c, err := client.New(w.f.url, w.f.operator)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	s := w.submit(w.miner, "to be judged")
	list := func(state string) []client.Vetting {
		t.Helper()
		l, err := c.Vettings(ctx, "arena-1", "entry", state)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := list("open"); len(l) != 1 || l[0].Submission != s.ID || l[0].Token != "" {
		t.Fatalf("open: %+v", l)
	}
	claim := func(who string) *client.Vetting {
		t.Helper()
		v, err := c.ClaimVetting(ctx, "arena-1", client.VettingClaim{What: "entry", Worker: who, Seconds: 60})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	extend := func(v *client.Vetting, token string, seconds int) (*client.Vetting, error) {
		return c.ExtendVetting(ctx, v.ID, client.VettingHold{Token: token, Seconds: seconds})
	}
	first := claim("one")
	if first.Token == "" || first.State != "held" || first.Worker != "one" || claim("two").ID != "" {
		t.Fatalf("claimed: %+v", first)
	}
	if _, err := extend(first, "another", 600); !client.IsCode(err, "lost_vetting") {
		t.Errorf("by another token: %v", err)
	}
	longer, err := extend(first, first.Token, 600)
	if err != nil || longer.LeaseUntil.Sub(*first.LeaseUntil) < 500*time.Second || longer.Token != "" {
		t.Fatalf("extended: %+v %v", longer, err)
	}
	if again, err := extend(first, first.Token, 10); err != nil || !again.LeaseUntil.Equal(*longer.LeaseUntil) {
		t.Errorf("a lease became shorter: %+v %v", again, err)
	}
	w.later(9 * time.Minute)
	if v := claim("two"); v.ID != "" {
		t.Errorf("it was taken from who keeps it: %+v", v)
	}
	w.later(2 * time.Minute)
	if _, err := extend(first, first.Token, 600); !client.IsCode(err, "lost_vetting") {
		t.Errorf("after its time: %v", err)
	}
	second := claim("two")
	if second.ID != first.ID || second.Tries != 2 {
		t.Fatalf("the next one: %+v", second)
	}
	if _, err := c.AnswerVetting(ctx, second.ID, client.VettingAnswer{Token: first.Token, Verdict: "passed"}); !client.IsCode(err, "lost_vetting") {
		t.Errorf("an answer by who lost it: %v", err)
	}
	if v, err := c.AnswerVetting(ctx, second.ID, client.VettingAnswer{Token: second.Token, Verdict: "unsure", Summary: "hard to say"}); err != nil || v.State != "sent" {
		t.Fatalf("unsure: %+v %v", v, err)
	}
	if l := list("sent"); len(l) != 1 || l[0].Summary != "hard to say" {
		t.Fatalf("sent: %+v", l)
	}
	if v, err := c.ReviewVetting(ctx, second.ID, client.VettingReview{Pass: true, Reason: "it is its own work"}); err != nil || v.State != "done" || v.Verdict != "passed" || v.Actor != w.f.operator.SS58() {
		t.Fatalf("settled: %+v %v", v, err)
	}
	if l := w.claim(w.val); l.Submission.ID != s.ID {
		t.Errorf("played: %+v", l.Submission)
	}
}
