package corpus

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
)

// Why a row of a corpus does not come into a mix, besides RejectLicence,
// RejectDuplicate, RejectFiltered and RejectColdkeyCap.
const (
	RejectScripted  = "scripted"          // the stand-in script made it
	RejectMeasures  = "measures"          // its problem or query stands in a split eval or held
	RejectNoOptIn   = "no_opt_in"         // neither hotkey nor coldkey is on the list of those who agreed
	RejectOptOut    = "opt_out"           // hotkey or coldkey is on the list of those who withdrew
	RejectMinerCap  = "miner_cap"         // its hotkey has its share
	RejectNotNeeded = "beyond_rows_asked" // others weigh more
)

// MixConfig says what to mix, and how. Zero values mean the default named.
type MixConfig struct {
	Corpora []string // directories of corpora; their split train is read
	Out     string   // directory to make; it must not exist
	Rows    int      // how many at most; all that the caps leave

	// Exponents of the three parts of a row's weight; nil: 1, 0 leaves a part out.
	Difficulty, Freshness, Diversity *float64
	HalfLife                         time.Duration // of freshness; 30 days

	PerMiner, PerColdkey int     // rows of one hotkey, of one coldkey; no bound
	MaxShare             float64 // of the mix that one coldkey may have, above 0 to 1; 1

	Licences      []string        // only rows under these; all that have one
	OptIn, OptOut map[string]bool // hotkeys or coldkeys; a nil OptIn asks nobody
	Scripted      bool            // rows by the stand-in script, too
	Solved        bool            // only rows that solve their task
	Pool          int64           // credits to part by rows, in the pool's smallest unit; 0: none

	Finals Finals // of the kinds; optional
	// Progress is called with how many rows were read. Optional.
	Progress func(rows int)
}

func (c *MixConfig) fill() error {
	bad := func(field, format string, args ...any) error {
		return &agon.Error{Code: "bad_field", Status: 422, Field: field, Message: fmt.Sprintf(format, args...)}
	}
	one := 1.0
	for _, p := range []struct {
		name string
		v    **float64
	}{{"difficulty", &c.Difficulty}, {"freshness", &c.Freshness}, {"diversity", &c.Diversity}} {
		if *p.v == nil {
			*p.v = &one
		}
		if v := **p.v; !(v >= 0 && v <= 16) {
			return bad(p.name, "%v is not an exponent from 0 to 16", v)
		}
	}
	c.HalfLife, c.MaxShare = cmp.Or(c.HalfLife, 30*24*time.Hour), cmp.Or(c.MaxShare, 1)
	switch {
	case len(c.Corpora) == 0 || c.Out == "":
		return errors.New("mix: Corpora and Out are needed")
	case c.HalfLife < 0:
		return bad("half-life", "%v is below 0", c.HalfLife)
	case !(c.MaxShare > 0 && c.MaxShare <= 1):
		return bad("max-share", "%v is not a share above 0 and up to 1", c.MaxShare)
	}
	for _, n := range []struct {
		name string
		v    int64
	}{{"rows", int64(c.Rows)}, {"per-miner", int64(c.PerMiner)}, {"per-coldkey", int64(c.PerColdkey)}, {"pool", c.Pool}} {
		if n.v < 0 {
			return bad(n.name, "%d is below 0", n.v)
		}
	}
	if _, err := os.Lstat(c.Out); err == nil {
		return &agon.Error{Code: "exists", Status: 409, Field: "out", Message: c.Out + " is there already", Mend: "name a new directory"}
	}
	return nil
}

// candidate is what stays in memory of a row that may come into the mix.
type candidate struct {
	id, calls                    [16]byte
	offset                       int64
	born                         int64 // of its run, in Unix milliseconds; 0: not known
	weight                       float64
	tokens                       int
	task, cluster, shape         name // shape: the names of the tools it called, in order
	miner, coldkey, payer, terms name // payer: whom the cap of coldkeys counts; terms: the licence
	submission                   name
	solved, agentic              bool
}

type mixer struct {
	cfg      MixConfig
	b        *builder
	list     []candidate
	measured map[[16]byte]bool // problems and queries of the splits eval and held
	seen     map[[16]byte]bool // ids, and calls on a problem
	newest   int64
	from     []MixSource
}

// Mix weighs the rows that corpora have to train on, takes those that weigh most
// within the caps, and writes them as a corpus of its own with a statement of
// who is credited how much. The same input gives the same bytes. A row is taken
// under a licence only, and never where its problem or query stands in the split
// eval or held of one of the corpora.
//
// A row weighs difficulty^a * freshness^b * diversity^c. Difficulty is 4p(1-p),
// where p is the share (s+1)/(n+2) of the n plays of its problem that solved it.
// Freshness halves with every HalfLife between its run and the newest one, and is
// a half where the run's id tells no time. Diversity is 1/sqrt((1+i)(1+j)): i rows
// of its leak cluster and j with the same order of tools were taken before it.
func Mix(ctx context.Context, cfg MixConfig) (*Statement, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(cfg.Out)), ".corpus-")
	if err != nil {
		return nil, fmt.Errorf("mix corpora: %w", err)
	}
	defer os.RemoveAll(tmp)
	b := newBuilder(ctx, Config{Salt: "agon", Scripted: cfg.Scripted, Finals: cfg.Finals})
	if b.spool, err = os.Create(filepath.Join(tmp, "spool")); err != nil {
		return nil, fmt.Errorf("mix corpora: %w", err)
	}
	defer b.spool.Close()
	b.w = bufio.NewWriterSize(b.spool, 1<<20)
	m := &mixer{cfg: cfg, b: b, measured: map[[16]byte]bool{}, seen: map[[16]byte]bool{}}
	for _, dir := range cfg.Corpora {
		if err := m.measures(dir); err != nil {
			return nil, err
		}
	}
	for _, dir := range cfg.Corpora {
		if err := m.read(dir); err != nil {
			return nil, err
		}
	}
	if err := b.w.Flush(); err != nil {
		return nil, fmt.Errorf("mix corpora: %w", err)
	}
	m.weigh()
	taken, err := m.choose()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(tmp, "out")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("mix corpora: %w", err)
	}
	st := m.statement(taken)
	text, err := json.MarshalIndent(st, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode statement: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, StatementName), append(text, '\n'), 0o644); err != nil {
		return nil, fmt.Errorf("write statement: %w", err)
	}
	b.weights = map[[16]byte]float64{}
	for _, c := range taken {
		b.rows = append(b.rows, kept{id: c.id, offset: c.offset, cluster: b.names.all[c.cluster], split: Train, task: c.task, submission: c.submission})
		b.weights[c.id] = round(c.weight, 6)
	}
	if err := b.write(dir); err != nil {
		return nil, err
	}
	if err := os.Rename(dir, cfg.Out); err != nil {
		return nil, fmt.Errorf("mix corpora: %w", err)
	}
	st.Dir = cfg.Out
	return st, nil
}

// key16 is a name of any length in 16 bytes.
func key16(parts ...string) [16]byte {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return [16]byte(sum[:16])
}

// measures notes what a corpus measures by.
func (m *mixer) measures(dir string) error {
	if _, err := ReadManifest(dir); err != nil {
		return err
	}
	for _, split := range []string{Eval, Held} {
		err := eachLine(filepath.Join(dir, split, "rows.jsonl"), func(line []byte) error {
			var r Row
			if err := json.Unmarshal(line, &r); err != nil {
				return badRow(dir, split, err)
			}
			for _, k := range measureKeys(&r) {
				m.measured[k] = true
			}
			return m.b.ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func badRow(dir, split string, err error) error {
	return &agon.Error{Code: "bad_rows", Status: 422, Field: "dir", Message: fmt.Sprintf("%s: a row of %s does not parse: %v", dir, split, err), Mend: "agon corpus verify " + dir}
}

// measureKeys are what makes two rows the same for a measurement.
func measureKeys(r *Row) [][16]byte {
	keys := [][16]byte{key16("key", r.From.Kind, r.From.Task)}
	if r.From.TaskDigest != "" {
		keys = append(keys, key16("digest", string(r.From.TaskDigest)))
	}
	if q := Normalise(r.query()); q != "" {
		keys = append(keys, key16("query", q))
	}
	return keys
}

// read goes over the rows that a corpus has to train on, and spools those that may be used.
func (m *mixer) read(dir string) error {
	man, err := ReadManifest(dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	sum := sha256.Sum256(text)
	src := MixSource{Name: filepath.Base(filepath.Clean(dir)), Manifest: hex.EncodeToString(sum[:])}
	f, err := os.Open(filepath.Join(dir, Train, "rows.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		m.from = append(m.from, src)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read corpus: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	in := bufio.NewScanner(io.TeeReader(f, h))
	in.Buffer(make([]byte, 1<<20), maxRow)
	for in.Scan() {
		if err := m.b.ctx.Err(); err != nil {
			return err
		}
		var r Row
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return badRow(dir, Train, err)
		}
		src.Rows++
		m.b.report.Runs++
		if m.cfg.Progress != nil {
			m.cfg.Progress(m.b.report.Runs)
		}
		if why := m.refuses(&r); why != "" {
			m.b.report.reject(why, r.From.Kind)
			continue
		}
		if err := m.keep(&r); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("read corpus: %s: %w", dir, err)
	}
	// Whoever is credited by rows must not be able to add some.
	if got, want := hex.EncodeToString(h.Sum(nil)), man.Files[Train+"/rows.jsonl"].SHA256; got != want {
		return &agon.Error{Code: "changed", Status: 409, Field: "dir", Message: dir + ": train/rows.jsonl is not the file that its manifest names", Mend: "agon corpus verify " + dir}
	}
	m.from = append(m.from, src)
	return nil
}

// refuses says why a row may not be used; "": it may.
func (m *mixer) refuses(r *Row) string {
	on := func(list map[string]bool) bool {
		return r.From.Miner != "" && list[r.From.Miner] || r.From.Coldkey != "" && list[r.From.Coldkey]
	}
	calls := key16("calls", string(r.From.TaskDigest), r.From.Kind, r.From.Task, r.callSequence())
	switch {
	case r.From.Licence == "" || r.From.Licence == "unknown", len(m.cfg.Licences) > 0 && !slices.Contains(m.cfg.Licences, r.From.Licence):
		return RejectLicence
	case on(m.cfg.OptOut):
		return RejectOptOut
	case m.cfg.OptIn != nil && !on(m.cfg.OptIn):
		return RejectNoOptIn
	case r.From.Scripted && !m.cfg.Scripted:
		return RejectScripted
	case m.cfg.Solved && !r.solved():
		return RejectFiltered
	case slices.ContainsFunc(measureKeys(r), func(k [16]byte) bool { return m.measured[k] }):
		return RejectMeasures
	case m.seen[key16("id", r.ID)] || m.seen[calls]:
		return RejectDuplicate
	}
	m.seen[key16("id", r.ID)], m.seen[calls] = true, true
	return ""
}

// keep spools a row and remembers what choosing needs.
func (m *mixer) keep(r *Row) error {
	at := 0
	for i := range r.Messages { // the file does not say it of messages, but of steps
		if r.Messages[i].Role != "assistant" {
			continue
		}
		r.Messages[i].harness = at < len(r.Steps) && !r.Steps[at].LossMask
		at++
	}
	n := &m.b.names
	c := candidate{
		calls: key16(r.callSequence()), offset: m.b.at, tokens: r.Tokens, solved: r.solved(), agentic: r.Axis == Agentic,
		task: n.of("task " + string(r.From.TaskDigest) + " " + r.From.Task), cluster: n.of(r.Cluster), shape: n.of("shape " + shapeOf(r)),
		miner: n.of(r.From.Miner), coldkey: n.of(r.From.Coldkey), terms: n.of(r.From.Licence), submission: n.of(r.From.Submission),
		payer: n.of(cmp.Or(r.From.Coldkey, r.From.Miner)),
	}
	if b, err := hex.DecodeString(r.ID); err != nil || len(b) != len(c.id) {
		return badRow(r.From.Arena, Train, fmt.Errorf("the id %.80q", r.ID))
	} else {
		c.id = [16]byte(b)
	}
	if id, err := uuid.Parse(r.From.Run); err == nil && id.Version() == 7 {
		s, ns := id.Time().UnixTime()
		c.born = s*1000 + ns/1e6
		m.newest = max(m.newest, c.born)
	}
	c.weight = math.Pow(difficulty(r.Group), *m.cfg.Difficulty)
	m.list = append(m.list, c)
	return m.b.spoolRow(r)
}

// difficulty is 1 where half of the plays solve a problem, and near 0 where all or none do.
func difficulty(g *Group) float64 {
	if g == nil {
		return 1
	}
	p := float64(g.Solved+1) / float64(g.Size+2)
	return 4 * p * (1 - p)
}

// shapeOf is what a row did, by the names of its tools.
func shapeOf(r *Row) string {
	var names []string
	for _, x := range r.Messages {
		for _, c := range x.ToolCalls {
			names = append(names, c.Function.Name)
		}
	}
	return fmt.Sprintf("%x", key16(names...))
}

// weigh adds freshness, for which the newest run has to be known.
func (m *mixer) weigh() {
	half := float64(m.cfg.HalfLife.Milliseconds())
	for i := range m.list {
		c := &m.list[i]
		f := 0.5
		if c.born > 0 && half > 0 {
			f = math.Exp2(-float64(m.newest-c.born) / half)
		}
		c.weight *= math.Pow(f, *m.cfg.Freshness)
	}
}
