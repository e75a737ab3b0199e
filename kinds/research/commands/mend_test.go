package commands

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/research/miner"
)

// What the coordinator refuses leads on: to the registration, to a new claim.
func TestMendsOfRefusals(t *testing.T) {
	for body, want := range map[string]string{
		`{"detail":{"error":"insufficient_miner_stake","message":"hotkey 5D is not registered on subnet 4"}}`: "agon ledger register --netuid 4",
		`{"detail":{"error":"insufficient_miner_stake","message":"the hotkey has too little stake"}}`:         "",
	} {
		if got := mendOf(&miner.APIError{Status: 403, Body: []byte(body)}); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	if got := mendOf(&miner.APIError{Status: 409, Body: []byte(`{"detail":{"error":"claim_state","message":"claim 01 is submitted"}}`)}); !strings.Contains(got, "agon research start") {
		t.Errorf("a claim that is submitted: %q", got)
	}
}
