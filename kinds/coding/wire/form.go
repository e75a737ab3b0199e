package wire

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"time"
	"unicode/utf8"
)

// Limits of an upload.
const (
	maxAgent  = 2 << 20 // bytes of the file
	maxField  = 8 << 10
	maxFields = 32
)

// form is an upload as it came.
type form struct {
	fields map[string]string
	file   []byte
	name   string // of the file
	large  bool   // the file is larger than maxAgent: file is not all of it
}

// has reports whether a field was sent.
func (f *form) has(name string) bool { _, ok := f.fields[name]; return ok }

// readForm reads multipart/form-data with the file agent_file and the fields
// need. It stops reading at the first byte too many. ok is false when it has answered.
func readForm(w http.ResponseWriter, r *http.Request, need ...string) (*form, bool) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // a socket's deadline is real time
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	bad := func() (*form, bool) {
		refuse(w, http.StatusBadRequest, "There was an error parsing the body")
		return nil, false
	}
	typ, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || typ != "multipart/form-data" || params["boundary"] == "" {
		invalid(w, "missing", "Field required", "body", "agent_file")
		return nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxAgent+(maxFields+1)*(maxField+1<<10))
	m := multipart.NewReader(r.Body, params["boundary"])
	f := &form{fields: map[string]string{}}
	seen := false
	for n := 0; ; n++ {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || n >= maxFields {
			return bad()
		}
		if p.FormName() == "agent_file" && p.FileName() != "" {
			if f.file, err = io.ReadAll(io.LimitReader(p, maxAgent+1)); err != nil {
				return bad()
			}
			f.name, seen = p.FileName(), true
			if len(f.file) > maxAgent {
				f.large = true
				break // whatever comes after it is not read
			}
			continue
		}
		v, err := io.ReadAll(io.LimitReader(p, maxField+1))
		if err != nil {
			return bad()
		}
		if len(v) > maxField || !utf8.Valid(v) {
			invalid(w, "string_too_long", "Input should be text of at most 8192 bytes", "body", clip(p.FormName(), 80))
			return nil, false
		}
		f.fields[p.FormName()] = string(v)
	}
	if !seen {
		invalid(w, "missing", "Field required", "body", "agent_file")
		return nil, false
	}
	for _, n := range need {
		if !f.has(n) && !f.large {
			invalid(w, "missing", "Field required", "body", n)
			return nil, false
		}
	}
	return f, true
}
