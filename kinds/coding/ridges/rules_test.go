package ridges

import (
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"testing"
)

func p(v float64) *float64 { return &v }

func near(a, b float64) bool { return math.Abs(a-b) <= 6e-6*max(1, math.Abs(b)) }

// What the functions of the subnet gave for these inputs.
func TestImprove(t *testing.T) {
	none := math.NaN()
	opt := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	for i, c := range []struct {
		score, cost, leader, leaderCost float64
		ok                              bool
		gain, saved, units              float64
	}{
		{.6, .1, none, none, true, none, none, 60},
		{.515, .1, .5, .1, true, .03, 0, 1},
		{.5149, .1, .5, .1, false, .0298, 0, .99343},
		{.3, .1, .1, .1, true, 2, 0, 37.16701},
		{.5, .094, .5, .1, true, 0, .06, 1},
		{.499, .088, .5, .1, false, -.002, .12, 2.06598},
		{.5, .05, .5, .1, true, 0, .5, 11.20231},
		{.5, 0, .5, .1, true, 0, 1, 16.66667},
		{.53, .09, .5, .1, true, .06, .10, 3.67407},
		{.505, .094, .5, .1, true, .01, .06, 1.33663},
		{.53, .11, .5, .1, true, .06, -.10, 1.97129},
		{.52, 1, .5, .1, true, .04, -9, 1.32687},
		{.52, none, .5, .1, true, .04, none, 1.32687},
		{.2, .1, 0, .1, true, .03, 0, 1},
		{0, .1, 0, .1, false, 0, 0, 0},
		{.515, 0, .5, 0, true, .03, none, 1},
		{-1, .1, .5, .1, false, none, none, 0},
		{.49, .01, .5, .1, false, -.02, .9, 16.66667},
	} {
		got := Improve(c.score, opt(c.cost), opt(c.leader), opt(c.leaderCost))
		same := func(a *float64, b float64) bool { return a == nil && math.IsNaN(b) || a != nil && near(*a, b) }
		if got.Qualified != c.ok || !same(got.Score, c.gain) || !same(got.Cost, c.saved) || !near(got.Units, c.units) {
			t.Errorf("%d: %+v", i, got)
		}
	}
	units := func(s, c, l, lc float64) float64 { return Improve(s, &c, &l, &lc).Units }
	if a, b := units(.3, .1, .1, .1), units(.15, .1, .1, .1)+units(.3, .1, .15, .1); !near(a, b) {
		t.Errorf("one step %v, two %v", a, b)
	}
	if a, b := units(.1, .05, .1, .1), units(.1, .075, .1, .1)+units(.1, .05, .1, .075); !near(a, b) {
		t.Errorf("one saving %v, two %v", a, b)
	}
	for _, c := range []struct {
		score, cost float64
		passes      bool
	}{{.515, .20, true}, {.50, .094, true}, {.49, .05, false}, {.514, .096, false}} {
		if got := Improve(c.score, &c.cost, p(.5), p(.1)).Qualified; got != c.passes {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestTimes(t *testing.T) {
	for h, m := range map[float64]float64{0: 1, 12: 2, 48: 3, 108: 4, 10000: 29.86751, -5: 1} {
		if got := TimeMultiplier(h); !near(got, m) {
			t.Errorf("after %v hours: %v, want %v", h, got, m)
		}
	}
	for h, m := range map[float64]float64{0: 1, 168: .70711, 336: .5, 672: .25} {
		if got := Decayed(1, h); !near(got, m) {
			t.Errorf("after %v hours: %v, want %v", h, got, m)
		}
	}
}

func TestThreshold(t *testing.T) {
	if x := (Threshold{.75, .95, .05}).When(.85); !near(x, 13.862944) {
		t.Error(x)
	}
	got := ThresholdOf(p(.80), p(.75), .60)
	if !near(got.Start, .97445) || !near(got.K, .0164) || got.Floor != .8 {
		t.Errorf("%+v", got)
	}
	if none := ThresholdOf(nil, nil, 0); none.Start != .85 || none.Floor != 0 {
		t.Errorf("%+v", none)
	}
	if got.When(.8) != math.Inf(1) || got.When(.98) != 0 || !near(got.At(got.When(.9)), .9) {
		t.Errorf("%v %v", got.When(.8), got.When(.98))
	}
}

func TestConsensus(t *testing.T) {
	all := map[string][]string{"a": {"x", "y", "x"}, "b": {"y", "x", "z"}, "c": {"x", "z"}}
	if c := ConsensusOf(4, all); c.Counted != 1 || c.Score == nil || *c.Score != .25 || !c.Comparable {
		t.Errorf("%+v", c)
	}
	if c := ConsensusOf(4, map[string][]string{"a": {"x"}}); c.Score != nil {
		t.Errorf("one validator: %+v", c)
	}
	if c := ConsensusOf(4, map[string][]string{"a": {"x"}, "b": {"y"}}); c.Score != nil || c.Comparable {
		t.Errorf("nothing in common: %+v", c)
	}
	if Bound(20, 10) != .5 {
		t.Error(Bound(20, 10))
	}
}

func TestHiddenCode(t *testing.T) {
	of := func(scores ...float64) (out []Coded) {
		for _, s := range scores {
			out = append(out, Coded{Score: &s})
		}
		return out
	}
	row := func(n int, from, step float64) (out []float64) {
		for i := range n {
			out = append(out, math.Round((from-float64(i)*step)*100)/100)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		agents []Coded
		want   string
	}{
		{"eleven", of(row(11, .9, .01)...), "HHHHHHHHHH."},
		{"a tie at the tenth", of(append(row(9, .9, .01), .81, .81, .81)...), "HHHHHHHHHHHH"},
		{"three distinct scores", of(append(row(12, .9, 0), .8, .7)...), "HHHHHHHHHHHHHH"},
		{"few", of(.9, .1), "HH"},
		{"benchmark, no score, out", append(of(row(10, .9, .01)...), Coded{Score: p(.95), Benchmark: true}, Coded{}, Coded{Score: p(.95), Out: true}, Coded{Score: p(.1), Out: true}), "HHHHHHHHHH..H."},
	} {
		_, hidden := HiddenCode(c.agents)
		got := ""
		for _, h := range hidden {
			got += map[bool]string{true: "H", false: "."}[h]
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRetries(t *testing.T) {
	for _, code := range []int{2000, 2010, 2020, 2030, 2040, 2050, 3050} {
		if !Retryable(code) || Grant(code, 1, false, false) != 2 || Grant(code, 3, false, false) != 0 || Grant(code, 0, false, false) != 0 || Grant(code, 1, true, false) != 0 || Grant(code, 1, false, true) != 0 {
			t.Errorf("%d", code)
		}
	}
	for _, code := range []int{1000, 1040, 2060, 3000, 3040, 3060, 1234, 9999, 0} {
		if Retryable(code) || Grant(code, 1, false, false) != 0 {
			t.Errorf("%d is tried again", code)
		}
	}
}

func TestNames(t *testing.T) {
	for in, want := range map[string]int64{"django__django-11119": 23423618, "astropy__astropy-7166": 745136449, "polyglot_python_grade-school": 185503529, "": 2018687061, "a": 804145339} {
		if got := Seed(in); got != want {
			t.Errorf("seed of %q: %d, want %d", in, got, want)
		}
	}
	for in, want := range map[string]string{"0xabc:1": "8d6c131a-5383-5f88-88f0-d6ec9fdf5c43", "credit:11111111-2222-4333-8444-555555555555:0": "8a285eb8-5923-5845-999d-3de0a5f9d1f3"} {
		if got := AgentID(in); got != want {
			t.Errorf("agent of %q: %s", in, got)
		}
	}
	for _, c := range [][4]string{{"polyglot_py", "acronym-py", "", "QXWFY"}, {"swebench_verified", "django__django-11119", "", "5RX2G"}, {"", "x", "", "GTEGU"}, {"polyglot_py", "acronym-py", "salt", "K62GA"}} {
		if got := ProblemAlias(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%v: %s", c, got)
		}
	}
	if got := TestAlias("polyglot_py", "acronym-py", "default", "task_tests.AcronymTests.test_ruby_on_rails", ""); got != "VALID-MODULE-A56" || len(aliasFirst) != 64 || len(aliasSecond) != 64 {
		t.Error(got)
	}
	if a, b := TestAlias("", "x", "", "t", ""), TestAlias("", "x", "default", "t", "salt"); a == b || a != TestAlias("unknown", "x", "default", "t", "") {
		t.Error(a, b)
	}
	files := []File{{"instruction.md", 0o644, []byte("Fix it.\n")}, {"task.toml", 0o644, []byte("version = \"1.0\"\n")}, {"tests/test.sh", 0o755, []byte("#!/bin/sh\necho 1\n")}, {"x/__pycache__/a", 0o644, nil}, {"b.pyc", 0o644, nil}}
	if got := TaskDigest(files); got != "sha256:8a61bd41bfa305aeb790aba9fc1947c24debd8a442470afaa32d939ae683c606" {
		t.Error(got)
	}
	files = append(files, File{"a/z", 0o644, []byte("1")}, File{"a.txt", 0o644, []byte("2")}, File{"a-b", 0o644, []byte("3")})
	if got := TaskDigest(files); got != "sha256:7d52558ea3a3ee4dc883b9529749c638f157b035775effbd1de908b8be0cdf68" {
		t.Error(got)
	}
}

const someID = "11111111-2222-4333-8444-555555555555"

func TestTickets(t *testing.T) {
	i := int64(7)
	burn := &Ticket{Funding: Burn, Hotkey: "5F", PublicKey: "aa", Signature: "bb", QuoteID: someID, BlockHash: "0xabc", Index: &i}
	credit := &Ticket{Funding: Credit, Hotkey: "5F", PublicKey: "aa", Signature: "bb", CreditID: someID}
	for _, x := range []*Ticket{burn, credit} {
		got, err := ParseTicket("\n " + x.Encode() + " \n")
		if err != nil || got.Text() != x.Text() || got.Encode() != x.Encode() {
			t.Errorf("%+v %v", got, err)
		}
	}
	if burn.Text() != "ridges-upload-ticket:v2:5F:burn:"+someID+":0xabc:7" || credit.Text() != "ridges-upload-ticket:v2:5F:credit:"+someID {
		t.Error(burn.Text(), credit.Text())
	}
	const whole = `"funding":"credit","hotkey":"5F","public_key":"aa","signature":"bb","v":2,"credit_id":"` + someID + `"`
	bad := []string{"", "!", "e30", "{}", `{"v":2}`, `{` + whole + `} {}`, `{` + whole + `,"v":2}`, `{` + whole + `,"x":1}`, `{` + whole + `,"quote_id":"` + someID + `"}`, `{` + whole + `,"quote_id":{}}`}
	for _, c := range [][2]string{{`"v":2`, `"v":2.0`}, {`"v":2`, `"v":true`}, {`"v":2`, `"v":"2"`}, {`"credit"`, `"gift"`}, {someID, "1"}, {`"5F"`, `5`}} {
		bad = append(bad, `{`+strings.Replace(whole, c[0], c[1], 1)+`}`)
	}
	for _, index := range []string{"-1", "1.0", "true", `"1"`, "null", "9223372036854775808"} {
		bad = append(bad, fmt.Sprintf(`{"funding":"burn","hotkey":"5F","public_key":"aa","signature":"bb","v":2,"quote_id":%q,"payment_block_hash":"0x","payment_extrinsic_index":%s}`, someID, index))
	}
	for _, b := range bad {
		if strings.HasPrefix(b, "{") {
			b = base64.StdEncoding.EncodeToString([]byte(b))
		}
		if got, err := ParseTicket(b); err == nil {
			t.Errorf("%q: %+v", b, got)
		}
	}
	if _, err := ParseTicket(base64.StdEncoding.EncodeToString([]byte(`{` + whole + `,"quote_id":null}`))); err != nil {
		t.Error(err)
	}
}

func FuzzTicket(f *testing.F) {
	i := int64(0)
	f.Add((&Ticket{Funding: Burn, Hotkey: "5F", PublicKey: "a", Signature: "b", QuoteID: someID, BlockHash: "0x", Index: &i}).Encode())
	f.Add((&Ticket{Funding: Credit, Hotkey: "5F", PublicKey: "a", Signature: "b", CreditID: someID}).Encode())
	f.Fuzz(func(t *testing.T, s string) {
		x, err := ParseTicket(s)
		if err != nil {
			return
		}
		y, err := ParseTicket(x.Encode())
		if err != nil || x.Text() != y.Text() {
			t.Fatalf("%+v %+v %v", x, y, err)
		}
	})
}
