package kit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/sandbox"
)

// ArenaFile is an arena as an operator writes it (TOML). Unknown fields are
// mistakes. Sets are names of shipped sets ("small", "released") or
// directories of task directories.
type ArenaFile struct {
	ID     string `toml:"id"`
	Kind   string `toml:"kind"`
	Title  string `toml:"title"`
	Netuid uint16 `toml:"netuid"`
	// Ledger is where Netuid is: local (default), finney, test, or addresses.
	Ledger    string `toml:"ledger"`
	Licence   string `toml:"licence"`
	Incentive string `toml:"incentive"`
	// IncentiveNumbers are numbers of the rule, by name: its defaults otherwise.
	IncentiveNumbers map[string]float64 `toml:"incentive_numbers"`
	// Options are what the kind lets an arena choose.
	Options               map[string]string `toml:"options"`
	Sets                  []string          `toml:"sets"`
	Hidden                []string          `toml:"hidden"` // sets whose tasks only validators may read
	MaxLeases             int               `toml:"max_leases"`
	Attempts              *int              `toml:"attempts"`
	Replicas              int               `toml:"replicas"` // validators that play each run
	SubmissionsPerColdkey int               `toml:"submissions_per_coldkey"`
	// Evidence is "required" (default) or "foreign".
	Evidence string `toml:"evidence"`
	Policy   struct {
		Models []string    `toml:"models"`
		Driver string      `toml:"driver"`
		Agent  agon.Limits `toml:"agent"`
		Grader agon.Limits `toml:"grader"`
		Budget agon.Budget `toml:"budget"`
		// Gateway is "validator" (default) or the URL of the platform's own
		// gateway, whose key's address is then in GatewayKey.
		Gateway    string            `toml:"gateway"`
		GatewayKey string            `toml:"gateway_key"`
		Fields     map[string]string `toml:"fields"`
		Tools      []string          `toml:"tools"`
		// Judge bounds what judging a run may spend at the platform's gateway.
		Judge *agon.Judging `toml:"judge"`
	} `toml:"policy"`
	// Samples enters agon's own sample agents by demo miners.
	Samples bool `toml:"samples"`

	// Only is a demo's: of its tasks, that whose key ends so.
	Only string `toml:"-"`
}

// maxArenaFile bounds an arena file, in bytes.
const maxArenaFile = 256 << 10

var ArenaID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$`)

// LoadArenaFile reads and checks an arena file. The error names every mistake.
// KIND.toml, where no such file is, is the arena that the kind ships (Kit.Demo).
func LoadArenaFile(path string, kits List) (ArenaFile, error) {
	var f ArenaFile
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if k, ok := kits.Of(strings.TrimSuffix(path, ".toml")); ok && k.Demo != nil && strings.HasSuffix(path, ".toml") {
			return k.Demo().checked(kits)
		}
		if !strings.ContainsRune(path, os.PathSeparator) {
			err = fmt.Errorf("%w, nor does a kind of this binary ship it", err)
		}
	}
	if err != nil {
		return f, fmt.Errorf("read arena file: %w", err)
	}
	if st.Size() > maxArenaFile {
		return f, fmt.Errorf("arena file %s: larger than %d bytes", path, maxArenaFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return f, fmt.Errorf("read arena file: %w", err)
	}
	return ParseArenaFile(b, kits)
}

func decodeArenaFile(b []byte) (ArenaFile, error) {
	var f ArenaFile
	dec := toml.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		var strict *toml.StrictMissingError
		var bad *toml.DecodeError
		switch {
		case errors.As(err, &strict):
			return f, ArenaMistakes("arena file", strings.Split(strings.TrimSpace(strict.String()), "\n"))
		case errors.As(err, &bad):
			row, col := bad.Position()
			return f, ArenaMistakes("arena file", []string{fmt.Sprintf("line %d, column %d: %v", row, col, bad)})
		}
		return f, ArenaMistakes("arena file", []string{err.Error()})
	}
	return f, nil
}

// ParseArenaFile parses and checks the bytes of an arena file.
func ParseArenaFile(b []byte, kits List) (ArenaFile, error) {
	f, err := decodeArenaFile(b)
	if err != nil {
		return f, err
	}
	f.Defaults()
	return f.checked(kits)
}

// Check says all that is wrong with an arena: an *agon.Error.
func (f ArenaFile) Check(kits List) error {
	_, err := f.checked(kits)
	return err
}

// checked returns f, and all that is wrong with it.
func (f ArenaFile) checked(kits List) (ArenaFile, error) {
	var bad []string
	no := func(field, format string, args ...any) {
		bad = append(bad, field+": "+fmt.Sprintf(format, args...))
	}
	if !ArenaID.MatchString(f.ID) {
		no("id", "want 2 to 40 of a-z, 0-9 and -, not starting or ending with -")
	}
	k, known := kits.Of(f.Kind)
	if !known {
		no("kind", "%q is not one of %s", f.Kind, strings.Join(kits.Names(), ", "))
	}
	if p, err := dial.Parse(f.Ledger); err != nil {
		no("ledger", "%s", strings.TrimPrefix(err.Error(), "ledger: "))
	} else if p.Own() {
		f.Ledger = ""
	}
	rules := kits.Incentives()
	if rule, ok := rules[f.Incentive]; !ok {
		no("incentive", "%q is not one of %s", f.Incentive, strings.Join(slices.Sorted(maps.Keys(rules)), ", "))
	} else if err := rule.CheckNumbers(f.IncentiveNumbers); err != nil {
		no("incentive_numbers", "%v", err)
	}
	if known {
		if err := kind.CheckOptions(k.New(Parts{}), f.Options); err != nil {
			no("options", "%v", err)
		}
	}
	if len(f.Sets)+len(f.Hidden) == 0 {
		no("sets", "name at least one set of tasks")
	}
	if f.Replicas < 0 || f.Replicas > 9 {
		no("replicas", "%d validators: want 0 to 9", f.Replicas)
	}
	if f.Evidence != "" && f.Evidence != agon.EvidenceRequired && f.Evidence != agon.EvidenceForeign {
		no("evidence", "%.40q is neither %s nor %s", f.Evidence, agon.EvidenceRequired, agon.EvidenceForeign)
	}
	if f.Attempts != nil && (*f.Attempts < 0 || *f.Attempts > 5) {
		no("attempts", "%d retries: want 0 to 5", *f.Attempts)
	}
	if f.MaxLeases < 1 || f.MaxLeases > 1000 {
		no("max_leases", "%d: want 1 to 1000", f.MaxLeases)
	}
	if f.SubmissionsPerColdkey < 0 {
		no("submissions_per_coldkey", "%d: want 0 (no cap) or more", f.SubmissionsPerColdkey)
	}
	if f.Policy.Budget.Micros < 0 || f.Policy.Budget.Calls < 0 || f.Policy.Budget.Tokens < 0 {
		no("policy.budget", "amounts may not be negative")
	}
	if j := f.Policy.Judge; j != nil {
		if j.Budget.Micros < 0 || j.Budget.Calls < 1 || j.Budget.Tokens < 0 || j.Budget.TimeMS < 0 {
			no("policy.judge.budget", "want at least 1 call, and no negative amount")
		}
		if len(j.Models) == 0 {
			no("policy.judge.models", "name at least one model, or \"*\"")
		}
	}
	for _, p := range []struct {
		name   string
		limits agon.Limits
	}{{"policy.agent", f.Policy.Agent}, {"policy.grader", f.Policy.Grader}} {
		name, l := p.name, p.limits
		if l.WallMS < 1000 || l.WallMS > 24*3600*1000 {
			no(name+".wall_ms", "%d: want 1000 to 86400000", l.WallMS)
		}
		if l.MemoryBytes < 32<<20 {
			no(name+".memory_bytes", "%d: want at least 33554432", l.MemoryBytes)
		}
		for _, b := range sandbox.CheckLimits(l) {
			switch {
			case b.Name == "wall_ms", b.Name == "memory_bytes" && b.Value < b.Min: // named above
			case b.Value < b.Min:
				no(name+"."+b.Name, "%d: want at least %d", b.Value, b.Min)
			default:
				no(name+"."+b.Name, "%d: want at most %d", b.Value, b.Max)
			}
		}
	}
	if len(bad) > 0 {
		return f, ArenaMistakes("arena file", bad)
	}
	return f, nil
}

// ShippedArena is a Kit.Demo that is written as an arena file, which the kind
// embeds. The file is part of the program: a mistake in it panics, and the
// kind's tests find it (package kittest).
func ShippedArena(b []byte) func() ArenaFile {
	return func() ArenaFile {
		f, err := decodeArenaFile(b)
		if err != nil {
			panic("kit: " + err.Error())
		}
		f.Defaults()
		return f
	}
}

// ArenaMistakes is the error that lists what is wrong with an arena file: "field: message".
func ArenaMistakes(what string, list []string) error {
	e := &agon.Error{Code: "bad_arena_file", Status: 422, Message: what + ": " + strings.Join(list, "; "), Mend: "mend each and start again"}
	for _, l := range list {
		field, msg, ok := strings.Cut(l, ": ")
		if !ok {
			field, msg = "", l
		}
		e.Findings = append(e.Findings, agon.Finding{Code: "bad_arena_file", Field: field, Message: msg})
	}
	return e
}

// Defaults fills in what is left open.
func (f *ArenaFile) Defaults() {
	if f.Licence == "" {
		f.Licence = "MIT"
	}
	if f.Incentive == "" {
		f.Incentive = incentive.WinnerTakesAllRule
	}
	if f.MaxLeases == 0 {
		f.MaxLeases = 16
	}
	if f.Attempts == nil {
		two := 2
		f.Attempts = &two
	}
	if f.Policy.Models == nil {
		f.Policy.Models = []string{"*"}
	}
	limits := func(l *agon.Limits, wall int64) {
		def := func(v *int64, d int64) {
			if *v == 0 {
				*v = d
			}
		}
		def(&l.WallMS, wall)
		def(&l.CPUMilli, 1000)
		def(&l.MemoryBytes, 1<<30)
		def(&l.Pids, 128)
		def(&l.DiskBytes, 256<<20)
		def(&l.Inodes, 20_000)
		def(&l.OutputBytes, 8<<20)
	}
	limits(&f.Policy.Agent, 120_000) // the seed's two minutes
	limits(&f.Policy.Grader, 120_000)
	if f.Policy.Budget.Micros == 0 {
		f.Policy.Budget.Micros = 2_000_000 // the seed's two dollars
	}
	if f.Policy.Budget.Calls == 0 {
		f.Policy.Budget.Calls = 200
	}
}

// Arena returns the arena without its tasks.
func (f ArenaFile) Arena() agon.Arena {
	at := f.Policy.Gateway
	if at == "validator" {
		at = ""
	}
	return agon.Arena{
		ID: f.ID, Kind: f.Kind, Title: f.Title, Netuid: f.Netuid, Ledger: f.Ledger, State: agon.ArenaOpen, Licence: f.Licence,
		Incentive: f.Incentive, IncentiveNumbers: f.IncentiveNumbers, Options: f.Options, MaxLeases: f.MaxLeases, Attempts: *f.Attempts, Replicas: f.Replicas, SubmissionsPerColdkey: f.SubmissionsPerColdkey, Evidence: f.Evidence,
		Policy: agon.Policy{
			Models: f.Policy.Models, Agent: f.Policy.Agent, Grader: f.Policy.Grader, Budget: f.Policy.Budget, Driver: f.Policy.Driver,
			Gateway: at, GatewayKey: f.Policy.GatewayKey, Fields: f.Policy.Fields, Tools: f.Policy.Tools, Judge: f.Policy.Judge,
		},
	}
}
