package session

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
)

func (s *Server) putFile(w http.ResponseWriter, r *http.Request) {
	mode := r.URL.Query().Get("mode")
	if mode == "" {
		mode = "644"
	}
	if n, err := strconv.ParseUint(mode, 8, 16); err != nil || n > 0o7777 {
		refuse(w, http.StatusUnprocessableEntity, "bad_field", "mode", "want octal digits, such as 755")
		return
	}
	s.put(w, r, `set -e; d=${1%/*}; mkdir -p "${d:-/}"; [ ! -d "$1" ]; cat >"$1"; chmod "$2" "$1"`, mode)
}

func (s *Server) putTree(w http.ResponseWriter, r *http.Request) {
	s.put(w, r, `set -e; mkdir -p "$1"; exec tar -C "$1" -xf -`, "")
}

// put runs a script over the request's body.
func (s *Server) put(w http.ResponseWriter, r *http.Request, script, arg string) {
	h, at := s.path(w, r)
	if h == nil {
		return
	}
	defer s.leave(h)
	out := &kept{limit: 2 << 10}
	body := http.MaxBytesReader(w, r.Body, MaxTransfer)
	x, err := h.box.Exec(r.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script, "sh", at, arg}, Dir: "/", Stdin: body, Stdout: out, Stderr: out, Untrusted: true})
	switch {
	case err != nil:
		fail(w, err)
	case x.Code != 0 || x.Limit != "" || x.Lost != "":
		refuse(w, http.StatusUnprocessableEntity, "not_written", "path", plain.Short(fmt.Sprintf("%s: exit %d %s%s: %s", at, x.Code, x.Limit, x.Lost, out.text()), 500))
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	s.get(w, r, `[ -e "$1" ] || exit 44; [ -f "$1" ] || exit 45; exec cat "$1"`, "application/octet-stream")
}

func (s *Server) getTree(w http.ResponseWriter, r *http.Request) {
	s.get(w, r, `[ -e "$1" ] || exit 44; [ -d "$1" ] || exit 45; exec tar -C "$1" -cf - .`, "application/x-tar")
}

// get answers what a script prints. It is spooled: what fails in the middle is an error, not a short answer.
func (s *Server) get(w http.ResponseWriter, r *http.Request, script, kind string) {
	h, at := s.path(w, r)
	if h == nil {
		return
	}
	defer s.leave(h)
	f, err := os.CreateTemp("", "agon-session-")
	if err != nil {
		fail(w, fmt.Errorf("%w: %w", sandbox.ErrHost, err))
		return
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()
	errs := &kept{limit: 2 << 10}
	x, err := h.box.Exec(r.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script, "sh", at}, Dir: "/", Stdout: f, Stderr: errs, Untrusted: true})
	switch {
	case err != nil:
		fail(w, err)
		return
	case x.Code == 44:
		refuse(w, http.StatusNotFound, "not_found", "path", at+" is not there")
		return
	case x.Code == 45:
		refuse(w, http.StatusUnprocessableEntity, "wrong_type", "path", at+" is of another type")
		return
	case x.Code != 0 || x.Limit != "" || x.Lost != "":
		refuse(w, http.StatusUnprocessableEntity, "not_read", "path", plain.Short(fmt.Sprintf("%s: exit %d %s%s: %s", at, x.Code, x.Limit, x.Lost, errs.text()), 500))
		return
	}
	n, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		fail(w, fmt.Errorf("%w: %w", sandbox.ErrHost, err))
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	_, _ = io.CopyN(w, f, n) // who has gone away needs no answer
}

// path is the box and the path that a request names; the caller leaves the box.
func (s *Server) path(w http.ResponseWriter, r *http.Request) (*held, string) {
	at := r.URL.Query().Get("path")
	if !absolute(at) {
		refuse(w, http.StatusUnprocessableEntity, "bad_field", "path", "want an absolute path")
		return nil, ""
	}
	return s.with(w, r), path.Clean(at)
}

func absolute(p string) bool {
	return path.IsAbs(p) && len(p) <= 4000 && !strings.ContainsRune(p, 0)
}
