// Package cassette records what an upstream answered, once, and plays it back
// byte for byte: a keyless, deterministic stand-in for a real model.
package cassette

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Limits of a tape.
const (
	maxTape  = 512 << 20 // bytes of the file
	maxLine  = 96 << 20  // of one entry
	maxReply = 64 << 20  // of one recorded reply

	maxModels = 64  // names that a tape may give
	maxModel  = 200 // bytes of one
)

// entry is one line of a tape: JSON, one object a line. Texts that are not
// UTF-8 stand in the base64 fields.
type entry struct {
	Key         string `json:"key"` // hex sha256 of path, NUL and request body without durations
	Path        string `json:"path"`
	Request     string `json:"request,omitempty"` // for people; Key decides
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Text        string `json:"text,omitempty"`
	Base64      []byte `json:"base64,omitempty"`

	line int // of the tape, from 1
}

func (e entry) body() []byte {
	if e.Base64 != nil {
		return e.Base64
	}
	return []byte(e.Text)
}

// durations are times that programs print ("Ran 3 tests in 0.002s"): they differ
// from run to run, and an agent shows them to its model.
var durations = lazyregexp.New(`\b[0-9]+\.[0-9]+ ?(?:s|ms|seconds)\b`)

// keyOf names a request. Requests that differ in durations only are the same.
func keyOf(path string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(path))
	h.Write([]byte{0})
	h.Write(durations().ReplaceAllLiteral(body, []byte("0s")))
	return hex.EncodeToString(h.Sum(nil))
}

// Parse reads a tape. It refuses lines that are not entries, entries whose
// status no upstream may hand on, and the same request twice.
func Parse(r io.Reader) (map[string]entry, error) {
	sc := bufio.NewScanner(io.LimitReader(r, maxTape+1))
	sc.Buffer(make([]byte, 64<<10), maxLine)
	out := map[string]entry{}
	total := 0
	for n := 1; sc.Scan(); n++ {
		if total += len(sc.Bytes()) + 1; total > maxTape {
			return nil, fmt.Errorf("read tape: larger than %d bytes", maxTape)
		}
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		var e entry
		d := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("read tape: line %d: %w", n, err)
		}
		if d.More() {
			return nil, fmt.Errorf("read tape: line %d: more than one object", n)
		}
		switch _, twice := out[e.Key]; {
		case len(e.Key) != 64:
			return nil, fmt.Errorf("read tape: line %d: key: want 64 hex digits", n)
		case e.Path != provider.PathChat && e.Path != provider.PathEmbeddings:
			return nil, fmt.Errorf("read tape: line %d: path: unknown", n)
		case e.Status != http.StatusOK && !provider.Own(e.Status):
			return nil, fmt.Errorf("read tape: line %d: status %d is not an answer", n, e.Status)
		case twice:
			return nil, fmt.Errorf("read tape: line %d: a request stands twice", n)
		}
		e.line = n
		out[e.Key] = e
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read tape: %w", err)
	}
	return out, nil
}

// Upstream plays a tape. It implements provider.Upstream.
type Upstream struct {
	name   string
	models []string
	live   provider.Upstream // nil: playback only

	mu   sync.Mutex
	tape map[string]entry // guarded by mu
	file *os.File         // guarded by mu; nil: playback only
}

// Play opens the tape at path for playback. models are the names to offer, the
// default first; none: those that its replies name, in the order of the tape.
// A request that is not on the tape fails.
func Play(path string, models []string) (*Upstream, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open tape: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	tape, err := Parse(f)
	if err != nil {
		return nil, err
	}
	if len(models) == 0 {
		models = modelsOf(tape)
	}
	return &Upstream{name: "cassette", models: models, tape: tape}, nil
}

// modelsOf are the names of models that the replies of a tape give, each once.
func modelsOf(tape map[string]entry) []string {
	var out []string
	for _, e := range slices.SortedFunc(maps.Values(tape), func(x, y entry) int { return cmp.Compare(x.line, y.line) }) {
		var reply struct {
			Model string `json:"model"`
		}
		if json.Unmarshal(e.body(), &reply) == nil && reply.Model != "" && len(reply.Model) <= maxModel && !slices.Contains(out, reply.Model) && len(out) < maxModels {
			out = append(out, reply.Model)
		}
	}
	return out
}

// Record opens or makes the tape at path: what is on it is played, what is not
// is asked of live and appended when the reply is complete. Failures of live
// are not recorded. Close it.
func Record(path string, live provider.Upstream) (*Upstream, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open tape: %w", err)
	}
	tape, err := Parse(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Upstream{name: live.Name(), models: live.Models(), live: live, tape: tape, file: f}, nil
}

// Close ends recording.
func (u *Upstream) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.file == nil {
		return nil
	}
	f := u.file
	u.file = nil
	return f.Close()
}

// Name implements provider.Upstream.
func (u *Upstream) Name() string { return u.name }

// Models implements provider.Upstream.
func (u *Upstream) Models() []string { return u.models }

// Do implements provider.Upstream.
func (u *Upstream) Do(ctx context.Context, req provider.Request) (*provider.Reply, error) {
	key := keyOf(req.Path, req.Body)
	u.mu.Lock()
	e, ok := u.tape[key]
	u.mu.Unlock()
	if ok {
		return &provider.Reply{Status: e.Status, ContentType: e.ContentType, Body: io.NopCloser(bytes.NewReader(e.body()))}, nil
	}
	if u.live == nil {
		return nil, &provider.Failure{Class: provider.ClassBadReply, Detail: "the tape has no reply to this request (key " + key[:16] + ")"}
	}
	reply, err := u.live.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	e = entry{Key: key, Path: req.Path, Status: reply.Status, ContentType: reply.ContentType}
	if utf8.Valid(req.Body) {
		e.Request = string(req.Body)
	}
	reply.Body = &tee{ReadCloser: reply.Body, u: u, e: e}
	return reply, nil
}

// keep appends a complete reply to the tape.
func (u *Upstream) keep(e entry, body []byte) error {
	if utf8.Valid(body) {
		e.Text = string(body)
	} else {
		e.Base64 = body
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.tape[e.Key]; known || u.file == nil {
		return nil // another call of the same request was first
	}
	if _, err := u.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write tape: %w", err)
	}
	if err := u.file.Sync(); err != nil {
		return fmt.Errorf("write tape: %w", err)
	}
	u.tape[e.Key] = e
	return nil
}

// tee keeps a reply while it is read. The call that reads it is in one goroutine.
type tee struct {
	io.ReadCloser
	u    *Upstream
	e    entry
	got  []byte
	over bool
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if len(t.got)+n > maxReply {
		t.over, t.got = true, nil
	}
	if !t.over {
		t.got = append(t.got, p[:n]...)
	}
	if err == io.EOF && !t.over {
		if kerr := t.u.keep(t.e, t.got); kerr != nil {
			return n, &provider.Failure{Class: provider.ClassBadReply, Detail: kerr.Error()}
		}
	}
	return n, err
}
