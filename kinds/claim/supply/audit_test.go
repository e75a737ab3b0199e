package supply

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// An auditor objects to a reference: its author mends it, and it is audited again.
// What does not stand the second time is dropped. A replay asks nobody.
func TestAudit(t *testing.T) {
	for _, c := range []struct {
		name     string
		mended   string // the justification after the objection
		repaired bool
		dropped  string
	}{
		{"sound", "", false, ""},
		{"mended", "The list has all of them.", true, ""},
		{"stubborn", "Weak.", false, "unsound"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			conf, _, _ := config(t, log)
			conf.Champion, conf.ChampionID, conf.Count, conf.Draws = nil, "", 3, 12
			first := "Weak."
			if c.mended == "" {
				first = "The list has it."
			}
			asked := 0
			_, conf.Reference = newModel(t, func(doc map[string]any) (string, int) {
				why := first
				if o, ok := doc["objection"].(string); ok {
					if o != "It names no fact." {
						t.Errorf("the author was told %q", o)
					}
					why = c.mended
				}
				return `{"verdict": 1, "justification": "` + why + `", "quotes": ["All buoys lie off Brenn"], "ambiguous": false}`, 200
			})
			_, conf.Auditor = newModel(t, func(doc map[string]any) (string, int) {
				asked++
				if doc["answer"].(map[string]any)["justification"] == "Weak." {
					return `{"sound": false, "fault": "It names no fact."}`, 200
				}
				return `{"sound": true, "fault": ""}`, 200
			})
			s, err := Generate(context.Background(), conf)
			if err != nil {
				t.Fatal(err)
			}
			if c.dropped != "" {
				if len(s.Tasks) != 0 || s.Report.Dropped[c.dropped] != 12 {
					t.Errorf("%+v", s.Report)
				}
				return
			}
			if len(s.Tasks) != 3 || s.Tasks[0].From.Repaired != c.repaired {
				t.Errorf("%+v of %+v", s.Report, s.Tasks[0].From)
			}
			if want := map[bool]int{true: 6, false: 3}[c.repaired]; asked != want {
				t.Errorf("the auditor was asked %d times, want %d", asked, want)
			}
			l, err := OpenLog(log, true)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Generate(context.Background(), Config{Items: conf.Items, Log: l, Replay: true, Count: 3, Draws: 12, Seed: conf.Seed})
			if err != nil || again.Report.Digest != s.Report.Digest {
				t.Errorf("replay: %v, %s, want %s", err, again.Report.Digest, s.Report.Digest)
			}
		})
	}
}

// What sets before have asked is not asked again, nor what is nearly it.
func TestAvoid(t *testing.T) {
	conf, _, _ := config(t, filepath.Join(t.TempDir(), "one"))
	one, err := Generate(context.Background(), conf)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	conf, _, _ = config(t, filepath.Join(t.TempDir(), "two"))
	for _, x := range one.Tasks {
		conf.Avoid = append(conf.Avoid, strings.ToUpper(x.Claim.Payload.ClaimText))
		known[x.Claim.Payload.ClaimText] = true
	}
	two, err := Generate(context.Background(), conf)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range two.Tasks {
		if known[x.Claim.Payload.ClaimText] {
			t.Errorf("%q is asked twice", x.Claim.Payload.ClaimText)
		}
	}
	if !two.Report.Complete || two.Report.Dropped["duplicate"] < len(known) {
		t.Errorf("%+v", two.Report)
	}
}

func TestLeaks(t *testing.T) {
	item := Item{Text: "The office counted. All buoys of the north channel lie off Brenn since May, and none lies elsewhere."}
	for claim, want := range map[string]string{
		"All buoys of the north channel lie off Brenn since May.":   "copied",
		"all buoys, of the north channel, lie off Brenn":            "copied",
		"Since May every buoy of the north channel lies off Brenn.": "",
		"All buoys lie.": "", // short: anybody would say it so
		"It is false that the buoys of the north channel lie off Brenn.": "says_verdict",
		"The claim is that a false alarm rang at the true north.":        "says_verdict",
		"A false alarm rang in the north channel off Brenn.":             "",
	} {
		if got := leaks(claim, item); got != want {
			t.Errorf("%q: %q, want %q", claim, got, want)
		}
	}
}
