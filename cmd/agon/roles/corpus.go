package roles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/ui/mcp"
	"github.com/agon-arena/agon/ui/web"
)

// buildCorpus makes the corpus of all arenas, of what everybody may read, in
// the data directory, in place of the one before.
func (s *server) buildCorpus(ctx context.Context) error {
	dir := s.Data.Path(corpusFolder)
	next := s.Data.Path("corpus.new")
	if err := os.RemoveAll(next); err != nil {
		return fmt.Errorf("build corpus: %w", err)
	}
	r, err := corpus.Build(ctx, corpus.Config{Source: mcp.Local{Platform: s.Platform}, Out: next, Finals: s.Options.Kits.Finals(), LeakKeys: leakKeys(ctx, s.Options, s.Options.Kinds(""), s.Blobs)})
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("build corpus: %w", err)
	}
	if err := os.Rename(next, dir); err != nil {
		return fmt.Errorf("build corpus: %w", err)
	}
	if err := s.keepCorpus(ctx); err != nil {
		return fmt.Errorf("build corpus: %w", err)
	}
	s.corpus = &client.CorpusSummary{Rows: r.Rows, Rejected: r.Rejected, Dir: dir}
	s.Options.Sayf("corpus: %d rows in %s", r.Rows, dir)
	if r.Scripted > 0 {
		s.Options.Sayf("corpus: %s", (&corpus.Counts{Rows: r.Rows, Scripted: r.Scripted}).Warning())
	}
	return nil
}

// corpusPage is what the corpus page shows; nil while none was built.
func (s *server) corpusPage(context.Context) (*web.Corpus, error) {
	dir := s.Data.Path(corpusFolder)
	m, err := corpus.ReadManifest(dir)
	var e *agon.Error
	if errors.As(err, &e) && e.Status == 404 {
		return nil, nil //nolint:nilnil // the page says so
	}
	if err != nil {
		return nil, err
	}
	out := &web.Corpus{
		Rows: m.Counts.Rows, Warning: m.Counts.Warning(), Runs: m.Report.Runs, Rejected: listed(m.Report.Rejected), Kinds: listed(m.Counts.Kind),
		Axes: listed(m.Counts.Axis), Scrubbed: listed(m.Report.Scrubbed), Tokens: m.Counts.Tokens, Lists: m.Poison,
		Splits: []web.CorpusCount{{Name: corpus.Train, N: m.Counts.Train}, {Name: corpus.Eval, N: m.Counts.Eval}, {Name: corpus.Held, N: m.Counts.Held}},
		Tools:  listed(m.Counts.Tools),
	}
	out.Tools = out.Tools[:min(len(out.Tools), 20)]
	for _, k := range out.Kinds {
		out.Success = append(out.Success, web.CorpusKind{Name: k.Name, Rows: k.N, Solved: m.Counts.SolvedByKind[k.Name], Tokens: m.Counts.TokensByKind[k.Name]})
	}
	for _, n := range m.Report.Contamination {
		out.Contaminated = append(out.Contaminated, web.CorpusCount{Name: n.List, N: n.Cut})
	}
	rows, err := corpus.Sample(dir, 200)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		out.Sample = append(out.Sample, web.CorpusRow{
			ID: r.ID, Arena: r.From.Arena, Kind: r.From.Kind, Task: r.From.Task, Run: r.From.Run, Axis: string(r.Axis), Split: r.Split, Tokens: r.Tokens, Scripted: r.From.Scripted, Score: r.Reward.Rule,
		})
	}
	return out, nil
}

// listed turns counts into a list, most first.
func listed(m map[string]int) []web.CorpusCount {
	keys := slices.SortedFunc(maps.Keys(m), func(x, y string) int {
		if m[x] != m[y] {
			return m[y] - m[x]
		}
		return strings.Compare(x, y)
	})
	out := make([]web.CorpusCount, 0, len(keys))
	for _, k := range keys {
		out = append(out, web.CorpusCount{Name: k, N: m[k]})
	}
	return out
}
