// Package clawbench knows the scenarios of policy-pack arenas: office tasks
// with fixtures for mock tools, mechanical checks and criteria for a judge. It
// reads the files of ClawBench as they are.
package clawbench

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// Limits of what is read.
const (
	MaxScenario = 256 << 10 // a scenario's file, bytes
	MaxFixture  = 4 << 20   // one fixture, bytes
	maxItems    = 200       // checks, criteria, workspace files, each
	maxEpisodes = 16        // of a session
	maxPrompt   = 32 << 10
)

// Tools are those that scenarios may offer and checks may name, sorted.
var Tools = []string{"exec", "memory_get", "memory_search", "read", "slack", "web_fetch", "web_search"}

// Scenario is one office task.
type Scenario struct {
	Name        string            `yaml:"name" json:"name"`
	Difficulty  string            `yaml:"difficulty" json:"difficulty,omitempty"`
	Weight      float64           `yaml:"weight" json:"weight"`
	Description string            `yaml:"description" json:"description"`
	Tools       []string          `yaml:"tools" json:"tools"`
	Prompt      string            `yaml:"prompt" json:"prompt"`
	Variants    map[string]string `yaml:"variants" json:"variants"`   // baseline, optimized → file among the fixtures
	Workspace   map[string]string `yaml:"workspace" json:"workspace"` // place → fixture
	User        map[string]string `yaml:"user_context_defaults" json:"user_context_defaults"`
	Scoring     Scoring           `yaml:"scoring" json:"scoring"`
	// Session makes it one of several episodes in a box with a shell and stateful
	// services, of which only what the agent keeps in learned/ goes on.
	Session []SessionEpisode `yaml:"session" json:"session,omitempty"`
	// Verifier makes it one whose result a script tests, and no judge.
	Verifier *Verifier `yaml:"verifier" json:"verifier,omitempty"`
}

// Scoring is how an episode is judged.
type Scoring struct {
	Checks   []Check     `yaml:"checks" json:"checks,omitempty"`
	Criteria []Criterion `yaml:"criteria" json:"criteria,omitempty"`
	// Exact says that the checks know the truth, as those of made worlds do: where their gate
	// stays closed no judge opens it.
	Exact bool `yaml:"exact,omitempty" json:"exact,omitempty"`
}

// SessionEpisode is one episode of a session.
type SessionEpisode struct {
	Instruction string  `yaml:"instruction" json:"instruction"` // the fixture with the task
	Services    string  `yaml:"services" json:"services"`       // the fixture with what the services hold
	Scoring     Scoring `yaml:"scoring" json:"scoring"`
}

// Verifier tests what an agent left.
type Verifier struct {
	Tests    string `yaml:"tests" json:"tests"`       // a folder of fixtures that holds test.sh
	Output   string `yaml:"output" json:"output"`     // the file that the agent leaves, below /app
	TimeoutS int    `yaml:"timeout" json:"timeout_s"` // of test.sh; 0: 300
}

// Criterion is one question to the judge.
type Criterion struct {
	ID          string   `yaml:"id" json:"id"`
	Category    string   `yaml:"category" json:"category"` // safety, correctness
	Weight      *float64 `yaml:"weight" json:"weight"`     // nil counts 1
	Description string   `yaml:"description" json:"description"`
	GroundTruth string   `yaml:"ground_truth" json:"ground_truth,omitempty"`
	Guide       string   `yaml:"evaluation_guide" json:"evaluation_guide,omitempty"`
}

var nameForm = lazyregexp.New(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// ErrScenario is wrapped by everything that is wrong with a scenario's file.
var ErrScenario = errors.New("bad scenario")

func bad(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrScenario, field, fmt.Sprintf(format, args...))
}

// Parse reads and checks a scenario. Fields that it does not know are ignored,
// as the files of others have some.
func Parse(b []byte) (*Scenario, error) {
	if len(b) > MaxScenario {
		return nil, bad("file", "%d bytes, the limit is %d", len(b), MaxScenario)
	}
	if !utf8.Valid(b) {
		return nil, bad("file", "it is not UTF-8")
	}
	s := &Scenario{}
	d := yaml.NewDecoder(bytes.NewReader(b))
	switch err := d.Decode(s); {
	case errors.Is(err, io.EOF):
		return nil, bad("file", "it is empty")
	case err != nil:
		return nil, bad("file", "it is not YAML: %.300s", err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, bad("file", "it has more than one document")
	}
	if s.Weight == 0 {
		s.Weight = 1
	}
	return s, s.check()
}

func (s *Scenario) check() error {
	switch {
	case !nameForm().MatchString(s.Name):
		return bad("name", "%q: want a to z, 0 to 9, _ and -, at most 64", plain.Short(s.Name, 80))
	case !(s.Weight > 0) || s.Weight > 100:
		return bad("weight", "%v: want more than 0, at most 100", s.Weight)
	case strings.TrimSpace(s.Prompt) == "":
		return bad("prompt", "it is empty")
	case len(s.Prompt) > maxPrompt:
		return bad("prompt", "%d bytes, the limit is %d", len(s.Prompt), maxPrompt)
	case len(s.Workspace) > maxItems || len(s.Variants) > maxItems:
		return bad("workspace", "more than %d variants or workspace files", maxItems)
	}
	for i, name := range s.Tools {
		if !slices.Contains(Tools, name) {
			return bad(fmt.Sprintf("tools[%d]", i), "%q is not known: want some of %s", plain.Short(name, 80), strings.Join(Tools, ", "))
		}
	}
	if err := errors.Join(s.Scoring.check("scoring"), s.checkSession(), s.checkVerifier()); err != nil {
		return err
	}
	for _, files := range []map[string]string{s.Variants, s.Workspace} {
		for place, from := range files {
			if !fs.ValidPath(place) || !fs.ValidPath(from) {
				return bad("workspace", "%q from %q: want paths below the workspace and the fixtures", plain.Short(place, 80), plain.Short(from, 80))
			}
		}
	}
	for place := range s.Workspace {
		for dir := path.Dir(place); dir != "."; dir = path.Dir(dir) {
			if _, ok := s.Workspace[dir]; ok {
				return bad("workspace", "%q is a file and the folder of %q", plain.Short(dir, 80), plain.Short(place, 80))
			}
		}
	}
	return nil
}

func (s *Scenario) checkSession() error {
	if len(s.Session) > maxEpisodes {
		return bad("session", "%d episodes, the limit is %d", len(s.Session), maxEpisodes)
	}
	for i, e := range s.Session {
		field := fmt.Sprintf("session[%d]", i)
		if !fs.ValidPath(e.Instruction) || !fs.ValidPath(e.Services) {
			return bad(field, "%q and %q: want two fixtures", plain.Short(e.Instruction, 80), plain.Short(e.Services, 80))
		}
		if err := e.Scoring.check(field + ".scoring"); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scenario) checkVerifier() error {
	v := s.Verifier
	if v == nil {
		return nil
	}
	below, ok := strings.CutPrefix(v.Output, "/app/")
	switch {
	case len(s.Session) > 0:
		return bad("verifier", "a session has none")
	case !fs.ValidPath(v.Tests):
		return bad("verifier.tests", "%q: want a folder of fixtures", plain.Short(v.Tests, 80))
	case !ok || !fs.ValidPath(below) || below == ".":
		return bad("verifier.output", "%q: want a file below /app", plain.Short(v.Output, 80))
	case v.TimeoutS < 0 || v.TimeoutS > 3600:
		return bad("verifier.timeout", "%d: want 1 to 3600 seconds", v.TimeoutS)
	}
	return nil
}

func (s Scoring) check(at string) error {
	if len(s.Checks) > maxItems || len(s.Criteria) > maxItems {
		return bad(at, "more than %d checks or criteria", maxItems)
	}
	ids := map[string]bool{}
	for i, c := range s.Checks {
		if err := c.check(fmt.Sprintf("%s.checks[%d]", at, i)); err != nil {
			return err
		}
		if c.ID == "" || len(c.ID) > 100 || ids[c.ID] {
			return bad(fmt.Sprintf("%s.checks[%d].id", at, i), "%q is empty, too long or there twice", plain.Short(c.ID, 80))
		}
		ids[c.ID] = true
	}
	seen := map[string]bool{}
	for i, c := range s.Criteria {
		field := fmt.Sprintf("%s.criteria[%d]", at, i)
		switch {
		case c.ID == "" || len(c.ID) > 100 || seen[c.ID]:
			return bad(field+".id", "%q is empty, too long or there twice", plain.Short(c.ID, 80))
		case c.Weight != nil && !(*c.Weight >= 0 && *c.Weight <= 100):
			return bad(field+".weight", "want 0 to 100")
		case !slices.Contains(Categories, c.Category):
			return badCategory(field, c.Category)
		}
		seen[c.ID] = true
	}
	return nil
}

// Categories of checks and criteria. Those of safety and correctness gate; "" is other.
var Categories = []string{"safety", "correctness", "efficiency", "quality", "other", ""}

func badCategory(field, category string) error {
	return bad(field+".category", "%q is not known: want safety, correctness, efficiency, quality or other", plain.Short(category, 80))
}

// check refuses what would not ask anything: a check without what its type needs
// always passes, or never does.
func (c Check) check(field string) error {
	if !slices.Contains(CheckTypes, c.Type) {
		return bad(field+".type", "%q is not known", plain.Short(c.Type, 80))
	}
	if _, err := CompilePattern(c.Pattern, true); err != nil {
		return bad(field+".pattern", "%.300s", err)
	}
	need := func(is bool, name string, given bool) error {
		if is && !given {
			return bad(field+"."+name, "a check of type %s needs it", c.Type)
		}
		return nil
	}
	_, kind, _ := strings.Cut(c.Type, "_")
	err := cmp.Or(
		need(strings.HasSuffix(c.Type, "_contains") || strings.HasSuffix(c.Type, "_excludes"), "pattern", c.Pattern != ""),
		need(kind == "called" || kind == "not_called", "tool", len(c.names()) > 0),
		need(kind == "count_max" || kind == "count_score" || kind == "length_max", "max", c.Max != nil),
		need(kind == "count_min" || kind == "count_score", "min", c.Min != nil),
		need(kind == "called_before", "before", c.Before != ""),
		need(kind == "called_before", "after", c.After != ""),
	)
	switch {
	case err != nil:
		return err
	case c.Points != nil && !(*c.Points >= 0 && *c.Points <= 1000):
		return bad(field+".points", "want 0 to 1000")
	case c.Max != nil && math.IsNaN(*c.Max) || c.Min != nil && math.IsNaN(*c.Min):
		return bad(field+".max", "it is not a number")
	case !slices.Contains(Categories, c.Category):
		return badCategory(field, c.Category)
	}
	for _, name := range append(c.names(), c.Before, c.After) {
		if name != "" && !slices.Contains(Tools, name) {
			return bad(field+".tool", "%q is not known: want one of %s", plain.Short(name, 80), strings.Join(Tools, ", "))
		}
	}
	return nil
}

// Hardest is the order in which scenarios are played, known names first: a
// pack that fails one needs no other.
var Hardest = []string{"morning_brief", "inbox_to_action", "client_escalation", "team_standup", "inbox_triage"}

// Order sorts scenarios: by Hardest, then the heavier, then by name.
func Order(list []*Scenario) {
	at := func(s *Scenario) int {
		if i := slices.Index(Hardest, s.Name); i >= 0 {
			return i
		}
		return len(Hardest)
	}
	slices.SortStableFunc(list, func(a, b *Scenario) int {
		switch {
		case at(a) != at(b):
			return at(a) - at(b)
		case a.Weight != b.Weight:
			if a.Weight > b.Weight {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// Set is a folder of scenarios with their fixtures, as ClawBench has it:
// scenarios/NAME.yaml and fixtures/NAME/.
type Set struct {
	Scenarios []*Scenario // in the order of play
	FS        fs.FS
}

// Load reads a set.
func Load(files fs.FS) (*Set, error) {
	names, err := fs.Glob(files, "scenarios/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	if len(names) == 0 {
		return nil, bad("scenarios", "there is no file scenarios/*.yaml")
	}
	if len(names) > maxItems {
		return nil, bad("scenarios", "%d files, the limit is %d", len(names), maxItems)
	}
	set := &Set{FS: files}
	for _, name := range names {
		b, err := ReadFile(files, name, MaxScenario)
		if err != nil {
			return nil, err
		}
		s, err := Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if want := strings.TrimSuffix(path.Base(name), ".yaml"); s.Name != want {
			return nil, fmt.Errorf("%s: %w", name, bad("name", "%q is not the file's", s.Name))
		}
		set.Scenarios = append(set.Scenarios, s)
	}
	Order(set.Scenarios)
	return set, nil
}

// Get returns a scenario by name.
func (s *Set) Get(name string) (*Scenario, bool) {
	i := slices.IndexFunc(s.Scenarios, func(x *Scenario) bool { return x.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.Scenarios[i], true
}

// Missing lists the fixtures that a scenario names and the set lacks.
func (s *Set) Missing(sc *Scenario) []string {
	wanted := slices.Concat(slices.Collect(maps.Values(sc.Variants)), slices.Collect(maps.Values(sc.Workspace)))
	for _, e := range sc.Session {
		wanted = append(wanted, e.Instruction, e.Services)
	}
	if sc.Verifier != nil {
		wanted = append(wanted, path.Join(sc.Verifier.Tests, "test.sh"))
	}
	var out []string
	for _, from := range wanted {
		name := path.Join("fixtures", sc.Name, from)
		if st, err := fs.Stat(s.FS, name); err != nil || !st.Mode().IsRegular() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Fixture reads a scenario's fixture.
func (s *Set) Fixture(sc *Scenario, name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, bad("fixture", "%q is not a path below the fixtures", plain.Short(name, 80))
	}
	return ReadFile(s.FS, path.Join("fixtures", sc.Name, name), MaxFixture)
}

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(files fs.FS, name string, limit int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is not a regular file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", name, limit)
	}
	return b, nil
}

var template = lazyregexp.New(`\{\{([A-Z][A-Z0-9_]*)\}\}`)

// Fill replaces {{KEY}} by what user says; unknown keys stay.
func Fill(text string, user map[string]string) string {
	return template().ReplaceAllStringFunc(text, func(m string) string {
		if v, ok := user[m[2:len(m)-2]]; ok {
			return v
		}
		return m
	})
}

// UserContext joins a scenario's defaults with what an epoch says, and derives
// the first name where only the whole one is given.
func UserContext(defaults, given map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range defaults {
		out[k] = v
	}
	for k, v := range given {
		out[k] = v
	}
	if _, own := given["USER_FIRST_NAME"]; !own && given["USER_NAME"] != "" || out["USER_FIRST_NAME"] == "" {
		if name := strings.Fields(out["USER_NAME"]); len(name) > 0 {
			out["USER_FIRST_NAME"] = name[0]
		}
	}
	return out
}
