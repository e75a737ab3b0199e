package corpus

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
)

// Manifest is manifest.json: what the folder holds, and of what it was made.
// It holds no time: the same runs give the same bytes.
type Manifest struct {
	Format  string            `json:"format"` // "agon-corpus-1"
	Filter  string            `json:"filter_version"`
	Scorers []string          `json:"scorer_versions"`
	Licence string            `json:"licence"` // SPDX expression over all rows
	Counts  Counts            `json:"counts"`
	Report  *Report           `json:"report"`
	Poison  []string          `json:"poison_lists"`
	Salt    string            `json:"split_salt"`
	Files   map[string]FileID `json:"files"`
	// Clusters says in which split each leak cluster stands.
	Clusters map[string]string `json:"clusters"`
}

// FileID names the bytes of a file.
type FileID struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Rows   int    `json:"rows,omitempty"`
}

// ManifestName is the manifest's file.
const ManifestName = "manifest.json"

// write lays the corpus out in dir.
func (b *builder) write(dir string) error {
	b.report.Scrubbed = b.scrub.Counts
	counts := Counts{Rows: len(b.rows), Axis: map[string]int{}, Kind: map[string]int{}, SolvedByKind: map[string]int{}, TokensByKind: map[string]int{}, Tools: map[string]int{}, Licences: map[string]int{}}
	clusters, scorers, tools, queries := map[string]string{}, map[string]bool{}, offered{}, map[uint64]bool{}
	done := 0
	for _, split := range []string{Train, Eval, Held} {
		if split == Held && b.cfg.Release {
			for i := range b.rows {
				if b.rows[i].split == Held {
					counts.Withheld++
					clusters[b.rows[i].cluster] = Held
				}
			}
			counts.Rows -= counts.Withheld
			continue
		}
		w := newWriters(filepath.Join(dir, split), b.cfg.Scripted, b.cfg.Finals)
		var group []*Row
		flush := func() error {
			if len(group) == 0 {
				return nil
			}
			err := w.group(group)
			group = nil
			return err
		}
		for x := range b.loads(split) {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			k, r := x.k, x.r
			if x.err != nil {
				return x.err
			}
			if t := b.tallies[k.task]; t != nil { // else the row brings its own: it comes from a corpus
				r.Group = t.group(k.submission)
			}
			r.Weight = b.weights[k.id]
			counts.add(r)
			if q := Normalise(r.query()); q != "" {
				queries[hash64(q)] = true
			}
			if split != Held && r.Axis == Agentic && (b.cfg.Scripted || !r.From.Scripted) {
				tools.add(r.Tools)
			}
			clusters[r.Cluster], scorers[r.From.Scorer] = r.Split, true
			if len(group) > 0 && group[0].Cluster != r.Cluster {
				if err := flush(); err != nil {
					return err
				}
			}
			group = append(group, r)
			if done++; b.cfg.Wrote != nil {
				b.cfg.Wrote(done, len(b.rows))
			}
		}
		if err := flush(); err != nil {
			return err
		}
		if err := w.close(); err != nil {
			return err
		}
	}
	counts.Cluster, counts.Queries = len(clusters), len(queries)
	b.faked = counts.Scripted
	var lists []string
	if b.cfg.Poison != nil {
		lists = b.cfg.Poison.Names
	}
	m := Manifest{
		Format: "agon-corpus-1", Filter: Version, Scorers: slices.DeleteFunc(slices.Sorted(maps.Keys(scorers)), func(s string) bool { return s == "" }),
		Licence: strings.Join(slices.Sorted(maps.Keys(counts.Licences)), " AND "), Counts: counts, Report: b.report, Poison: lists, Salt: b.cfg.Salt, Clusters: clusters,
	}
	if len(tools) > 0 {
		text, err := verlTools(tools)
		if err != nil {
			return fmt.Errorf("encode tools: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "verl_tools.yaml"), text, 0o644); err != nil {
			return fmt.Errorf("write tools: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "verl_tools.py"), []byte(verlClass), 0o644); err != nil {
			return fmt.Errorf("write tools: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "report.md"), []byte(b.report.markdown(counts, lists)), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	var err error
	if m.Files, err = hashTree(dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(card(&m)), 0o644); err != nil {
		return fmt.Errorf("write card: %w", err)
	}
	if m.Files, err = hashTree(dir); err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestName), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

func (c *Counts) add(r *Row) {
	switch r.Split {
	case Train:
		c.Train++
	case Eval:
		c.Eval++
	default:
		c.Held++
	}
	c.Tokens += r.Tokens
	c.TokensByKind[r.From.Kind] += r.Tokens
	for _, m := range r.Messages {
		for _, t := range m.ToolCalls {
			if len(c.Tools) < maxCountedTools || c.Tools[t.Function.Name] > 0 {
				c.Tools[t.Function.Name]++
			} else {
				c.Tools["(others)"]++
			}
		}
	}
	if r.From.Scripted {
		c.Scripted++
	}
	c.Axis[string(r.Axis)]++
	c.Kind[r.From.Kind]++
	c.Licences[r.From.Licence]++
	if r.solved() {
		c.Solved++
		c.SolvedByKind[r.From.Kind]++
	}
}

// maxCountedTools bounds the names of tools that are told apart: agents make up theirs.
const maxCountedTools = 1000

// offered collects what verl's list of tools needs: the schema of each name,
// the smallest where agents offer several.
type offered map[string]json.RawMessage

func (o offered) add(tools []json.RawMessage) {
	for _, t := range nested(tools) {
		var d struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(t, &d) != nil || d.Function.Name == "" {
			continue
		}
		old, ok := o[d.Function.Name]
		if (!ok && len(o) < maxCountedTools) || (ok && string(t) < string(old)) {
			o[d.Function.Name] = t
		}
	}
}

// hashTree hashes every file below dir but the manifest.
func hashTree(dir string) (map[string]FileID, error) {
	out := map[string]FileID{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == ManifestName {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", rel)
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		lines := &lineCounter{}
		n, err := io.Copy(io.MultiWriter(h, lines), f)
		if err != nil {
			return err
		}
		id := FileID{SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n}
		if strings.HasSuffix(rel, ".jsonl") {
			id.Rows = lines.n
		}
		out[filepath.ToSlash(rel)] = id
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("hash corpus: %w", err)
	}
	return out, nil
}

type lineCounter struct{ n int }

func (c *lineCounter) Write(b []byte) (int, error) {
	for _, x := range b {
		if x == '\n' {
			c.n++
		}
	}
	return len(b), nil
}

// writers hold the open files of one split. A file is made with its first row,
// so that no trainer meets an empty one.
type writers struct {
	dir      string
	scripted bool // the trainers' files hold rows of a script, too
	finals   Finals
	files    map[string]*jsonl
	verl     *verlWriter
}

type jsonl struct {
	f *os.File
	w *bufio.Writer
}

func newWriters(dir string, scripted bool, finals Finals) *writers {
	return &writers{dir: dir, scripted: scripted, finals: finals, files: map[string]*jsonl{}}
}

// line appends v to the file of a format.
func (w *writers) line(format string, v any) error {
	j := w.files[format]
	if j == nil {
		if err := os.MkdirAll(w.dir, 0o755); err != nil {
			return fmt.Errorf("write %s: %w", format, err)
		}
		f, err := os.Create(filepath.Join(w.dir, format+".jsonl"))
		if err != nil {
			return fmt.Errorf("write %s: %w", format, err)
		}
		j = &jsonl{f, bufio.NewWriterSize(f, 1<<18)}
		w.files[format] = j
	}
	b, err := canonical(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", format, err)
	}
	if _, err := j.w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", format, err)
	}
	return nil
}

func (w *writers) close() error {
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		j := w.files[name]
		if err := j.w.Flush(); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := j.f.Close(); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	if w.verl != nil {
		return w.verl.close()
	}
	return nil
}

// card is the dataset card, with the header that Hugging Face reads.
func card(m *Manifest) string {
	var b strings.Builder
	b.WriteString("---\n")
	licence := "other"
	if len(m.Counts.Licences) == 1 {
		licence = strings.ToLower(m.Licence)
	}
	fmt.Fprintf(&b, "license: %s\n", licence)
	fmt.Fprintf(&b, "size_categories:\n- %s\n", sizeCategory(m.Counts.Rows))
	b.WriteString("task_categories:\n- text-generation\ntags:\n- agents\n- trajectories\n- tool-use\nconfigs:\n")
	names := map[string]bool{}
	for f := range m.Files {
		// One card cannot name JSON and Parquet; verl reads its files by path.
		if split, file, ok := strings.Cut(f, "/"); ok && (split == Train || split == Eval) && strings.HasSuffix(file, ".jsonl") {
			names[file] = true
		}
	}
	for _, file := range slices.Sorted(maps.Keys(names)) {
		base, _, _ := strings.Cut(file, ".")
		if base == "openai" {
			base = "default"
		}
		fmt.Fprintf(&b, "- config_name: %s\n  data_files:\n", base)
		for _, s := range [][2]string{{Train, "train"}, {Eval, "test"}} {
			if _, ok := m.Files[s[0]+"/"+file]; ok {
				fmt.Fprintf(&b, "  - split: %s\n    path: %s/%s\n", s[1], s[0], file)
			}
		}
	}
	b.WriteString("---\n\n# Trajectories of agent arenas\n\n")
	fmt.Fprintf(&b, "%d rows in %d leak clusters, written by agon %s with filter %s. Every row names run, attempt, validator, scorer and licence; licence over all rows: %s.\n\n",
		m.Counts.Rows, m.Counts.Cluster, agon.Version, m.Filter, m.Licence)
	if n := m.Counts.Warning(); n != "" {
		fmt.Fprintf(&b, "> **%s**\n\n", n)
	}
	b.WriteString("Axis, credits and costs are what the arena's gateway recorded and signed, never what an agent said. Whole clusters (same problem, same ground truth, nearly the same query) stand in one split. " +
		"`report.md` says which runs became no row and why, what was removed as secret or personal, and what was found of public benchmarks. `agon corpus verify .` checks hashes and leaks.\n\n")
	b.WriteString(composition(m))
	b.WriteString("## Files\n\n| file | for |\n|---|---|\n")
	for _, x := range [][2]string{
		{"rows.jsonl", "everything: messages, tools, steps with credits and loss masks, rewards, provenance"},
		{"openai.jsonl", "OpenAI chat with tools; solved and agentic"},
		{"oro_flat.jsonl", "the same with flat tools, as published sets have them; neither OpenAI nor TRL takes it"},
		{"trl_sft.jsonl", "TRL SFT; tools and each call's arguments as JSON text, since no Arrow struct holds them all"},
		{"trl_preference.jsonl", "TRL preference pairs of one prompt: its best solved row, its worst failed one"},
		{"trl_kto.jsonl", "TRL KTO: every row, right or wrong"},
		{"trl_stepwise.jsonl", "TRL stepwise supervision"},
		{"trl_grpo.jsonl", "TRL GRPO: every problem once, solved or not, with tools and, as JSON text, what its verifier checks"},
		{"verl_sft.parquet", "verl multi-turn SFT"},
		{"verl_rl.parquet", "verl RL, solved and unsolved problems; `verl_tools.yaml` beside the folders names its tools, `verl_tools.py` has their class"},
		{"atif.jsonl", "ATIF v1.8, a document a line"},
		{"qwen3.jsonl", "Qwen3 rendering with the spans that loss is taken on"},
	} {
		fmt.Fprintf(&b, "| `%s` | %s |\n", x[0], x[1])
	}
	if m.Counts.Withheld > 0 {
		fmt.Fprintf(&b, "\n%d rows of the split held are not in this release; the manifest names their clusters.\n", m.Counts.Withheld)
		return b.String()
	}
	b.WriteString("\nThe held split is never to be trained on or tuned with; it is for one last look.\n")
	return b.String()
}

// sizeCategory is how Hugging Face counts rows.
func sizeCategory(rows int) string {
	for _, x := range []struct {
		below int
		name  string
	}{{1_000, "n<1K"}, {10_000, "1K<n<10K"}, {100_000, "10K<n<100K"}, {1_000_000, "100K<n<1M"}} {
		if rows < x.below {
			return x.name
		}
	}
	return "1M<n<10M"
}

// composition is what the card says of the rows: how many questions, what they
// overlap with, who made them, under what licences.
func composition(m *Manifest) string {
	var b strings.Builder
	c := m.Counts
	per := 0.0
	if c.Queries > 0 {
		per = float64(c.Rows) / float64(c.Queries)
	}
	fmt.Fprintf(&b, "## Composition\n\n| | |\n|---|---|\n| rows | %d: %d to train on, %d to evaluate with |\n| different queries | %d, %.1f rows each |\n| leak clusters | %d; none stands in two splits |\n| rows that solve their task | %d |\n| tokens (o200k_base) | %d |\n",
		c.Rows, c.Train, c.Eval, c.Queries, per, c.Cluster, c.Solved, c.Tokens)
	list := func(name string, n map[string]int) {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(n)) {
			parts = append(parts, fmt.Sprintf("%s %d", strings.NewReplacer("|", " ", "\n", " ").Replace(k), n[k]))
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, cmp.Or(strings.Join(parts, ", "), "none"))
	}
	list("axis", c.Axis)
	list("kind", c.Kind)
	list("licence", c.Licences)
	list("removed as secret or personal", m.Report.Scrubbed)
	list("became no row", m.Report.Rejected)
	switch {
	case len(m.Poison) == 0:
		b.WriteString("| public benchmarks | **not checked**: no list was given |\n")
	case len(m.Report.Contamination) == 0:
		fmt.Fprintf(&b, "| public benchmarks | no overlap with %s |\n", strings.Join(m.Poison, ", "))
	default:
		for _, n := range m.Report.Contamination {
			fmt.Fprintf(&b, "| public benchmark %s | %d rows overlapped and were cut |\n", n.List, n.Cut)
		}
	}
	b.WriteString("\n")
	return b.String()
}
