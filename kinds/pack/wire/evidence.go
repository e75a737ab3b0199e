package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
)

// maxEvidence is how many episodes one snapshot reads; the next goes on.
const maxEvidence = 25

// readUsage sums what the models of decided runs took, from their evidence.
func (b *Backend) readUsage(ctx context.Context, s *snapshot) {
	left := maxEvidence
	for _, e := range s.entries {
		for i := range e.plays {
			p := &e.plays[i]
			if p.State != agon.RunScored {
				continue
			}
			s.usage.Reports++
			u, ok := b.memory.used[p.RunSpec.Run]
			if !ok && e.State == agon.SubmissionScored && left > 0 {
				left--
				ep, err := b.episode(ctx, p)
				var withheld *agon.Error
				if err != nil && !errors.As(err, &withheld) && !errors.Is(err, blob.ErrNotFound) {
					continue // it is read at the next look
				}
				u = usage{Calls: int64(ep.Cost.Calls), Tokens: ep.Cost.Input + ep.Cost.Output, Micros: ep.Cost.Micros}
				if len(b.memory.used) > 4*maxRuns {
					clear(b.memory.used)
				}
				b.memory.used[p.RunSpec.Run] = u
			}
			s.usage.Calls, s.usage.Tokens, s.usage.Micros = s.usage.Calls+u.Calls, s.usage.Tokens+u.Tokens, s.usage.Micros+u.Micros
		}
	}
}

func (b *Backend) episode(ctx context.Context, p *play) (kindpack.Episode, error) {
	var ep kindpack.Episode
	if p.evidence == "" {
		return ep, blob.ErrNotFound
	}
	m, err := blob.GetManifest(ctx, publicBlobs{b}, p.evidence, evidenceLimits)
	if err != nil {
		return ep, err
	}
	for _, f := range m.Files {
		if f.Path != kindpack.FileEpisode {
			continue
		}
		c, err := publicBlobs{b}.Get(ctx, f.Digest)
		if err != nil {
			return ep, err
		}
		if err := json.Unmarshal(c, &ep); err != nil {
			return ep, fmt.Errorf("read episode of %s: %w", p.RunSpec.Run, err)
		}
	}
	return ep, nil
}

// evidenceLimits bound what an attempt left, as it is read here.
var evidenceLimits = blob.TreeLimits{Files: 100, FileBytes: 8 << 20, Bytes: 32 << 20, Spare: (*kindpack.Kind)(nil).Prints}

// evidence returns the files that an attempt left, if the public may read them.
func (b *Backend) evidence(ctx context.Context, d agon.Digest) (map[string][]byte, error) {
	if d == "" {
		return nil, blob.ErrNotFound
	}
	list, err := blob.GetFiles(ctx, publicBlobs{b}, d, evidenceLimits)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, f := range list {
		out[f.Path] = f.Content
	}
	return out, nil
}

// publicBlobs reads what anybody may read.
type publicBlobs struct{ b *Backend }

func (p publicBlobs) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	b, err := p.b.cfg.Platform.Blob(ctx, anybody, d)
	var e *agon.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		return nil, fmt.Errorf("%w: %w", blob.ErrNotFound, err)
	}
	return b, err
}

func (p publicBlobs) Put(context.Context, []byte) (agon.Digest, error) {
	return "", fmt.Errorf("store blob: this is for reading")
}

func (p publicBlobs) Has(ctx context.Context, d agon.Digest) (bool, error) {
	_, err := p.Get(ctx, d)
	return err == nil, nil
}
