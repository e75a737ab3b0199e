package corpus

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// StatementName is the file of a mix that says who is credited.
const StatementName = "statement.json"

// Statement says of a mix what it was made of, and who is credited how much: by
// rows that were kept. Whoever has the rows can count again.
type Statement struct {
	Format string `json:"format"` // "agon-mix-1"
	Rows   int    `json:"rows"`
	Tokens int    `json:"tokens"`
	// Digest is the SHA-256, in hex, of the rows' ids, sorted, each with a line feed.
	Digest   string         `json:"rows_digest"`
	Corpora  []MixSource    `json:"corpora"`
	Settings MixSettings    `json:"settings"`
	LeftOut  map[string]int `json:"left_out"` // rows by reason
	Licences map[string]int `json:"licences"` // rows by licence
	Shares   []Share        `json:"shares"`   // most rows first
	Coldkeys []ColdkeyShare `json:"coldkeys"`
	Nobody   int            `json:"uncredited"` // rows that name no miner
	Pool     int64          `json:"pool"`       // what the credits sum to, unless nobody is credited
	Dir      string         `json:"dir,omitempty"`
}

// MixSource is a corpus that was mixed.
type MixSource struct {
	Name     string `json:"name"`
	Manifest string `json:"manifest_sha256"`
	Rows     int    `json:"rows"` // that it has to train on
}

// MixSettings are those that decide what a mix holds.
type MixSettings struct {
	Rows       int      `json:"rows"` // asked for; 0: all
	Difficulty float64  `json:"difficulty"`
	Freshness  float64  `json:"freshness"`
	Diversity  float64  `json:"diversity"`
	HalfLife   float64  `json:"half_life_s"`
	PerMiner   int      `json:"per_miner"`
	PerColdkey int      `json:"per_coldkey"`
	MaxShare   float64  `json:"max_share"`
	Licences   []string `json:"licences"` // empty: all
	OptIn      bool     `json:"opt_in"`   // only who agreed
	OptOut     bool     `json:"opt_out"`
	Scripted   bool     `json:"scripted"`
	Solved     bool     `json:"solved"`
}

// Share is what a miner is credited. Share is of the credited rows.
type Share struct {
	Miner   string  `json:"miner_hotkey"`
	Coldkey string  `json:"miner_coldkey"`
	Rows    int     `json:"rows"`
	Solved  int     `json:"solved"`
	Tokens  int     `json:"tokens"`
	Share   float64 `json:"share"`
	Credit  int64   `json:"credit"` // of the pool, by rows; the remainders go to the largest parts left over
}

// ColdkeyShare sums up the hotkeys of a coldkey.
type ColdkeyShare struct {
	Coldkey string  `json:"miner_coldkey"`
	Hotkeys int     `json:"hotkeys"`
	Rows    int     `json:"rows"`
	Share   float64 `json:"share"`
	Credit  int64   `json:"credit"`
}

// statement counts what was taken.
func (m *mixer) statement(taken []candidate) *Statement {
	c := &m.cfg
	s := &Statement{
		Format: "agon-mix-1", Rows: len(taken), Corpora: m.from, LeftOut: m.b.report.Rejected, Licences: map[string]int{}, Shares: []Share{}, Coldkeys: []ColdkeyShare{}, Pool: c.Pool,
		Settings: MixSettings{
			Rows: c.Rows, Difficulty: *c.Difficulty, Freshness: *c.Freshness, Diversity: *c.Diversity, HalfLife: c.HalfLife.Seconds(), PerMiner: c.PerMiner, PerColdkey: c.PerColdkey,
			MaxShare: c.MaxShare, Licences: append([]string{}, c.Licences...), OptIn: c.OptIn != nil, OptOut: len(c.OptOut) > 0, Scripted: c.Scripted, Solved: c.Solved,
		},
	}
	type owner struct{ miner, coldkey name }
	by := map[owner]*Share{}
	var ids []string
	for _, x := range taken {
		ids = append(ids, hex.EncodeToString(x.id[:]))
		s.Tokens += x.tokens
		s.Licences[m.b.names.all[x.terms]]++
		hot, cold := m.b.names.all[x.miner], m.b.names.all[x.coldkey]
		if hot == "" && cold == "" {
			s.Nobody++
			continue
		}
		o := owner{x.miner, x.coldkey}
		if by[o] == nil {
			by[o] = &Share{Miner: hot, Coldkey: cold}
		}
		by[o].Rows++
		by[o].Tokens += x.tokens
		if x.solved {
			by[o].Solved++
		}
	}
	slices.Sort(ids)
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n") + "\n"))
	s.Digest = hex.EncodeToString(sum[:])
	for _, x := range by {
		s.Shares = append(s.Shares, *x)
	}
	slices.SortFunc(s.Shares, func(x, y Share) int {
		return cmp.Or(-cmp.Compare(x.Rows, y.Rows), strings.Compare(x.Miner, y.Miner), strings.Compare(x.Coldkey, y.Coldkey))
	})
	credit(s.Shares, c.Pool)
	colds := map[string]*ColdkeyShare{}
	for _, x := range s.Shares {
		k := cmp.Or(x.Coldkey, x.Miner)
		if colds[k] == nil {
			colds[k] = &ColdkeyShare{Coldkey: x.Coldkey}
		}
		colds[k].Hotkeys++
		colds[k].Rows += x.Rows
		colds[k].Credit += x.Credit
	}
	for _, k := range slices.Sorted(maps.Keys(colds)) {
		x := *colds[k]
		x.Share = round(float64(x.Rows)/float64(len(taken)-s.Nobody), 6)
		s.Coldkeys = append(s.Coldkeys, x)
	}
	slices.SortStableFunc(s.Coldkeys, func(x, y ColdkeyShare) int { return -cmp.Compare(x.Rows, y.Rows) })
	return s
}

// credit parts a pool by rows, in whole units that sum to the pool: each gets its
// part rounded down, and the units left over go to the largest remainders.
func credit(list []Share, pool int64) {
	rows := 0
	for _, x := range list {
		rows += x.Rows
	}
	if rows == 0 {
		return
	}
	left := pool
	rest := make([]uint64, len(list))
	order := make([]int, len(list))
	for i := range list {
		x := &list[i]
		x.Share = round(float64(x.Rows)/float64(rows), 6)
		hi, lo := bits.Mul64(uint64(pool), uint64(x.Rows)) //nolint:gosec // neither is below 0
		q, r := bits.Div64(hi, lo, uint64(rows))           //nolint:gosec // hi < rows, since a part has no more rows than all
		x.Credit, rest[i], order[i] = int64(q), r, i       //nolint:gosec // at most the pool
		left -= x.Credit
	}
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(rest[a], rest[b]) })
	for _, i := range order[:left] {
		list[i].Credit++
	}
}
