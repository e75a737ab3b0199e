package kit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/libraries"
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
	Ledger string `toml:"ledger"`
	// Mechanism is the subnet's on which the arena's weights go (default 0).
	Mechanism uint8 `toml:"mechanism"`
	// WeightsVersion is the version key of the weights that validators give (default
	// 1): the subnet's WeightsVersionKey, where its owner demands one.
	WeightsVersion uint64 `toml:"weights_version"`
	Licence        string `toml:"licence"`
	Incentive      string `toml:"incentive"`
	// IncentiveNumbers are numbers of the rule, by name: its defaults otherwise.
	IncentiveNumbers map[string]float64 `toml:"incentive_numbers"`
	// Options are what the kind lets an arena choose.
	Options map[string]string `toml:"options"`
	Sets    []string          `toml:"sets"`
	Hidden  []string          `toml:"hidden"` // sets whose tasks only validators may read
	// Retired are sets that were hidden: nobody plays them any more, everybody may
	// read them, and what was committed to is opened.
	Retired               []string `toml:"retired"`
	MaxLeases             int      `toml:"max_leases"`
	Attempts              *int     `toml:"attempts"`
	Replicas              int      `toml:"replicas"` // validators that play each run
	SubmissionsPerColdkey int      `toml:"submissions_per_coldkey"`
	CooldownSeconds       int      `toml:"cooldown_seconds"`
	// Stages are played one after the other, each by the tasks of a set above.
	Stages []agon.Stage `toml:"stages"`
	// Evidence is "required" (default) or "foreign".
	Evidence string `toml:"evidence"`
	// Rejudge is the share of results that another validator judges again (default
	// 0.1), RejudgePerDay the most of a day, and UnjudgedSeats lets seats move without.
	Rejudge       *float64 `toml:"rejudge"`
	RejudgePerDay int      `toml:"rejudge_per_day"`
	UnjudgedSeats bool     `toml:"unjudged_seats"`
	Rehearsal     bool     `toml:"rehearsal"` // entries that the stand-in script answered sit, unpaid
	// Period is how long the set periods last, in hours or in blocks, and Supply where
	// each has its hidden tasks from.
	Period *agon.Period `toml:"period"`
	Supply *SupplyFile  `toml:"supply"`
	// Judge is the gate of judges that err, or that something stands in for; nil: the
	// default, where the kind has such judges.
	Judge *JudgeFile `toml:"judge"`
	// Embargo is how long work stays private after it was entered, in hours;
	// NearCopies is "charge" (default), "exclude" or "share".
	Embargo    int    `toml:"embargo_hours"`
	NearCopies string `toml:"near_copies"`
	// Publishers are hotkeys that may publish tasks beside this arena's.
	Publishers []string `toml:"publishers"`
	// EntryFee is what an entry costs its coldkey, in dollars, and PairsPaidBy who pays
	// for its pairs: "gateway" (default: whoever runs it) or "challenger".
	EntryFee    float64 `toml:"entry_fee_usd"`
	PairsPaidBy string  `toml:"pairs_paid_by"`
	Policy      struct {
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
		// Usage says what becomes of a count of tokens that the text contradicts.
		Usage string `toml:"usage"`
		// Hosts "none" leaves providers' names out of agents' boxes.
		Hosts string   `toml:"hosts"`
		Tools []string `toml:"tools"`
		// Aliases are names under which agents may ask for a model, each with its price.
		Aliases []agon.Alias `toml:"aliases"`
		// Judge bounds what judging a run may spend at the platform's gateway.
		Judge *agon.Judging `toml:"judge"`
		// Libraries are the agents' Python packages: a list that ships, by its name,
		// or a file of packages locked by hash.
		Libraries string `toml:"libraries"`
	} `toml:"policy"`
	// Samples enters agon's own sample agents by demo miners.
	Samples bool `toml:"samples"`
	// Only is a demo's: of its tasks, that whose key ends so.
	Only string `toml:"-"`

	openRule bool // the file names no rule
	// gate is Judge, with what it leaves open; nil: the kind's judge does not err,
	// and lacks nothing.
	gate *agon.Gate
	// libraries is the list that Policy.Libraries names, read.
	libraries []byte
}

// Libraries are the list of the agents' packages and what an arena says of it;
// nil where the file names none.
func (f ArenaFile) Libraries() (*agon.Libraries, []blob.File) {
	if len(f.libraries) == 0 {
		return nil, nil
	}
	packages, err := libraries.Parse(f.libraries)
	files := []blob.File{{Path: libraries.File, Content: f.libraries}}
	d, serr := blob.SumFiles(files, blob.TreeLimits{})
	if err != nil || serr != nil { // it was checked when the file was read
		return nil, nil
	}
	return &agon.Libraries{List: d, Packages: packages}, files
}

// maxArenaFile bounds an arena file, in bytes.
const maxArenaFile = 256 << 10

var ArenaID = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$`)

// LoadArenaFile reads and checks an arena file. The error names every mistake.
// Where no such file is, KIND.toml and the arena's id mean the one that the kind ships
// (Kit.Demo).
func LoadArenaFile(path string, kits List) (ArenaFile, error) {
	var f ArenaFile
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		var ids []string
		for _, k := range kits {
			if k.Demo == nil {
				continue
			}
			d := k.Demo()
			if path == k.Kind+".toml" || path == d.ID {
				return d.checked(kits)
			}
			ids = append(ids, d.ID)
		}
		if !strings.ContainsRune(path, os.PathSeparator) {
			err = fmt.Errorf("%w, nor does a kind of this binary ship it (it ships %s)", err, strings.Join(ids, ", "))
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
	f, bad := parseArenaFile(b, kits, filepath.Dir(path))
	if len(bad) > 0 {
		return f, ArenaMistakes(path, bad)
	}
	return f, nil
}

// below makes folders of tasks relative to the arena file's own. One that is not
// there is looked up from the current folder, as it was once.
func (f *ArenaFile) below(dir string) (bad []string) {
	named := map[string][]string{"sets": f.Sets, "hidden": f.Hidden, "retired": f.Retired}
	if f.Supply != nil && !strings.Contains(f.Supply.Path, "://") {
		path := []string{f.Supply.Path}
		named["supply.path"] = path
		defer func() { f.Supply.Path = path[0] }()
	}
	for field, list := range named {
		for i, s := range list {
			if !strings.ContainsRune(s, os.PathSeparator) || filepath.IsAbs(s) {
				continue
			}
			own := filepath.Join(dir, s)
			if !strings.ContainsRune(own, os.PathSeparator) {
				own = "." + string(os.PathSeparator) + own
			}
			_, here := os.Stat(own)
			_, there := os.Stat(s)
			switch {
			case here == nil:
				list[i] = own
			case there != nil:
				bad = append(bad, fmt.Sprintf("%s: %q: there is no folder %s (paths are relative to this file)", field, s, own))
			}
		}
	}
	return bad
}

// ParseArenaFile parses and checks the bytes of an arena file.
func ParseArenaFile(b []byte, kits List) (ArenaFile, error) {
	f, bad := parseArenaFile(b, kits, "")
	if len(bad) > 0 {
		return f, ArenaMistakes("arena file", bad)
	}
	return f, nil
}

// parseArenaFile reads the bytes of an arena file in a folder ("": none), and
// returns what is wrong with it by place.
func parseArenaFile(b []byte, kits List, dir string) (ArenaFile, []string) {
	f, bad := decodeArenaFile(b)
	f.openRule = f.Incentive == ""
	if k, ok := kits.Of(f.Kind); ok && k.Coordinator != nil && f.openRule {
		f.Incentive = incentive.WinnerTakesAllRule // the kind decides by tests of its own
	}
	if _, said := f.IncentiveNumbers[incentive.NumBaseline]; !said && (f.Incentive == incentive.PairedRule || f.Incentive == "") {
		if k, ok := kits.Of(f.Kind); ok && k.Baseline > 0 {
			f.IncentiveNumbers = maps.Clone(f.IncentiveNumbers)
			if f.IncentiveNumbers == nil {
				f.IncentiveNumbers = map[string]float64{}
			}
			f.IncentiveNumbers[incentive.NumBaseline] = k.Baseline
		}
	}
	f.Defaults()
	f, more := f.mistakes(kits)
	if dir != "" {
		more = append(more, f.below(dir)...)
	}
	if name := f.Policy.Libraries; name != "" {
		list, err := libraries.Of(name, dir, kits.Libraries())
		if err == nil {
			_, err = libraries.Parse(list)
		}
		if f.libraries = list; err != nil {
			more = append(more, "policy.libraries: "+err.Error())
		}
	}
	bad = append(bad, placed(more, places(b))...)
	slices.SortStableFunc(bad, func(a, b string) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return f, bad
}

// lineOf is the line that a mistake names; 0: none.
func lineOf(l string) int {
	row, _, _ := strings.Cut(l, ":")
	n, err := strconv.Atoi(row)
	if err != nil {
		return 0
	}
	return n
}

// Check says all that is wrong with an arena: an *agon.Error.
func (f ArenaFile) Check(kits List) error {
	_, err := f.checked(kits)
	return err
}

// checked returns f, and all that is wrong with it.
func (f ArenaFile) checked(kits List) (ArenaFile, error) {
	f, bad := f.mistakes(kits)
	if len(bad) > 0 {
		return f, ArenaMistakes("arena file", bad)
	}
	return f, nil
}

// mistakes returns f, and each mistake as "field: message".
func (f ArenaFile) mistakes(kits List) (_ ArenaFile, bad []string) {
	no := func(field, format string, args ...any) {
		bad = append(bad, field+": "+fmt.Sprintf(format, args...))
	}
	if !ArenaID().MatchString(f.ID) {
		no("id", "%.60q: want 2 to 40 of a-z, 0-9 and -, not starting or ending with -", f.ID)
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
	if known {
		f.gate = gateOf(k, f, no)
	}
	if len(f.Sets)+len(f.Hidden) == 0 && f.Supply == nil {
		no("sets", "name at least one set of tasks")
	}
	if f.Supply != nil {
		f.Supply.mistakes(k, no)
		if len(f.Stages) > 0 {
			no("stages", "a supply gives one set, which has no stages: leave them out")
		}
		if len(f.Hidden) > 0 {
			no("hidden", "its hidden tasks come out of the supply: leave it out")
		}
	}
	if x := f.Period; x != nil {
		switch {
		case (x.Hours > 0) == (x.Blocks > 0):
			no("period", "name hours or blocks, one of them")
		case x.Blocks == 0 && !(x.Hours >= agon.LeastPeriodHours && x.Hours <= agon.MostPeriodHours):
			no("period.hours", "%v: want a minute (0.0167) to %d", x.Hours, agon.MostPeriodHours)
		case x.Blocks > agon.MostPeriodBlocks:
			no("period.blocks", "%d: want at most %d", x.Blocks, uint64(agon.MostPeriodBlocks))
		}
	}
	if f.Mechanism >= agon.MaxMechanisms {
		no("mechanism", "%d: want 0 to %d", f.Mechanism, agon.MaxMechanisms-1)
	}
	if f.Replicas < 0 || f.Replicas > 9 {
		no("replicas", "%d validators: want 0 to 9", f.Replicas)
	}
	f.checkStages(no)
	if f.Evidence != "" && f.Evidence != agon.EvidenceRequired && f.Evidence != agon.EvidenceForeign {
		no("evidence", "%.40q is neither %s nor %s", f.Evidence, agon.EvidenceRequired, agon.EvidenceForeign)
	}
	if f.Embargo < 0 || f.Embargo > agon.MostEmbargo {
		no("embargo_hours", "%d hours: want 0 to %d", f.Embargo, agon.MostEmbargo)
	}
	if !agon.IsNearCopies(f.NearCopies) {
		no("near_copies", "%.40q: want %s, %s or %s", f.NearCopies, agon.NearCopiesCharge, agon.NearCopiesExclude, agon.NearCopiesShare)
	}
	if !(f.EntryFee >= 0 && f.EntryFee*1e6 <= float64(agon.MostMoney)) {
		no("entry_fee_usd", "%v: want 0 to %d", f.EntryFee, agon.MostMoney/1_000_000)
	}
	if !agon.IsPairsPaidBy(f.PairsPaidBy) {
		no("pairs_paid_by", "%.40q: want %s or %s", f.PairsPaidBy, agon.PaidByGateway, agon.PaidByChallenger)
	}
	if f.Rejudge != nil && !(*f.Rejudge >= 0 && *f.Rejudge <= 1) {
		no("rejudge", "%v: want a share of 0 to 1", *f.Rejudge)
	}
	if f.RejudgePerDay < 0 || f.RejudgePerDay > 1_000_000 {
		no("rejudge_per_day", "%d: want 0 (the default) to 1000000", f.RejudgePerDay)
	}
	if f.Attempts != nil && (*f.Attempts < 0 || *f.Attempts > 5) {
		no("attempts", "%d retries: want 0 to 5", *f.Attempts)
	}
	if f.MaxLeases < 1 || f.MaxLeases > 1000 {
		no("max_leases", "%d: want 1 to 1000", f.MaxLeases)
	}
	if f.CooldownSeconds < 0 || f.CooldownSeconds > 30*24*3600 {
		no("cooldown_seconds", "%d: want 0 (none) to 2592000, thirty days", f.CooldownSeconds)
	}
	if f.SubmissionsPerColdkey < 0 {
		no("submissions_per_coldkey", "%d: want 0 (no cap) or more", f.SubmissionsPerColdkey)
	}
	if f.Policy.Budget.Micros < 0 || f.Policy.Budget.Calls < 0 || f.Policy.Budget.Tokens < 0 {
		no("policy.budget", "amounts may not be negative")
	}
	if u := f.Policy.Usage; u != "" && u != agon.UsageReport && u != agon.UsageRefuse {
		no("policy.usage", "%.40q is neither %s nor %s", u, agon.UsageReport, agon.UsageRefuse)
	}
	if h := f.Policy.Hosts; h != "" && h != agon.HostsProviders && h != agon.HostsNone {
		no("policy.hosts", "%.40q is neither %s nor %s", h, agon.HostsProviders, agon.HostsNone)
	}
	named := map[string]bool{}
	for i, a := range f.Policy.Aliases {
		at := fmt.Sprintf("policy.aliases[%d]", i)
		switch {
		case a.Name == "" || len(a.Name) > 200 || a.Name == "*":
			no(at, "want a name of 1 to 200 bytes")
		case named[a.Name]:
			no(at, "%.60q is named twice", a.Name)
		case a.In != nil && (*a.In < 0 || *a.In > 1e12) || a.Out != nil && (*a.Out < 0 || *a.Out > 1e12):
			no(at, "%.60q: in and out are micro-dollars per 1,000,000 tokens, 0 to 1000000000000", a.Name)
		}
		named[a.Name] = true
	}
	if len(f.Policy.Aliases) > 100 {
		no("policy.aliases", "%d: at most 100", len(f.Policy.Aliases))
	}
	switch own, key := f.Policy.Gateway != "" && f.Policy.Gateway != "validator", f.Policy.GatewayKey; {
	case own && key == "":
		no("policy.gateway_key", "want the address of the key that signs for %.80s: without it nobody can tell what was called there", f.Policy.Gateway)
	case !own && key != "":
		no("policy.gateway", "want the URL of the gateway that policy.gateway_key is of")
	case key != "":
		if _, err := auth.ParseSS58(key); err != nil {
			no("policy.gateway_key", "%.60q is not the address of a key", key)
		}
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
	return f, bad
}

// checkStages says what is wrong with the stages.
func (f ArenaFile) checkStages(no func(field, format string, args ...any)) {
	if len(f.Stages) > 0 && f.Replicas > 1 {
		no("replicas", "%d validators, and stages: a stage says how many validators play it (evaluations)", f.Replicas)
	}
	if len(f.Stages) > 9 {
		no("stages", "%d stages: want at most 9", len(f.Stages))
	}
	seen := map[string]bool{}
	for i, s := range f.Stages {
		at := func(field string) string { return fmt.Sprintf("stages.%d.%s", i+1, field) }
		if !agon.StageName.MatchString(s.Name) || seen[s.Name] {
			no(at("name"), "%.60q: want 1 to 30 of a-z, 0-9 and _, and no name twice", s.Name)
		}
		seen[s.Name] = true
		if !slices.Contains(f.Sets, s.Set) && !slices.Contains(f.Hidden, s.Set) {
			no(at("set"), "%.60q is not one of the arena's sets", s.Set)
		}
		if !(s.Threshold >= 0 && s.Threshold <= 1) {
			no(at("threshold"), "%v: want 0 to 1", s.Threshold)
		}
		if !(s.OfTop >= 0 && s.OfTop <= 1) {
			no(at("of_top"), "%v: want a share of 0 to 1", s.OfTop)
		}
		if s.Evaluations < 0 || s.Evaluations > 9 {
			no(at("evaluations"), "%d validators: want 0 to 9", s.Evaluations)
		}
	}
}

// StagesOf are the stages of an arena file with the keys of their tasks.
func (f ArenaFile) StagesOf(refs []agon.TaskRef) []agon.Stage {
	out := slices.Clone(f.Stages)
	for i := range out {
		out[i].Tasks = nil
		for _, t := range refs {
			if set, _, _ := strings.Cut(t.Key, "/"); set == filepath.Base(out[i].Set) {
				out[i].Tasks = append(out[i].Tasks, t.Key)
			}
		}
	}
	return out
}

// ShippedArena is a Kit.Demo that is written as an arena file, which the kind
// embeds. The file is part of the program: a mistake in it panics, and the
// kind's tests find it (package kittest).
func ShippedArena(b []byte) func() ArenaFile {
	return func() ArenaFile {
		f, bad := decodeArenaFile(b)
		if len(bad) > 0 {
			panic("kit: " + bad[0])
		}
		f.Defaults()
		return f
	}
}

// Defaults fills in what is left open.
func (f *ArenaFile) Defaults() {
	if f.Licence == "" {
		f.Licence = "MIT"
	}
	if f.Incentive == "" {
		f.Incentive = incentive.PairedRule
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

// KeepRule takes over the rule that the arena has had where the file names none:
// what is the default today does not change an arena that is open.
func (f ArenaFile) KeepRule(a *agon.Arena, old agon.Arena) {
	if !f.openRule || old.Incentive == "" {
		return
	}
	a.Incentive = old.Incentive
	if old.Incentive != f.Incentive {
		a.IncentiveNumbers = old.IncentiveNumbers
	}
}

// Arena returns the arena without its tasks.
func (f ArenaFile) Arena() agon.Arena {
	at := f.Policy.Gateway
	if at == "validator" {
		at = ""
	}
	libs, _ := f.Libraries()
	var supply *agon.Supply
	if x := f.Supply; x != nil {
		supply = &agon.Supply{From: x.From, Tasks: x.Tasks, Uses: x.Uses, Beacon: x.Beacon, Entries: x.Entries, Difficulty: x.Difficulty}
	}
	return agon.Arena{
		Period: f.Period, Supply: supply,
		ID: f.ID, Kind: f.Kind, Title: f.Title, Netuid: f.Netuid, Ledger: f.Ledger, Mechanism: f.Mechanism, WeightsVersion: f.WeightsVersion, State: agon.ArenaOpen, Licence: f.Licence,
		Incentive: f.Incentive, IncentiveNumbers: f.IncentiveNumbers, Options: f.Options, MaxLeases: f.MaxLeases, Attempts: *f.Attempts, Replicas: f.Replicas, SubmissionsPerColdkey: f.SubmissionsPerColdkey, CooldownSeconds: f.CooldownSeconds, Evidence: f.Evidence,
		Rejudge: f.Rejudge, RejudgePerDay: f.RejudgePerDay, UnjudgedSeats: f.UnjudgedSeats, Rehearsal: f.Rehearsal, Gate: f.gate, Embargo: f.Embargo, Publishers: f.Publishers, NearCopies: f.NearCopies,
		Charges: agon.Charges{EntryFee: agon.Micros(math.Round(f.EntryFee * 1e6)), PairsPaidBy: f.PairsPaidBy},
		Policy: agon.Policy{
			Models: f.Policy.Models, Agent: f.Policy.Agent, Grader: f.Policy.Grader, Budget: f.Policy.Budget, Driver: f.Policy.Driver,
			Gateway: at, GatewayKey: f.Policy.GatewayKey, Fields: f.Policy.Fields, Usage: f.Policy.Usage, Hosts: f.Policy.Hosts, Aliases: f.Policy.Aliases, Tools: f.Policy.Tools, Judge: f.Policy.Judge, Libraries: libs,
		},
	}
}
