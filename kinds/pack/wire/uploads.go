package wire

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/served"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// Limits of an uploaded archive.
const (
	maxArchive  = 10 << 20  // as it is sent
	maxUnpacked = 100 << 20 // of its files together
	maxMembers  = 1_000
	maxParts    = 24 // of a form
	maxValue    = 1_000
	maxUploads  = 4 // at once
)

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func (b *Backend) uploadLogs(w http.ResponseWriter, r *http.Request) { b.upload(w, r, "miner") }

func (b *Backend) uploadCycle(w http.ResponseWriter, r *http.Request) { b.upload(w, r, "cycle") }

// upload takes an archive of logs from a validator.
func (b *Backend) upload(w http.ResponseWriter, r *http.Request, typ string) {
	select {
	case b.uploads <- struct{}{}:
		defer func() { <-b.uploads }()
	case <-r.Context().Done():
		return
	}
	defer served.Within(w, served.BodyTime)()
	form, archive, err := readForm(r.Header.Get("Content-Type"), http.MaxBytesReader(w, r.Body, maxArchive+maxBody))
	var bad formError
	switch {
	case errors.As(err, &bad):
		reply(w, http.StatusBadRequest, bad.p)
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, "bad_form", "body", "want multipart/form-data with log_archive")
		return
	}
	if !b.check(w, r, signin.Logs, signin.Fields{Hotkey: form["validator_hotkey"], Timestamp: form["timestamp"], Signature: form["signature"]}) {
		return
	}
	u := &upload{
		ID: uploadPrefix + uuid.Must(uuid.NewV7()).String(), Validator: form["validator_hotkey"], EvalID: form["eval_id"], Type: typ, Size: int64(len(archive)), At: b.cfg.Now(),
	}
	if !evalForm().MatchString(u.EvalID) {
		refuse(w, http.StatusBadRequest, "bad_field", "eval_id", "eval_id must be 1 to 80 letters, digits, _, ., : and -")
		return
	}
	if u.Block, err = strconv.ParseInt(form["block_height"], 10, 64); err != nil || u.Block < 0 {
		refuse(w, http.StatusBadRequest, "bad_field", "block_height", "block_height must be a non-negative integer")
		return
	}
	if typ == "miner" {
		u.Miner, u.Hash = form["miner_hotkey"], form["pack_hash"]
		if !hotkeyField(w, "miner_hotkey", u.Miner) || !hashField(w, u.Hash) {
			return
		}
	}
	if err := checkArchive(archive, maxUnpacked); err != nil {
		reply(w, http.StatusBadRequest, problem{Error: "log_archive must be a valid .tar.gz file", Code: "bad_archive", Field: "log_archive", Limit: err.Error()})
		return
	}
	if typ == "miner" {
		ok, err := b.evaluated(r.Context(), u)
		if err != nil {
			b.refused(w, "log upload", err)
			return
		}
		if !ok {
			refuse(w, http.StatusNotFound, "no_record", "", "No eval record found for this validator/miner/block combination")
			return
		}
	}
	if err := b.keep(r.Context(), u, archive); err != nil {
		b.refused(w, "log upload", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"success": true, "log_id": u.ID, "size_bytes": u.Size})
}

// evaluated says whether a validator reported or played a pack.
func (b *Backend) evaluated(ctx context.Context, u *upload) (bool, error) {
	if b.posts.reported(u.Validator, u.Miner, u.Block) {
		return true, nil
	}
	s, err := b.look(ctx)
	if err != nil {
		return false, err
	}
	for _, e := range s.byMiner[u.Miner] {
		if e.pack.Hash == u.Hash && slices.ContainsFunc(e.plays, func(p play) bool { return p.validator == u.Validator }) {
			return true, nil
		}
	}
	return false, nil
}

// formError is what is wrong with a form, for its sender.
type formError struct{ p problem }

func (e formError) Error() string { return e.p.Error }

// readForm reads the values of a form and its archive. Each value may be there once.
func readForm(contentType string, body io.Reader) (map[string]string, []byte, error) {
	ct, params, err := mime.ParseMediaType(contentType)
	if err != nil || ct != "multipart/form-data" || params["boundary"] == "" {
		return nil, nil, formError{problem{Error: "want multipart/form-data with log_archive", Code: "bad_form", Field: "body"}}
	}
	tooLarge := formError{problem{Error: "log_archive exceeds 10MB limit", Code: "too_large", Field: "log_archive", Limit: strconv.Itoa(maxArchive) + " bytes"}}
	form := multipart.NewReader(body, params["boundary"])
	values := map[string]string{}
	var archive []byte
	for range maxParts {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			if archive == nil {
				return nil, nil, formError{problem{Error: "log_archive is required", Code: "missing_field", Field: "log_archive"}}
			}
			return values, archive, nil
		}
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, nil, tooLarge
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read form: %w", err)
		}
		name, limit := part.FormName(), int64(maxValue)
		if name == "log_archive" {
			limit = maxArchive
		}
		content, err := io.ReadAll(io.LimitReader(part, limit+1))
		_, again := values[name]
		switch {
		case errors.As(err, &large) || err == nil && name == "log_archive" && int64(len(content)) > limit:
			return nil, nil, tooLarge
		case err != nil:
			return nil, nil, fmt.Errorf("read form: %w", err)
		case int64(len(content)) > limit:
			return nil, nil, formError{problem{Error: plain(name, 40) + " is too long", Code: "too_large", Field: plain(name, 40), Limit: strconv.Itoa(maxValue) + " bytes"}}
		case again || name == "log_archive" && archive != nil:
			return nil, nil, formError{problem{Error: plain(name, 40) + " is given twice", Code: "bad_form", Field: plain(name, 40)}}
		case name == "log_archive":
			archive = append([]byte{}, content...)
		default:
			values[name] = string(content)
		}
	}
	return nil, nil, formError{problem{Error: "the form has too many parts", Code: "bad_form", Field: "body", Limit: strconv.Itoa(maxParts) + " parts"}}
}

// checkArchive reads an archive to its end. Readers unpack it without looking,
// so nothing may be in it but files and directories below its root.
func checkArchive(b []byte, most int64) error {
	gz, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return errors.New("no gzip")
	}
	limited := &io.LimitedReader{R: gz, N: most + 1}
	tr := tar.NewReader(limited)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if limited.N <= 0 {
			return fmt.Errorf("it unpacks to more than %d bytes", most)
		}
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return errors.New("it is empty")
			}
			break
		}
		if err != nil {
			return errors.New("no tar")
		}
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		switch {
		case n >= maxMembers:
			return fmt.Errorf("it has more than %d members", maxMembers)
		case h.Typeflag == tar.TypeDir && (name == "" || name == "."):
		case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir:
			return errors.New("it has a member that is not a file and no directory")
		case len(name) > 255 || !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00:") || plain(name, 300) != name:
			return errors.New("it has a member whose name leaves it")
		}
	}
	// What follows the archive within the stream counts too.
	if _, err := io.Copy(io.Discard, limited); err != nil {
		return errors.New("no gzip")
	}
	if limited.N <= 0 {
		return fmt.Errorf("it unpacks to more than %d bytes", most)
	}
	return nil
}

// keep stores an archive, then the document that names it, and drops the
// oldest where there are too many bytes: what is named no more, agon gc removes.
func (b *Backend) keep(ctx context.Context, u *upload, archive []byte) error {
	if err := b.store(ctx, u, platform.Caller{Hotkey: u.Validator}, archive); err != nil {
		return err
	}
	b.posts.mu.Lock()
	defer b.posts.mu.Unlock()
	b.posts.logs, b.posts.held = append(b.posts.logs, u), b.posts.held+u.Size
	for i := b.posts.surplus(u.Validator, b.cfg.Keep); i >= 0; i = b.posts.surplus(u.Validator, b.cfg.Keep) {
		old := b.posts.logs[i]
		if err := b.dir.Remove(old.ID); err != nil {
			return err
		}
		b.posts.logs, b.posts.held = slices.Delete(b.posts.logs, i, i+1), b.posts.held-old.Size
	}
	return nil
}

// surplus is the place of an archive that is to go after one of a validator came; -1: none. Of too
// many of its own its oldest goes, of too many or too large ones anybody's. The caller holds mu.
func (p *posts) surplus(validator string, most int64) int {
	own, oldest := 0, -1
	for i, u := range p.logs {
		if u.Validator != validator {
			continue
		}
		if own++; oldest < 0 {
			oldest = i
		}
	}
	switch {
	case own > maxOf:
		return oldest
	case len(p.logs) > maxLogs || p.held > most && len(p.logs) > 1:
		return 0
	}
	return -1
}

// store puts an archive to the other bytes, at its validator's quota, and names it.
func (b *Backend) store(ctx context.Context, u *upload, by platform.Caller, archive []byte) error {
	d := agon.Sum(archive)
	if err := b.cfg.Platform.PutBlob(ctx, by, "", d, archive); err != nil {
		return err
	}
	u.Digest = d
	return b.dir.Put(u.ID, u)
}

// readUpload reads an archive that was uploaded; nil: there is none.
func (b *Backend) readUpload(ctx context.Context, id string) ([]byte, error) {
	b.posts.mu.Lock()
	i := slices.IndexFunc(b.posts.logs, func(u *upload) bool { return u.ID == id && u.Digest != "" })
	var d agon.Digest
	if i >= 0 {
		d = b.posts.logs[i].Digest
	}
	b.posts.mu.Unlock()
	if d == "" {
		return nil, nil
	}
	return b.cfg.Platform.Blob(ctx, operator, d)
}
