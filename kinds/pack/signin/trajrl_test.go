package signin

import (
	"context"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
)

func TestTrajectoryRL(t *testing.T) {
	alice, bob, nobody := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob"), dialecttest.Key(t, "//Nobody")
	fields := func(k *auth.Key, p TrajectoryRL, timestamp string, more ...string) Fields {
		return Fields{k.SS58(), timestamp, "0x" + dialecttest.Sign(t, k, Message(p.Purpose, k.SS58(), timestamp, more...)), more}
	}
	with := func(f Fields, change func(*Fields)) Fields { change(&f); return f }
	body := func(text string) string { return `{"success":false,"error":"` + text + `"}` }
	for name, c := range map[string]struct {
		p    TrajectoryRL
		f    Fields
		want string
	}{
		"heartbeat":          {Heartbeat, fields(alice, Heartbeat, dialecttest.Stamp(0)), "ok"},
		"no 0x":              {Heartbeat, with(fields(alice, Heartbeat, dialecttest.Stamp(0)), func(f *Fields) { f.Signature = f.Signature[2:] }), "ok"},
		"300 s":              {Heartbeat, fields(alice, Heartbeat, dialecttest.Stamp(-300*time.Second)), "ok"},
		"301 s":              {Heartbeat, fields(alice, Heartbeat, dialecttest.Stamp(-301*time.Second)), "Unauthorized " + body("Timestamp outside the 300 s window")},
		"301 s ahead":        {Heartbeat, fields(alice, Heartbeat, dialecttest.Stamp(301*time.Second)), "Unauthorized " + body("Timestamp outside the 300 s window")},
		"score":              {ChallengeScore, fields(alice, ChallengeScore, dialecttest.Stamp(0), "7"), "ok"},
		"other epoch":        {ChallengeScore, with(fields(alice, ChallengeScore, dialecttest.Stamp(0), "7"), func(f *Fields) { f.More = []string{"8"} }), "Unauthorized " + body("Invalid signature")},
		"other route":        {Submit, fields(alice, Heartbeat, dialecttest.Stamp(0)), "Unauthorized " + body("Invalid signature")},
		"progress":           {ScenarioProgress, fields(alice, ScenarioProgress, dialecttest.Stamp(0), "7", "inbox"), "ok"},
		"glued fields":       {ScenarioProgress, fields(alice, ScenarioProgress, dialecttest.Stamp(0), "7:inbox"), "Bad Request " + body("A signed field contains a colon")},
		"miner":              {MinerSubmit, fields(bob, MinerSubmit, dialecttest.Stamp(0)), "ok"},
		"miner not there":    {MinerSubmit, fields(nobody, MinerSubmit, dialecttest.Stamp(0)), "Forbidden " + body("miner_hotkey is not a registered miner on-chain")},
		"miner as validator": {Heartbeat, fields(bob, Heartbeat, dialecttest.Stamp(0)), "Forbidden " + body("Hotkey is not a registered validator on-chain")},
		"logs signature":     {Logs, with(fields(alice, Logs, dialecttest.Stamp(0)), func(f *Fields) { f.Signature = "zz" }), "Forbidden " + body("Invalid signature")},
		// The score route says who is not a validator before it looks at the signature.
		"score, stranger":  {ChallengeScore, with(fields(nobody, ChallengeScore, dialecttest.Stamp(0)), func(f *Fields) { f.Signature = "zz" }), "Forbidden " + body("Hotkey is not a registered validator on-chain")},
		"submit, stranger": {MinerSubmit, with(fields(nobody, MinerSubmit, dialecttest.Stamp(0)), func(f *Fields) { f.Signature = "zz" }), "Forbidden " + body("Invalid signature")},
		"nothing":          {Snapshot, Fields{}, "Unauthorized " + body("validator_hotkey, timestamp, and signature are required")},
		"float":            {Heartbeat, fields(alice, Heartbeat, "1.5"), "Unauthorized " + body("Invalid timestamp")},
		"banned":           {Heartbeat, fields(dialecttest.Key(t, "//Eve"), Heartbeat, dialecttest.Stamp(0)), "Forbidden " + body("Hotkey is banned")},
	} {
		if got := dialecttest.Outcome(c.p.Check(context.Background(), dialecttest.Verifier(t), c.f, dialect.Need{})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	used := "Unauthorized " + body("Signature was used before")
	for _, c := range []struct {
		p      TrajectoryRL
		strict bool
		second string
	}{{Heartbeat, false, "ok"}, {Heartbeat, true, used}, {Submit, false, used}, {Snapshot, true, "ok"}} {
		v := dialecttest.Verifier(t)
		v.Strict = c.strict
		f := fields(alice, c.p, dialecttest.Stamp(0))
		for i, want := range []string{"ok", c.second} {
			if got := dialecttest.Outcome(c.p.Check(context.Background(), v, f, dialect.Need{})); got != want {
				t.Errorf("%s, strict %t, use %d: %s", c.p.Purpose, c.strict, i+1, got)
			}
		}
	}
}

func TestMessage(t *testing.T) {
	if got := string(Message("trajectoryrl-scenario-progress", "hk", "1", "7", "inbox")); got != "trajectoryrl-scenario-progress:hk:1:7:inbox" {
		t.Error(got)
	}
}

// No text of a field may crash a check or let anybody in unsigned.
func FuzzCheck(f *testing.F) {
	alice := dialecttest.Key(f, "//Alice").SS58()
	f.Add(alice, "1760000000", "00", "7")
	f.Add(alice, "9999999999999999999", "0x", ":")
	v := dialecttest.Verifier(f)
	f.Fuzz(func(t *testing.T, hotkey, timestamp, signature, more string) {
		for _, p := range []TrajectoryRL{ChallengeScore, Heartbeat, MinerSubmit} {
			id, refusal := p.Check(context.Background(), v, Fields{hotkey, timestamp, signature, []string{more}}, dialect.Need{})
			if refusal == nil {
				t.Fatalf("let in %+v", id)
			}
			if refusal.Status < 400 || refusal.Status >= 500 {
				t.Fatalf("answer %d %s", refusal.Status, refusal.JSON())
			}
		}
	})
}
