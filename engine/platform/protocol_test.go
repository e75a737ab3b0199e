package platform

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// A validator whose protocol the server has given up is refused by a sentence
// that names both versions; one that is newer than the server is served in the
// version of the server.
func TestOldValidatorIsRefused(t *testing.T) {
	f := newFixture(t, 1, func(c *Config, _ *agon.Arena) { c.Protocols = &client.Protocols{Min: 2, Max: 3} })
	f.submit(miner1, "code")
	ask := func(p *client.Protocols) (*client.Lease, error) {
		return f.Claim(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{f.arena.Kind}, Driver: "runc", Protocols: p})
	}
	for _, p := range []*client.Protocols{nil, {Min: 1, Max: 1}} {
		_, err := ask(p)
		e := wantCode(t, err, 426, "protocol_version")
		if !strings.Contains(e.Message, "version 1 ") || !strings.Contains(e.Message, "versions 2 to 3") || e.Field != "protocols" || e.Mend == "" {
			t.Errorf("the refusal: %+v", e)
		}
		_, err = f.ClaimJudging(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{f.arena.Kind}, Driver: "runc", Protocols: p})
		wantCode(t, err, 426, "protocol_version")
	}
	_, err := ask(&client.Protocols{Min: 4, Max: 5})
	if e := wantCode(t, err, 426, "protocol_version"); !strings.Contains(e.Mend, "server") {
		t.Errorf("the refusal: %+v", e)
	}
	_, err = ask(&client.Protocols{Min: 3, Max: 1})
	wantCode(t, err, 422, "bad_claim")
	l, err := ask(&client.Protocols{Min: 1, Max: 9})
	must(t, err)
	if l == nil || l.Protocol != 3 {
		t.Errorf("leased %+v", l)
	}
}
