package harbor

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/internal/plain"
)

// noteWork is the text of the note that says which files an agent has changed.
const noteWork = "work"

// workNote is the data of that note: what a turn left that was not there before.
// Paths and contents are the contestant's words.
type workNote struct {
	Text  string     `json:"text"` // noteWork
	Step  string     `json:"step,omitempty"`
	Asked string     `json:"asked,omitempty"` // the begin of what the task asked for, the author's words
	Files []leftFile `json:"files,omitempty"`
	More  int        `json:"more,omitempty"` // files that are left out
	// Broken: the archive could not be read to its end.
	Broken bool `json:"broken,omitempty"`
}

// leftFile is one file that differs.
type leftFile struct {
	Path string `json:"path"`
	How  string `json:"how"` // added, changed, deleted, link
	Size int64  `json:"size,omitempty"`
	To   string `json:"to,omitempty"`   // of a link
	Head string `json:"head,omitempty"` // the first bytes of a text
	Cut  bool   `json:"cut,omitempty"`  // the text is longer
}

// Bounds of a note of work.
const (
	maxLeftFiles = 100
	maxLeftHead  = 4 << 10  // bytes of one file
	maxLeftHeads = 32 << 10 // of all
)

// workOf says what an archive of snapshot.py holds beside the list from before.
func workOf(u turn, before listed, archive []byte) workNote {
	n := workNote{Text: noteWork, Step: plain.Short(u.name, 100), Asked: strings.ToValidUTF8(u.instruction[:min(len(u.instruction), maxLeftHead)], "")}
	was := before.paths()
	add := func(f leftFile) {
		if len(n.Files) == maxLeftFiles {
			n.More++
			return
		}
		f.Path = plain.Short(f.Path, 300)
		n.Files = append(n.Files, f)
	}
	heads := 0
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			n.Broken = true
			return n
		}
		if h.Name == deletedFile {
			var gone []string
			if json.NewDecoder(r).Decode(&gone) != nil {
				n.Broken = true
			}
			for _, p := range gone {
				add(leftFile{Path: p, How: "deleted"})
			}
			continue
		}
		f := leftFile{Path: "/" + h.Name, How: "added", Size: h.Size}
		if was[strings.TrimSuffix(f.Path, "/")] {
			f.How = "changed"
		}
		switch h.Typeflag {
		case tar.TypeReg:
			if heads < maxLeftHeads && len(n.Files) < maxLeftFiles {
				b, err := io.ReadAll(io.LimitReader(r, maxLeftHead))
				if err == nil && isText(b) {
					f.Head, f.Cut = strings.ToValidUTF8(string(b), ""), h.Size > int64(len(b))
					heads += len(f.Head)
				}
			}
		case tar.TypeSymlink:
			f.How, f.To = "link", plain.Short(h.Linkname, 300)
		default:
			continue // a directory says nothing without its files
		}
		add(f)
	}
}

// isText tells whether the begin of a file reads as text: a character may be cut at its end.
func isText(b []byte) bool {
	if bytes.IndexByte(b, 0) >= 0 {
		return false
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			return len(b) < utf8.UTFMax && !utf8.FullRune(b)
		}
		b = b[n:]
	}
	return true
}
