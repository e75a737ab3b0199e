package platform

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
)

// script returns a script that does what n says. A copy is dressed by dress: other
// names, layout, padding, order of helpers.
func script(n int, dress *rand.Rand) string {
	name, arg, helper, local := "evaluate", "request", "weigh", "words"
	doc, pad, comment, indent, value := "", "", "", "    ", fmt.Sprint(n)
	first, second := "", ""
	if dress != nil {
		word := func(p string) string { return fmt.Sprintf("%s_%d", p, dress.IntN(1e6)) }
		helper, local = word("h"), word("v")
		if dress.IntN(2) == 0 {
			doc = indent + fmt.Sprintf("\"\"\"Version %d.\"\"\"\n", dress.IntN(1e6))
		}
		if dress.IntN(2) == 0 {
			pad = "pass\n"
		}
		comment = fmt.Sprintf("  # %d\n\n", dress.IntN(1e6))
		indent = []string{"  ", "\t", "        "}[dress.IntN(3)]
		doc = strings.ReplaceAll(doc, "    ", indent)
		value = []string{fmt.Sprint(n), fmt.Sprintf("%#x", n), fmt.Sprintf("0b%b", n)}[dress.IntN(3)]
		if dress.IntN(2) == 0 {
			first = fmt.Sprintf("UNREAD_%d = [1]\n", dress.IntN(1e6))
		}
		if dress.IntN(2) == 0 {
			second = fmt.Sprintf("def %s(a):\n%sreturn a\n", word("unused"), indent)
		}
	}
	help := fmt.Sprintf("def %s(%s):\n%s%sreturn len(%s) * %s\n", helper, local, doc, indent, local, value)
	main := fmt.Sprintf("@entrypoint(\"evaluate\")\nasync def %s(%s):%s\n%s%s = %s[\"text\"].split()\n%sreturn {\"verdict\": 1, \"justification\": str(%s(%s))}\n",
		name, arg, comment, indent, local, arg, indent, helper, local)
	parts := []string{help, main}
	if dress != nil && dress.IntN(2) == 0 {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return "from sdk import entrypoint\n" + first + second + pad + strings.Join(parts, "\n\n")
}

func scriptArena(t testing.TB, tasks int) *fixture {
	t.Helper()
	return newFixture(t, tasks, func(c *Config, a *agon.Arena) {
		c.Kinds = map[string]kind.Kind{"script": &scriptKind{}}
		a.Kind, a.Incentive, a.MaxLeases = "script", podiumRule, 4
	})
}

// A copy of the first never enters, whatever the order: neither while the
// original waits, nor after it sits, nor after it was pushed down or out,
// and by whomever.
func TestCopyNeverEnters(t *testing.T) {
	for seed := range uint64(6) {
		f := scriptArena(t, 1)
		rnd := rand.New(rand.NewPCG(seed, 7))
		miners := []string{miner1, miner2, "m3", "m4"}
		for _, m := range miners[2:] {
			f.ledger.coldkey[m] = "cold-" + m
		}
		first := map[int]string{} // submission by what it does
		score := map[string]float64{}
		play := func() {
			for {
				l, err := f.Claim(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"script"}, Driver: "runc"})
				must(t, err)
				if l == nil {
					return
				}
				f.result(val1, l, scored(l, score[l.Submission.ID]))
			}
		}
		for step := range 60 {
			if rnd.IntN(4) == 0 {
				play()
			}
			n, dress := rnd.IntN(12), rnd
			if _, known := first[n]; !known && rnd.IntN(2) == 0 {
				dress = nil
			}
			s, err := f.Submit(bg, Caller{Hotkey: miners[rnd.IntN(len(miners))]}, "demo", client.SubmitRequest{
				Name: "x", Licence: "MIT", Files: []client.File{{Path: "agent.py", Content: []byte(script(n, dress))}},
			})
			was := first[n]
			if was == "" {
				must(t, err)
				first[n], score[s.ID] = s.ID, float64(rnd.IntN(13))/12
				continue
			}
			var e *agon.Error
			if !errors.As(err, &e) || e.Status != 409 || e.Code != "duplicate_structure" && e.Code != "duplicate" {
				t.Fatalf("seed %d step %d: a copy of %s: %v %v", seed, step, was, s, err)
			}
			old, err := f.Submission(bg, Caller{}, was)
			must(t, err)
			if old.State == agon.SubmissionScored && !strings.Contains(e.Message, was) {
				t.Fatalf("seed %d step %d: the refusal does not name %s: %s", seed, step, was, e.Message)
			}
		}
		play()
		b, err := f.Board(bg, "demo")
		must(t, err)
		if len(b.Seats) == 0 || len(b.Submissions) != len(first) {
			t.Fatalf("seed %d: %d seats, %d submissions of %d scripts", seed, len(b.Seats), len(b.Submissions), len(first))
		}
		for _, s := range b.Seats {
			if score[s.Submission] != s.Score {
				t.Errorf("seed %d: seat %+v scored %v", seed, s, score[s.Submission])
			}
		}
	}
}

func TestStructureGate(t *testing.T) {
	f := scriptArena(t, 1)
	submit := func(miner, src string) (*client.Submission, error) {
		return f.Submit(bg, Caller{Hotkey: miner}, "demo", client.SubmitRequest{Name: "x", Licence: "MIT", Files: []client.File{{Path: "agent.py", Content: []byte(src)}}})
	}
	dress := rand.New(rand.NewPCG(1, 1))
	a, err := submit(miner1, script(5, nil))
	must(t, err)
	// Undecided code is nobody else's to know, not even by whose copy it is.
	_, err = submit(miner2, script(5, dress))
	if e := wantCode(t, err, 409, "duplicate_structure"); strings.Contains(e.Message, a.ID) || strings.Contains(e.Message, miner1) {
		t.Errorf("the refusal tells %q", e.Message)
	}
	_, err = submit(miner1, script(5, dress))
	if e := wantCode(t, err, 409, "duplicate_structure"); !strings.Contains(e.Message, "your submission "+a.ID) {
		t.Errorf("the refusal tells %q", e.Message)
	}
	if again, err := submit(miner1, script(5, nil)); err != nil || again.ID != a.ID || again.Created {
		t.Errorf("the same bytes again: %+v %v", again, err)
	}
	if _, err = submit(miner2, script(6, nil)); err != nil {
		t.Errorf("another constant: %v", err)
	}
	if _, err = submit(miner2, strings.Repeat("(", 300)); err == nil {
		t.Error("what cannot be read was let in")
	}
	list, err := f.Submissions(bg, Caller{}, "demo", "", "", 0)
	must(t, err)
	if len(list.Items) != 2 {
		t.Errorf("%d submissions, want 2: a refusal stores nothing", len(list.Items))
	}
}
