// Package gitserve serves a tree of files as a git repository of one commit
// over smart HTTP, read only. It runs no git: objects and the pack are written
// here, so that no foreign repository is touched by host tools.
package gitserve

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's object names
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Modes of files, as git writes them.
const (
	ModeFile = "100644"
	ModeExec = "100755"
	ModeLink = "120000"
)

// MaxBytes bounds the files of one repository together.
const MaxBytes = 256 << 20

// maxRequest bounds a request for a pack.
const maxRequest = 1 << 20

// File is one file of the tree.
type File struct {
	Path    string
	Mode    string
	Content []byte // a link's target for ModeLink
}

// Repo is a repository of one commit. It does not change.
type Repo struct {
	commit string // hex
	branch string
	pack   []byte
}

type object struct {
	kind byte // 1 commit, 2 tree, 3 blob
	data []byte
	sum  [sha1.Size]byte
}

var kindName = map[byte]string{1: "commit", 2: "tree", 3: "blob"}

func newObject(kind byte, data []byte) object {
	h := sha1.New() //nolint:gosec // git's object names
	fmt.Fprintf(h, "%s %d\x00", kindName[kind], len(data))
	h.Write(data)
	o := object{kind: kind, data: data}
	h.Sum(o.sum[:0])
	return o
}

// author of the commit; a fixed one makes the same tree the same commit everywhere.
const author = "agon <agon@localhost> 1700000000 +0000"

// Build makes the repository of files. The same files give the same commit.
func Build(files []File, branch string) (*Repo, error) {
	seen := map[[sha1.Size]byte]bool{}
	var objects []object
	add := func(o object) [sha1.Size]byte {
		if !seen[o.sum] {
			seen[o.sum] = true
			objects = append(objects, o)
		}
		return o.sum
	}
	root := &dir{}
	total := 0
	for _, f := range files {
		if total += len(f.Content); total > MaxBytes {
			return nil, fmt.Errorf("build repository: files are larger than %d bytes", MaxBytes)
		}
		if f.Mode != ModeFile && f.Mode != ModeExec && f.Mode != ModeLink {
			return nil, fmt.Errorf("build repository: %q has mode %q", f.Path, f.Mode)
		}
		sum := add(newObject(3, f.Content))
		if err := root.put(f.Path, f.Mode, sum); err != nil {
			return nil, fmt.Errorf("build repository: %w", err)
		}
	}
	tree := root.write(add)
	commit := newObject(1, fmt.Appendf(nil, "tree %x\nauthor %s\ncommitter %s\n\nbase\n", tree, author, author))
	add(commit)
	pack, err := writePack(objects)
	if err != nil {
		return nil, err
	}
	return &Repo{commit: hex.EncodeToString(commit.sum[:]), branch: branch, pack: pack}, nil
}

// Commit is the hex name of the one commit.
func (r *Repo) Commit() string { return r.commit }

type dir struct {
	files map[string]leaf
	dirs  map[string]*dir
}

type leaf struct {
	mode string
	sum  [sha1.Size]byte
}

func (d *dir) put(p, mode string, sum [sha1.Size]byte) error {
	if p == "" || path.Clean(p) != p || path.IsAbs(p) || strings.HasPrefix(p, "../") || p == ".." || strings.ContainsRune(p, 0) {
		return fmt.Errorf("bad path %q", p)
	}
	parts := strings.Split(p, "/")
	for _, name := range parts {
		if strings.EqualFold(name, ".git") {
			return fmt.Errorf("path %q goes through .git", p)
		}
	}
	for _, name := range parts[:len(parts)-1] {
		if d.dirs == nil {
			d.dirs = map[string]*dir{}
		}
		if _, ok := d.files[name]; ok {
			return fmt.Errorf("%q is a file and a directory", name)
		}
		if d.dirs[name] == nil {
			d.dirs[name] = &dir{}
		}
		d = d.dirs[name]
	}
	name := parts[len(parts)-1]
	if _, ok := d.files[name]; ok || d.dirs[name] != nil {
		return fmt.Errorf("%q is given twice", p)
	}
	if d.files == nil {
		d.files = map[string]leaf{}
	}
	d.files[name] = leaf{mode, sum}
	return nil
}

// write adds the trees below d and returns its own name.
func (d *dir) write(add func(object) [sha1.Size]byte) [sha1.Size]byte {
	type entry struct {
		name, key, mode string
		sum             [sha1.Size]byte
	}
	var list []entry
	for name, f := range d.files {
		list = append(list, entry{name, name, f.mode, f.sum})
	}
	for name, sub := range d.dirs {
		list = append(list, entry{name, name + "/", "40000", sub.write(add)}) // git sorts directories as if they ended in /
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	var b bytes.Buffer
	for _, e := range list {
		fmt.Fprintf(&b, "%s %s\x00", e.mode, e.name)
		b.Write(e.sum[:])
	}
	return add(newObject(2, b.Bytes()))
}

// writePack writes version 2 of the pack format, without deltas.
func writePack(objects []object) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("PACK")
	_ = binary.Write(&b, binary.BigEndian, uint32(2)) // a buffer's write does not fail
	_ = binary.Write(&b, binary.BigEndian, uint32(len(objects)))
	z := zlib.NewWriter(&b)
	for _, o := range objects {
		n := len(o.data)
		c := o.kind<<4 | byte(n&15)
		for n >>= 4; n > 0; n >>= 7 {
			b.WriteByte(c | 0x80)
			c = byte(n & 127)
		}
		b.WriteByte(c)
		z.Reset(&b)
		if _, err := z.Write(o.data); err != nil {
			return nil, fmt.Errorf("write pack: %w", err)
		}
		if err := z.Close(); err != nil {
			return nil, fmt.Errorf("write pack: %w", err)
		}
	}
	sum := sha1.Sum(b.Bytes()) //nolint:gosec // the format's trailer
	b.Write(sum[:])
	return b.Bytes(), nil
}

// capabilities are those of protocol version 0 that clients of clones need.
func (r *Repo) capabilities() string {
	return "side-band-64k shallow no-progress symref=HEAD:refs/heads/" + r.branch + " object-format=sha1 agent=agon"
}

// ServeHTTP answers what stands below the repository's URL: info/refs and
// git-upload-pack. Prefix must be stripped.
func (r *Repo) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	switch strings.TrimPrefix(req.URL.Path, "/") {
	case "info/refs":
		if req.Method != http.MethodGet || req.URL.Query().Get("service") != "git-upload-pack" {
			http.Error(w, "only git-upload-pack is served", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		var b bytes.Buffer
		pkt(&b, "# service=git-upload-pack\n")
		b.WriteString("0000")
		pkt(&b, r.commit+" HEAD\x00"+r.capabilities()+"\n")
		pkt(&b, r.commit+" refs/heads/"+r.branch+"\n")
		b.WriteString("0000")
		_, _ = w.Write(b.Bytes()) // the client is gone if this fails
	case "HEAD":
		_, _ = io.WriteString(w, "ref: refs/heads/"+r.branch+"\n")
	case "git-upload-pack":
		r.upload(w, req)
	default:
		http.NotFound(w, req)
	}
}

func (r *Repo) upload(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return
	}
	body := io.Reader(http.MaxBytesReader(w, req.Body, maxRequest))
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, "bad gzip", http.StatusBadRequest)
			return
		}
		body = io.LimitReader(z, maxRequest)
	}
	ask, err := parseRequest(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, want := range ask.wants {
		if want != r.commit {
			http.Error(w, "want of an object that is not here", http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	var b bytes.Buffer
	if ask.deepen {
		b.WriteString("0000") // nothing is cut off: the commit has no parent
	}
	if len(ask.wants) == 0 || ask.deepen && !ask.done && !ask.haves {
		_, _ = w.Write(b.Bytes()) // the client has asked for the list of cuts only
		return
	}
	pkt(&b, "NAK\n")
	if !ask.done {
		_, _ = w.Write(b.Bytes())
		return
	}
	if !ask.sideband {
		b.Write(r.pack)
		_, _ = w.Write(b.Bytes())
		return
	}
	for rest := r.pack; len(rest) > 0; {
		n := min(len(rest), 65515)
		fmt.Fprintf(&b, "%04x\x01", n+5)
		b.Write(rest[:n])
		rest = rest[n:]
		if b.Len() > 1<<20 {
			if _, err := w.Write(b.Bytes()); err != nil {
				return
			}
			b.Reset()
		}
	}
	b.WriteString("0000")
	_, _ = w.Write(b.Bytes())
}

type request struct {
	wants                         []string
	done, haves, deepen, sideband bool
}

var errRequest = errors.New("bad request for a pack")

// parseRequest reads the packet lines of an upload request.
func parseRequest(in io.Reader) (request, error) {
	b, err := io.ReadAll(in)
	if err != nil {
		return request{}, errRequest
	}
	var out request
	for len(b) > 0 {
		if len(b) < 4 {
			return out, errRequest
		}
		var n [2]byte
		if _, err := hex.Decode(n[:], b[:4]); err != nil {
			return out, errRequest
		}
		size := int(binary.BigEndian.Uint16(n[:]))
		if size == 0 {
			b = b[4:]
			continue
		}
		if size < 4 || size > len(b) {
			return out, errRequest
		}
		line := strings.TrimSuffix(string(b[4:size]), "\n")
		b = b[size:]
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "want":
			if len(out.wants) >= 64 {
				return out, errRequest
			}
			name, caps, _ := strings.Cut(rest, " ")
			out.wants = append(out.wants, name)
			out.sideband = out.sideband || slices.Contains(strings.Fields(caps), "side-band-64k")
		case "deepen", "deepen-since", "deepen-not":
			out.deepen = true
		case "have":
			out.haves = true
		case "done":
			out.done = true
		}
	}
	return out, nil
}

func pkt(b *bytes.Buffer, line string) { fmt.Fprintf(b, "%04x%s", len(line)+4, line) }
