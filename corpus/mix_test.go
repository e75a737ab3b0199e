package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

// mixed is a corpus of 40 problems: three coldkeys, of which c-a has two hotkeys and most plays.
func mixed(t *testing.T) (dir string) {
	t.Helper()
	s := newSource(40)
	n := 0
	for i := range 40 {
		for _, sub := range []string{"a", "a2", "b", "c"} {
			if sub == "b" && i%4 != 0 || sub == "c" && i%8 != 0 {
				continue
			}
			n++
			id := s.play(n, sub, i, words(i+1), fmt.Sprint(sub, i), float64(1-i%2))
			s.subs[sub].Licence = "MIT"
			if sub == "c" {
				s.subs[sub].Licence = "Apache-2.0"
			}
			_ = id
		}
	}
	s.subs["a2"].Coldkey = "c-a"
	r, _ := build(t, s, nil)
	return r.Dir
}

func mixOf(t *testing.T, dir string, change func(*MixConfig)) (*Statement, []Row) {
	t.Helper()
	cfg := MixConfig{Corpora: []string{dir}, Out: filepath.Join(t.TempDir(), "mix")}
	if change != nil {
		change(&cfg)
	}
	s, err := Mix(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(s.Dir, nil); err != nil || len(v.Problems) > 0 || v.Rows != s.Rows {
		t.Fatalf("a mix is a corpus: %v %+v", err, v)
	}
	rows, err := Sample(s.Dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return s, rows
}

// The statement is what the rows say, counted anew, and parts the pool to the last unit.
func TestMixStatement(t *testing.T) {
	s, rows := mixOf(t, mixed(t), func(c *MixConfig) { c.Pool = 1_000_001 })
	by := map[string]int{}
	ids := []string{}
	for _, r := range rows {
		by[r.From.Miner]++
		ids = append(ids, r.ID)
		if r.Split != Train || r.Weight <= 0 || r.Group == nil {
			t.Fatalf("row %s: split %s, weight %v, group %v", r.ID, r.Split, r.Weight, r.Group)
		}
	}
	slices.Sort(ids)
	if sum := sha256.Sum256([]byte(strings.Join(ids, "\n") + "\n")); s.Digest != hex.EncodeToString(sum[:]) || len(ids) != s.Rows {
		t.Errorf("the digest of the rows is another")
	}
	var credit, colds int64
	for _, x := range s.Shares {
		if by[x.Miner] != x.Rows {
			t.Errorf("%s: %d rows, the statement says %d", x.Miner, by[x.Miner], x.Rows)
		}
		if exact := 1_000_001 * float64(x.Rows) / float64(s.Rows); float64(x.Credit) < exact-1 || float64(x.Credit) > exact+1 {
			t.Errorf("%s is credited %d, not %.1f", x.Miner, x.Credit, exact)
		}
		credit += x.Credit
	}
	for _, x := range s.Coldkeys {
		colds += x.Credit
	}
	if credit != 1_000_001 || colds != 1_000_001 || len(s.Shares) != 4 || len(s.Coldkeys) != 3 || s.Coldkeys[0].Coldkey != "c-a" || s.Coldkeys[0].Hotkeys != 2 {
		t.Errorf("credits sum to %d and %d; %+v", credit, colds, s.Coldkeys)
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, StatementName))
	if err != nil {
		t.Fatal(err)
	}
	var file Statement
	if err := json.Unmarshal(b, &file); err != nil || file.Digest != s.Digest || file.Dir != "" {
		t.Errorf("the file says %+v, %v", file, err)
	}
}

// Half of a mix at most for one coldkey, however many hotkeys it has.
func TestMixCaps(t *testing.T) {
	dir := mixed(t)
	s, _ := mixOf(t, dir, func(c *MixConfig) { c.MaxShare = .5 })
	if top := s.Coldkeys[0]; top.Rows*2 > s.Rows || s.LeftOut[RejectColdkeyCap] == 0 {
		t.Errorf("%d of %d rows are of one coldkey; %v", top.Rows, s.Rows, s.LeftOut)
	}
	s, _ = mixOf(t, dir, func(c *MixConfig) { c.PerMiner, c.PerColdkey = 4, 6 })
	for _, x := range s.Shares {
		if x.Rows > 4 {
			t.Errorf("%+v", x)
		}
	}
	if s.Coldkeys[0].Rows != 6 {
		t.Errorf("%+v", s.Coldkeys)
	}
	s, _ = mixOf(t, dir, func(c *MixConfig) { c.Rows = 7 })
	if s.Rows != 7 || s.LeftOut[RejectNotNeeded] == 0 {
		t.Errorf("%d rows, %v", s.Rows, s.LeftOut)
	}
	var e *agon.Error
	_, err := Mix(t.Context(), MixConfig{Corpora: []string{dir}, Out: filepath.Join(t.TempDir(), "m"), MaxShare: .1})
	if !errors.As(err, &e) || e.Code != "nothing_left" { // three coldkeys cannot each have a tenth
		t.Errorf("caps that nothing can keep: %v", err)
	}
}

// Licences, and who agreed and withdrew.
func TestMixTerms(t *testing.T) {
	dir := mixed(t)
	for _, c := range []struct {
		name   string
		change func(*MixConfig)
		want   []string // miners
		why    string
	}{
		{"a licence", func(c *MixConfig) { c.Licences = []string{"Apache-2.0"} }, []string{"m-c"}, RejectLicence},
		{"who agreed", func(c *MixConfig) { c.OptIn = map[string]bool{"c-a": true, "m-b": true} }, []string{"m-a", "m-a2", "m-b"}, RejectNoOptIn},
		{"who withdrew", func(c *MixConfig) { c.OptOut = map[string]bool{"c-a": true} }, []string{"m-b", "m-c"}, RejectOptOut},
		{"both lists", func(c *MixConfig) { c.OptIn, c.OptOut = map[string]bool{"c-a": true}, map[string]bool{"m-a2": true} }, []string{"m-a"}, RejectOptOut},
	} {
		s, _ := mixOf(t, dir, c.change)
		var got []string
		for _, x := range s.Shares {
			got = append(got, x.Miner)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) || s.LeftOut[c.why] == 0 {
			t.Errorf("%s: %v, want %v; left out %v", c.name, got, c.want, s.LeftOut)
		}
	}
	var e *agon.Error
	_, err := Mix(t.Context(), MixConfig{Corpora: []string{dir}, Out: filepath.Join(t.TempDir(), "m"), OptIn: map[string]bool{}})
	if !errors.As(err, &e) || e.Code != "nothing_left" {
		t.Errorf("nobody agreed: %v", err)
	}
}

// What one corpus measures by is not trained on because another has it to train on; the
// same rows twice are one; and a row that was written in later is found.
func TestMixIsNotFooled(t *testing.T) {
	s := newSource(40)
	for i := range 40 {
		s.play(i, "a", i, words(i+1), fmt.Sprint("x", i), 1)
	}
	one, _ := build(t, s, nil)
	two, m := build(t, s, func(c *Config) { c.Salt = "other" })
	st, rows := mixOf(t, one.Dir, func(c *MixConfig) { c.Corpora = []string{one.Dir, two.Dir} })
	if st.LeftOut[RejectMeasures] == 0 || st.LeftOut[RejectDuplicate] == 0 || m.Counts.Eval == 0 {
		t.Fatalf("%v", st.LeftOut)
	}
	for _, dir := range []string{one.Dir, two.Dir} {
		for _, split := range []string{Eval, Held} {
			b, err := os.ReadFile(filepath.Join(dir, split, "rows.jsonl"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			for _, r := range rows {
				if bytes.Contains(b, []byte(`"`+r.From.Task+`"`)) {
					t.Errorf("%s is of split %s and in the mix", r.From.Task, split)
				}
			}
		}
	}
	file := filepath.Join(one.Dir, Train, "rows.jsonl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	line = bytes.ReplaceAll(line, []byte(`"m-a"`), []byte(`"m-thief"`))
	if err := os.WriteFile(file, append(append(b, line...), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	var e *agon.Error
	if _, err := Mix(t.Context(), MixConfig{Corpora: []string{one.Dir}, Out: filepath.Join(t.TempDir(), "m")}); !errors.As(err, &e) || e.Code != "changed" {
		t.Errorf("a row that was written in: %v", err)
	}
}

// What weighs more is taken first: what half of the plays solve, what is newer, what is
// not there yet; and a part whose exponent is 0 counts for nothing.
func TestMixWeights(t *testing.T) {
	at := func(days int) int64 { return time.Date(2026, 1, 1+days, 0, 0, 0, 0, time.UTC).UnixMilli() }
	m := &mixer{b: newBuilder(t.Context(), Config{}), newest: at(60)}
	on, off := 1.0, 0.0
	m.cfg = MixConfig{Difficulty: &on, Freshness: &on, Diversity: &on, HalfLife: 30 * 24 * time.Hour, MaxShare: 1}
	cand := func(id byte, cluster string, days int, weight float64) candidate {
		n := &m.b.names
		return candidate{id: [16]byte{id}, cluster: n.of(cluster), shape: n.of("s" + cluster), born: at(days), weight: weight, payer: n.of("k"), miner: n.of("k")}
	}
	order := func() (out []byte) {
		for n := 1; n <= len(m.list); n++ {
			taken, _ := m.pick(n, n)
			for _, c := range taken {
				if !slices.Contains(out, c.id[0]) {
					out = append(out, c.id[0])
				}
			}
		}
		return out
	}
	m.list = []candidate{cand(1, "x", 60, 1), cand(2, "x", 60, .9), cand(3, "y", 60, .6), cand(4, "z", 0, 1)}
	m.weigh()
	if w := m.list[3].weight; w != .25 { // two half-lives
		t.Errorf("60 days old: %v", w)
	}
	if got := order(); !bytes.Equal(got, []byte{1, 3, 2, 4}) { // .9/2 < .6
		t.Errorf("taken in the order %v", got)
	}
	m.cfg.Diversity = &off
	if got := order(); !bytes.Equal(got, []byte{1, 2, 3, 4}) {
		t.Errorf("without diversity: %v", got)
	}
	if e, h, n := difficulty(&Group{Size: 8, Solved: 8}), difficulty(&Group{Size: 8, Solved: 4}), difficulty(nil); h != 1 || n != 1 || e >= .4 {
		t.Errorf("difficulty: all solve %v, half %v, not known %v", e, h, n)
	}
}

// BenchmarkMix chooses among 100,000 rows of 1,000 problems.
func BenchmarkMix(b *testing.B) {
	m := &mixer{b: newBuilder(b.Context(), Config{})}
	one := 1.0
	m.cfg = MixConfig{Difficulty: &one, Freshness: &one, Diversity: &one, HalfLife: time.Hour, MaxShare: .1, Rows: 20_000}
	n := &m.b.names
	for i := range 100_000 {
		m.list = append(m.list, candidate{
			id: key16(fmt.Sprint(i)), cluster: n.of(fmt.Sprint("c", i%1000)), shape: n.of(fmt.Sprint("s", i%77)), payer: n.of(fmt.Sprint("k", i%50)), miner: n.of(fmt.Sprint("m", i%120)), weight: 1 / float64(1+i%9),
		})
	}
	for b.Loop() {
		if taken, err := m.choose(); err != nil || len(taken) != 20_000 {
			b.Fatal(len(taken), err)
		}
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
