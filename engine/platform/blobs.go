package platform

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/store"
)

// Blob returns bytes to those who may read something that they are part of.
// Bytes that c may not read look like bytes that are not there.
func (p *Platform) Blob(ctx context.Context, c Caller, d agon.Digest) ([]byte, error) {
	ok, err := p.checkBlob(ctx, c, d)
	if err != nil {
		return nil, err
	}
	if ok {
		b, err := p.cfg.Blobs.Get(ctx, d)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, blob.ErrNotFound) {
			return nil, err
		}
	}
	return nil, noBlob(d)
}

func noBlob(d agon.Digest) error {
	e := notFound("blob", string(d))
	e.Mend = "sign with a key that may read it"
	return e
}

func (p *Platform) checkBlob(ctx context.Context, c Caller, d agon.Digest) (bool, error) {
	if err := d.Validate(); err != nil {
		e := refuse(422, "bad_digest", "%s", err)
		e.Field = "digest"
		return false, e
	}
	return p.mayReadBlob(ctx, c, d)
}

// BlobAt returns a URL at which c reads d without the server, "" where there is
// none. Rights are those of Blob.
func (p *Platform) BlobAt(ctx context.Context, c Caller, d agon.Digest) (string, error) {
	at, ok := p.cfg.Blobs.(blob.Direct)
	if !ok {
		return "", nil
	}
	may, err := p.checkBlob(ctx, c, d)
	if err != nil {
		return "", err
	}
	if !may {
		return "", noBlob(d)
	}
	ends := directTime
	if c.Hotkey != "" {
		var held []store.Attempt
		err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			held, err = tx.LiveOf(c.Hotkey)
			return err
		})
		if err != nil {
			return "", err
		}
		if len(held) > 0 {
			ends = time.Second // the shortest that a bucket signs
		}
		for _, a := range held {
			ends = max(ends, a.LeaseUntil.Sub(p.now()))
		}
	}
	return at.Direct(ctx, d, min(ends, directMost).Truncate(time.Second))
}

func (p *Platform) mayReadBlob(ctx context.Context, c Caller, d agon.Digest) (bool, error) {
	if c.Operator || d == agon.Sum(nil) { // no bytes hold no secret
		return true, nil
	}
	var refs []store.BlobRef
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		refs, err = tx.Refs(d)
		return err
	})
	if err != nil {
		return false, err
	}
	for _, r := range refs {
		ok, err := p.mayReadRef(ctx, c, r)
		if err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

func (p *Platform) mayReadRef(ctx context.Context, c Caller, r store.BlobRef) (bool, error) {
	if r.What == store.RefTask {
		return p.mayReadTask(ctx, c, r)
	}
	var e store.Entry
	var a agon.Arena
	var run store.Run
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		id := r.Owner
		if r.OfRun() {
			if run, err = tx.Run(r.Owner); err != nil {
				return err
			}
			id = run.Submission
		}
		if e, err = tx.Entry(id); err != nil {
			return err
		}
		a, err = tx.Arena(e.Arena)
		return err
	})
	if err != nil {
		return false, err
	}
	v, err := p.viewOf(ctx, c, e.Submission)
	if err != nil {
		return false, err
	}
	if r.What == store.RefCode {
		return v.may(WhatCode), nil
	}
	return v.may(WhatEvidence) && (!p.anyHidden(a, run.Tasks) || v.may(WhatHidden)), nil
}

// mayReadTask: tasks stand before any submission, so the stage is the first.
func (p *Platform) mayReadTask(ctx context.Context, c Caller, r store.BlobRef) (bool, error) {
	if !r.Hidden {
		return MayRead(WhatTask, StageQueued, RolePublic), nil
	}
	id, _, _ := strings.Cut(r.Owner, "/")
	var a agon.Arena
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		a, err = tx.Arena(id)
		return err
	})
	if err != nil || c.Hotkey == "" {
		return false, err
	}
	permit, err := p.ledgerOf(a).IsValidator(ctx, a.Netuid, c.Hotkey)
	if err != nil {
		return false, ledgerError(err)
	}
	role := RoleRival
	if permit {
		role = RoleValidator
	}
	return MayRead(WhatHidden, StageQueued, role), nil
}

// PutBlob stores evidence of validators, or anything of the operator's. A
// validator's bytes can be evidence of the lease that it names, which must be
// its own and without a result, or of the leases that it holds now where it
// names none: of no other, so that nobody reads by calling it evidence what
// another has stored.
func (p *Platform) PutBlob(ctx context.Context, c Caller, lease string, d agon.Digest, b []byte) error {
	if c.Hotkey == "" && !c.Operator {
		return refuse(401, "unsigned", "this needs a validator's signature")
	}
	if int64(len(b)) > p.cfg.MaxBlobBytes {
		e := refuse(413, "too_large", "the blob has %d bytes", len(b))
		e.Limit = strconv.FormatInt(p.cfg.MaxBlobBytes, 10) + " bytes"
		return e
	}
	if agon.Sum(b) != d {
		e := refuse(422, "bad_digest", "the bytes do not have the digest %s", cut(string(d), 80))
		e.Field = "digest"
		return e
	}
	if !c.Operator {
		ok, err := p.permitAnywhere(ctx, c.Hotkey)
		if err != nil {
			return err
		}
		if !ok {
			return refuse(403, "no_permit", "only validators and the operator may store blobs")
		}
	}
	leases, err := p.uploadsTo(ctx, c, lease)
	if err != nil {
		return err
	}
	// A blob that is stored already counts against no quota. It is written all the
	// same: another writer's copy may not be on disk yet.
	has, err := p.cfg.Blobs.Has(ctx, d)
	if err != nil {
		return err
	}
	counts := !c.Operator && !has
	if counts {
		if err := p.takeUpload(ctx, c.Hotkey, int64(len(b))); err != nil {
			return err
		}
	}
	_, err = p.cfg.Blobs.Put(ctx, b)
	if err != nil && counts {
		_ = p.uploads.take(c.Hotkey, -int64(len(b)), p.cfg.UploadPerDay, p.now()) // giving back is never refused
	}
	if err != nil || len(leases) == 0 && !counts {
		return err
	}
	return p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		if counts {
			if err := p.uploads.keep(tx, c.Hotkey); err != nil {
				return err
			}
		}
		for _, id := range leases {
			if err := tx.AddUpload(id, d, p.now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// uploadsTo returns the leases whose evidence the bytes may be that c puts now.
func (p *Platform) uploadsTo(ctx context.Context, c Caller, lease string) (out []string, err error) {
	if c.Hotkey == "" {
		return nil, nil
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		if lease == "" {
			held, err := tx.LiveOf(c.Hotkey)
			for _, a := range held {
				out = append(out, a.Lease)
			}
			return err
		}
		a, err := tx.AttemptByLease(lease)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err != nil || a.Validator != c.Hotkey {
			e := refuse(403, "not_holder", "this lease belongs to another validator")
			e.Field = "lease"
			return e
		}
		if a.ResultHash != "" {
			e := refuse(409, "result_conflict", "this lease has reported its result: nothing more is its evidence")
			e.Field = "lease"
			return e
		}
		out = []string{lease}
		return nil
	})
	return out, err
}
