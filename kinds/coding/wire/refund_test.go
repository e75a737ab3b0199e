package wire

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/coding/play"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

// An upload whose plays were lost to faults of ours gives its payment back as one
// credit, which is spent once; the lost file is not played again for nothing.
func TestFeeOfLostUploadIsCredited(t *testing.T) {
	w := newWorld(t, func(_ *Config, a *agon.Arena) { a.Attempts = 0 })
	w.enter('a', "one")
	hot := w.keys['a'].SS58()
	check := func(word string) (int, map[string]any) {
		code, out, _ := w.upload("/upload/agent/check", w.fields('a', agentSource(word), part{"use_credit", "true"}), agentSource(word))
		return code, out
	}
	if code, _ := check("two"); code != 402 {
		t.Fatalf("a credit before anything was lost: %d", code)
	}
	for {
		v := platform.Caller{Hotkey: w.keys['v'].SS58(), Operator: true}
		l, err := w.api.Claim(bg, v, client.ClaimRequest{Kinds: []string{play.Name}, Driver: "runc"})
		must(t, err)
		if l == nil {
			break
		}
		_, err = w.api.Result(bg, v, l.ID, client.Result{Token: l.Token, Outcome: "lost", Fault: agon.FaultProvider, Reason: "down", Driver: agon.Driver{Name: "runc"}})
		must(t, err)
	}
	list, err := w.api.Submissions(bg, platform.Caller{Hotkey: hot}, "ridges", hot, "", 10)
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].State != agon.SubmissionExcluded || len(list.Items[0].Credit.Fees) != 1 {
		t.Fatalf("%+v", list.Items)
	}
	code, out := check("two")
	id, _ := out["credit_id"].(string)
	if code != 200 || id == "" {
		t.Fatalf("no credit was given: %d %v", code, out)
	}
	w.open() // after a restart it is the same one
	if _, out = check("two"); out["credit_id"] != id {
		t.Errorf("another credit: %v", out)
	}
	two := agentSource("two")
	code, _, text := w.upload("/upload/agent", w.fields('a', two, part{"credit_id", id}), two)
	if code != 200 || w.status(ridges.AgentID("credit:"+id+":0")) != "screening_1" {
		t.Fatalf("spend it: %d %s", code, text)
	}
	three := agentSource("three")
	if code, _, text = w.upload("/upload/agent", w.fields('a', three, part{"credit_id", id}), three); code != 409 {
		t.Errorf("spent twice: %d %s", code, text)
	}
	if code, _ = check("three"); code != 402 {
		t.Errorf("a second credit for one loss: %d", code)
	}
	_, err = w.api.Submit(bg, platform.Caller{Hotkey: hot}, "ridges", client.SubmitRequest{
		Name: "x", Licence: "MIT", Files: []client.File{{Path: agentFile, Content: agentSource("one")}},
	})
	if err == nil || !strings.Contains(err.Error(), "given back") {
		t.Errorf("the lost file is played again for nothing: %v", err)
	}
}
