package platform

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
)

// checkEvidence returns the blobs of a result's evidence. Each must have been
// put under the lease, or be public: a reference makes them readable to those
// who may read the run, so a validator must not name what it has never held.
func (p *Platform) checkEvidence(ctx context.Context, c Caller, lease string, r client.Result) ([]store.BlobRef, error) {
	if r.Evidence == "" && len(r.Uploads) == 0 {
		return nil, nil
	}
	bad := func(format string, args ...any) ([]store.BlobRef, error) {
		e := refuse(422, "bad_result", format, args...)
		e.Field, e.Mend = "evidence", "put its blobs under this lease first: PUT /v1/blobs/{digest}?lease={id}"
		return nil, e
	}
	for _, d := range append(slices.Clone(r.Uploads), r.Evidence) {
		if err := d.Validate(); err != nil && d != "" {
			return bad("%s", err)
		}
	}
	if len(r.Uploads) > maxRefs {
		return bad("%d uploads: at most %d", len(r.Uploads), maxRefs)
	}
	var put map[agon.Digest]bool
	again, of := false, "" // the arena's kind
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		l, err := held(tx, c, lease, r.Token) // nobody else learns what is stored
		if err != nil {
			return err
		}
		again = l.ResultHash != ""
		a, err := tx.Arena(l.Arena)
		if err != nil {
			return err
		}
		of = a.Kind
		put, err = tx.Uploads(lease)
		return err
	})
	if err != nil || again {
		return nil, err // a result that is sent again adds nothing
	}
	var refs []store.BlobRef
	for _, d := range r.Uploads {
		if !put[d] {
			return bad("the upload %s was not put under this lease", d)
		}
		refs = append(refs, store.BlobRef{Digest: d, What: store.RefOutput})
	}
	if r.Evidence == "" {
		return refs, nil
	}
	mine := func(d agon.Digest) (bool, error) {
		if put[d] {
			return true, nil
		}
		return p.mayReadBlob(ctx, Caller{}, d)
	}
	ok, err := mine(r.Evidence)
	if err != nil {
		return nil, err
	}
	if !ok {
		return bad("the evidence tree was not put under this lease")
	}
	b, err := p.cfg.Blobs.Get(ctx, r.Evidence)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return bad("the evidence tree was not put under this lease")
	case errors.Is(err, blob.ErrTooLarge):
		return bad("%s", err)
	case err != nil: // a fault of ours: the validator reports again
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	m, err := blob.ParseManifest(b, blob.TreeLimits{Files: maxRefs})
	if err != nil {
		return bad("evidence %s: %s", r.Evidence, err)
	}
	for _, f := range m.Files {
		ok, err := mine(f.Digest)
		if err != nil {
			return nil, err
		}
		if ok {
			ok, err = p.cfg.Blobs.Has(ctx, f.Digest)
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			return bad("file %q of the evidence was not put under this lease", f.Path)
		}
	}
	p.learnDeeds(ctx, of, r.Evidence)
	files := treeRefs(r.Evidence, m, store.BlobRef{What: store.RefEvidence})
	if k, ok := p.cfg.Kinds[of].(kind.Printed); ok {
		for i, f := range m.Files {
			if k.Prints(f.Path) {
				files[i+1].What = store.RefOutput // the tree itself stands first
			}
		}
	}
	return append(refs, files...), nil
}

// attestable says how a result is to be marked that carries no evidence, or
// refuses it: what nobody can judge again is a validator's bare word.
func (p *Platform) attestable(a agon.Arena, c Caller, r client.Result) (mark string, err error) {
	if r.Fault != agon.FaultNone || r.Evidence != "" {
		return "", nil
	}
	if a.Evidence == agon.EvidenceForeign {
		return agon.Unattested, nil
	}
	e := refuse(422, "evidence_required", "arena %s takes no result without evidence that another can judge again", a.ID)
	e.Field, e.Mend = "evidence", "put what the play left under the lease and name its tree; of foreign validators an operator takes results with evidence = \"foreign\" in the arena's file"
	return "", e
}
