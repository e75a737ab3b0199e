// Command mutants changes one line of a rule at a time and asks whether the
// tests of its package fail. A change that no test sees is a rule that nobody
// guards. The tree is never touched: go test reads the changed file by -overlay.
//
// curated.txt names the changes. Besides them, -random draws some from the
// table of operators over the same files; the seed is printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// mutant is one change of one line.
type mutant struct {
	file, run string // run chooses tests, "" all of the package
	old, now  string
	equal     string // why no test can see it, "" for others
	at        int    // offset in file; -1 where old is the only one in it
}

// fate is what became of a mutant.
type fate struct {
	word string // killed, survived, equivalent, not built, broken
	note string
}

func main() {
	list := flag.String("list", "bench/mutants/curated.txt", "the curated changes")
	random := flag.Int("random", 50, "how many changes to draw from the table of operators")
	seed := flag.Uint64("seed", 0, "of the draw; 0 takes one by the clock")
	every := flag.Int("every", 1, "take each n-th of the curated changes only")
	short := flag.Bool("short", false, "take a few of pure packages, which build quickly: what lint runs")
	only := flag.String("only", "", "take files whose path contains this only")
	jobs := flag.Int("jobs", 2, "mutants at once")
	need := flag.Float64("need", 0.95, "the share that must be killed")
	limit := flag.Duration("timeout", 3*time.Minute, "for the tests of one mutant; who hangs counts as killed")
	flag.Parse()
	if *short {
		*random, *every = 0, 4
		quick = []string{"engine/incentive/paired.go", "engine/score/", "engine/copycat/", "kinds/research/merkle/merkle.go", "ledger/yuma/"}
	}
	if err := start(*list, *only, *random, *every, *jobs, *seed, *need, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// quick are the files to take, by the beginnings of their paths; nil: all.
var quick []string

func start(list, only string, random, every, jobs int, seed uint64, need float64, limit time.Duration) error {
	if every < 1 || jobs < 1 || random < 0 || !(need >= 0 && need <= 1) {
		return errors.New("-every and -jobs are at least 1, -random at least 0, -need from 0 to 1")
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	all, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	if err := standing(all); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool {
		begins := func(p string) bool { return strings.HasPrefix(m.file, p) }
		return !strings.Contains(m.file, only) || quick != nil && !slices.ContainsFunc(quick, begins)
	})
	var take []mutant
	for i, m := range all {
		if i%every == 0 {
			take = append(take, m)
		}
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	drawn, err := draw(all, random, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		return err
	}
	take = append(take, drawn...)
	if err := healthy(take, limit); err != nil {
		return err
	}
	fates := playAll(take, jobs, limit)
	return report(fates, len(take)-len(drawn), seed, need)
}

// parse reads blocks: a line "# FILE [RUN]" opens a file, "- OLD" and "+ NEW"
// are one change, "~ REASON" after them says that it changes no meaning.
func parse(text string) ([]mutant, error) {
	var list []mutant
	var file, run, old string
	for i, line := range strings.Split(text, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.TrimSpace(line) == "" || mark == "//":
		case mark == "#":
			file, run, _ = strings.Cut(rest, " ")
		case mark == "-" && file != "" && old == "":
			old = rest
		case mark == "+" && old != "":
			list = append(list, mutant{file: file, run: run, old: old, now: rest, at: -1})
			old = ""
		case mark == "~" && len(list) > 0 && old == "" && rest != "":
			list[len(list)-1].equal = rest
		default:
			return nil, fmt.Errorf("line %d: %q is out of place", i+1, line)
		}
	}
	return list, nil
}

// standing fails unless each change of the list, also of those that are not taken, has its
// old text once in its file: code that moved on takes its line of the list along.
func standing(list []mutant) error {
	var errs []error
	texts := map[string]string{}
	for _, m := range list {
		if _, read := texts[m.file]; !read {
			b, err := os.ReadFile(m.file)
			errs = append(errs, err)
			texts[m.file] = string(b)
		}
		if n := strings.Count(texts[m.file], m.old); n != 1 {
			errs = append(errs, fmt.Errorf("%s: %q stands there %d times, want once", m.file, m.old, n))
		}
	}
	return errors.Join(errs...)
}

// operators is the table of the drawn changes.
var operators = [][2]string{
	{" < ", " <= "},
	{" <= ", " < "},
	{" > ", " >= "},
	{" >= ", " > "},
	{" == ", " != "},
	{" != ", " == "},
	{" && ", " || "},
	{" || ", " && "},
	{" + ", " - "},
	{" - ", " + "},
	{"min(", "max("},
	{"max(", "min("},
	{"return true", "return false"},
	{"return false", "return true"},
}

// draw takes n places of operators in the files of the list, each at most once.
func draw(list []mutant, n int, r *rand.Rand) ([]mutant, error) {
	var all []mutant
	seen := map[string]bool{}
	for _, m := range list {
		if seen[m.file] {
			continue
		}
		seen[m.file] = true
		b, err := os.ReadFile(m.file)
		if err != nil {
			return nil, err
		}
		at := 0
		for _, line := range strings.SplitAfter(string(b), "\n") {
			if t := strings.TrimSpace(line); !strings.HasPrefix(t, "//") && !strings.ContainsAny(t, "\"`") {
				code, _, _ := strings.Cut(line, "//")
				for _, op := range operators {
					if k := strings.Index(code, op[0]); k >= 0 {
						all = append(all, mutant{file: m.file, run: m.run, old: op[0], now: op[1], at: at + k})
					}
				}
			}
			at += len(line)
		}
	}
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all[:min(n, len(all))], nil
}

// healthy fails unless the tests pass where nothing is changed: else each
// mutant would look killed.
func healthy(list []mutant, limit time.Duration) error {
	seen := map[string]bool{}
	for _, m := range list {
		key := filepath.Dir(m.file) + " " + m.run
		if seen[key] {
			continue
		}
		seen[key] = true
		if out, err := test(m, "", limit); err != nil {
			return fmt.Errorf("the tests of %s fail without any change: %w\n%s", key, err, out)
		}
	}
	return nil
}

// playAll prints each mutant that is not killed as it ends.
func playAll(list []mutant, jobs int, limit time.Duration) []fate {
	fates := make([]fate, len(list))
	var wg sync.WaitGroup
	turn := make(chan struct{}, jobs)
	for i := range list {
		wg.Add(1)
		turn <- struct{}{}
		go func() {
			defer wg.Done()
			fates[i] = play(list[i], limit)
			if fates[i].word != "killed" {
				fmt.Printf("%-10s %s%s: %s => %s  %s\n", fates[i].word, list[i].file, line(list[i]), strings.TrimSpace(list[i].old), strings.TrimSpace(list[i].now), fates[i].note)
			}
			<-turn
		}()
	}
	wg.Wait()
	return fates
}

// play runs the tests of one mutant.
func play(m mutant, limit time.Duration) fate {
	if m.equal != "" {
		return fate{"equivalent", m.equal}
	}
	b, err := os.ReadFile(m.file)
	if err != nil {
		return fate{"broken", err.Error()}
	}
	src, at := string(b), m.at
	if at < 0 {
		if n := strings.Count(src, m.old); n != 1 {
			return fate{"broken", fmt.Sprintf("the old text stands there %d times, want once", n)}
		}
		at = strings.Index(src, m.old)
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return fate{"broken", err.Error()}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	whole, err := filepath.Abs(m.file)
	if err != nil {
		return fate{"broken", err.Error()}
	}
	changed := filepath.Join(dir, "changed.go")
	overlay := filepath.Join(dir, "overlay.json")
	j, err := json.Marshal(map[string]any{"Replace": map[string]string{whole: changed}})
	if err == nil {
		err = errors.Join(os.WriteFile(changed, []byte(src[:at]+m.now+src[at+len(m.old):]), 0o600), os.WriteFile(overlay, j, 0o600))
	}
	if err != nil {
		return fate{"broken", err.Error()}
	}
	out, err := test(m, overlay, limit)
	switch {
	case err == nil:
		return fate{"survived", ""}
	case strings.Contains(out, "[build failed]"):
		return fate{"not built", firstLines(out)}
	}
	return fate{"killed", ""}
}

func test(m mutant, overlay string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout", limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if m.run != "" {
		args = append(args, "-run", m.run)
	}
	out, err := exec.CommandContext(ctx, "go", append(args, "./"+filepath.Dir(m.file))...).CombinedOutput()
	if err == nil && strings.Contains(string(out), "no tests to run") {
		err = errors.New("no tests to run")
	}
	return string(out), err
}

func firstLines(s string) string {
	lines := strings.SplitN(s, "\n", 4)
	return strings.Join(lines[:min(3, len(lines))], " ")
}

// report prints the figures; too few killed is an error.
func report(fates []fate, curated int, seed uint64, need float64) error {
	var count [2]map[string]int
	for i := range count {
		count[i] = map[string]int{}
	}
	for i, f := range fates {
		part := 0
		if i >= curated {
			part = 1
		}
		count[part][f.word]++
	}
	var bad []string
	for part, name := range []string{"curated", "drawn"} {
		c := count[part]
		judged := c["killed"] + c["survived"]
		share := 1.0
		if judged > 0 {
			share = float64(c["killed"]) / float64(judged)
		}
		fmt.Printf("%s: %d killed of %d (%.1f %%), %d equivalent, %d not built, %d broken", name, c["killed"], judged, 100*share, c["equivalent"], c["not built"], c["broken"])
		if part == 1 {
			fmt.Printf(", seed %d", seed)
		}
		fmt.Println()
		// A drawn change may be one without a meaning; only the curated list is held to the share.
		if part == 0 && (share < need || c["broken"]+c["not built"] > 0) {
			bad = append(bad, name)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s: fewer than %.0f %% are killed, or an entry does not fit its file", strings.Join(bad, ", "), 100*need)
	}
	return nil
}

// line tells where a change stands, as :N.
func line(m mutant) string {
	b, err := os.ReadFile(m.file)
	if err != nil {
		return ""
	}
	at := m.at
	if at < 0 {
		at = strings.Index(string(b), m.old)
	}
	if at < 0 {
		return ""
	}
	return fmt.Sprintf(":%d", 1+strings.Count(string(b[:at]), "\n"))
}
