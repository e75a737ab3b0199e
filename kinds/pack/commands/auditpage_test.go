package commands

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/consensus"
)

// The page says all that the audit found, and what others wrote stays text.
func TestAuditPage(t *testing.T) {
	r := &consensus.Audited{
		Window: 12, Block: 99, Reads: 90, Winner: "5Winner", Pack: "abc", Cost: 0.001816, Quorum: 0.75, Weights: []agon.Weight{{UID: 2, Weight: 32768}},
		Rows:     []consensus.AuditedRow{{Validator: "5Liar", Block: 95, State: "differs", Weights: []agon.Weight{{UID: 3, Weight: 65535}}}},
		Rejected: []consensus.Rejected{{Validator: "5Forger", Reason: "<script>alert(1)</script>"}}, Alike: []consensus.Alike{{Validators: []string{"5A", "5B"}, Packs: 7}},
	}
	page, err := auditPage(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Audit of window 12", "5Winner", "$0.001816", "75 %", "50.00 %", "5Liar", "differs", "5Forger", "7 packs", "5A", "Published weights differ"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if bytes.Contains(page, []byte("<script")) {
		t.Error("what a stranger wrote became a script")
	}
	again, err := auditPage(r)
	if err != nil || !bytes.Equal(again, page) {
		t.Error("the same audit gives another page")
	}
	r.Agreed = true
	if page, _ = auditPage(r); !bytes.Contains(page, []byte("The published weights are right.")) {
		t.Error("an audit that holds does not say so")
	}
}

// What could not be read at an address is mended where validators are, not by an arena's rules.
func TestPublished(t *testing.T) {
	for code, want := range map[string]string{"private_address": "--allow-private", "too_large": "from another machine"} {
		var e *agon.Error
		if err := published(&agon.Error{Code: code, Message: "x"}); !errors.As(err, &e) || !strings.Contains(e.Mend, want) || e.Message != "x" {
			t.Errorf("%s: %+v", code, e)
		}
	}
	if err := published(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("another error: %v", err)
	}
}
