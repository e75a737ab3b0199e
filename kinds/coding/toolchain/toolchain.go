// Package toolchain keeps the compilers and interpreters that tests of other
// languages than Python run by: fetched once by the ordinary clients of the
// package indexes, checked against the digests written here, mounted read-only
// in boxes.
package toolchain

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// The versions that tasks without an image are played by. A change of one is
// another scorer: results may differ.
const (
	GoVersion   = "1.26.8"
	NodeVersion = "24.21.0"
)

// ErrFetch is a toolchain that could not be fetched, or is not the one that is
// pinned here.
var ErrFetch = errors.New("toolchain cannot be fetched")

// pins are digests of archives: SHA-256 in hex of Go's, SHA-512 in base64 of npm's.
var pins = map[string]string{
	"go-amd64":   "30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7",
	"go-arm64":   "02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99",
	"node-amd64": "3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
	"node-arm64": "FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
}

const (
	maxFile  = 512 << 20
	maxTotal = 2 << 30
)

// Dir is where toolchains are kept unless a caller names another place.
func Dir() string { return filepath.Join(filepath.Dir(rootfs.DefaultDir()), "toolchains") }

// Ensure returns the directory of a toolchain, "go" or "node", and fetches it
// if it is not there: tree/ is what boxes mount, cache/ holds what Go's standard
// library compiles to. One process fetches at a time; a toolchain appears whole
// or not at all. dir "" is Dir(). log gets lines for a person and may be nil.
func Ensure(ctx context.Context, name, dir string, log func(string)) (string, error) {
	if dir == "" {
		dir = Dir()
	}
	if log == nil {
		log = func(string) {}
	}
	version := versions[name]
	if version == "" {
		return "", fmt.Errorf("no toolchain %q", name)
	}
	at := place(dir, name, version)
	if ready(at) {
		return at, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make toolchain directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("lock toolchains: %w", err)
	}
	defer lock.Close() // which ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock toolchains: %w", err)
	}
	if ready(at) { // another process fetched it while this one waited
		return at, nil
	}
	tmp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return "", fmt.Errorf("make toolchain directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	log(fmt.Sprintf("fetching %s %s for boxes", name, version))
	if name == "go" {
		err = fetchGo(ctx, tmp)
	} else {
		err = fetchNode(ctx, tmp)
	}
	if err != nil {
		return "", err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	if err := os.RemoveAll(at); err != nil {
		return "", err
	}
	return at, os.Rename(tmp, at)
}

var versions = map[string]string{"go": GoVersion, "node": NodeVersion}

func place(dir, name, version string) string {
	return filepath.Join(dir, name+"-"+version+"-"+runtime.GOARCH)
}

// Have reports whether a toolchain is here.
func Have(name, dir string) bool {
	if dir == "" {
		dir = Dir()
	}
	return ready(place(dir, name, versions[name]))
}

func ready(at string) bool {
	st, err := os.Stat(filepath.Join(at, "tree", "bin"))
	return err == nil && st.IsDir()
}

func fetchGo(ctx context.Context, tmp string) error {
	b, err := task.GoModule(ctx, tmp, "golang.org/toolchain", "v0.0.1-go"+GoVersion+".linux-"+runtime.GOARCH, maxFile)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFetch, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != pins["go-"+runtime.GOARCH] {
		return fmt.Errorf("%w: Go %s for %s has SHA-256 %x, which is not the pinned one", ErrFetch, GoVersion, runtime.GOARCH, sum)
	}
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFetch, err)
	}
	tree := filepath.Join(tmp, "tree")
	var total int64
	for _, f := range r.File {
		_, rel, ok := strings.Cut(strings.TrimPrefix(f.Name, "golang.org/"), "/")
		if !ok || !wantedOfGo(rel) || f.FileInfo().IsDir() {
			continue
		}
		if total += int64(f.UncompressedSize64); total > maxTotal {
			return fmt.Errorf("%w: more than %d bytes when unpacked", ErrFetch, int64(maxTotal))
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(rel, "bin/") || strings.HasPrefix(rel, "pkg/tool/") {
			mode = 0o755
		}
		src, err := f.Open()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFetch, err)
		}
		err = write(tree, rel, mode, src)
		if err := errors.Join(err, src.Close()); err != nil {
			return err
		}
	}
	return warmGo(ctx, tmp)
}

// wantedOfGo leaves out what no build of a module reads.
func wantedOfGo(p string) bool {
	switch {
	case strings.HasPrefix(p, "src/cmd/") && !strings.HasPrefix(p, "src/cmd/go.mod") && !strings.HasPrefix(p, "src/cmd/vendor/modules.txt"), strings.Contains(p, "/testdata/"), strings.HasSuffix(p, "_test.go"),
		strings.HasPrefix(p, "test/"), strings.HasPrefix(p, "doc/"), strings.HasPrefix(p, "api/"), strings.HasPrefix(p, "misc/"):
		return false
	}
	return true
}

// usual are the packages of the standard library that tests use most: they are
// compiled once a host.
const usual = `bufio bytes cmp compress/gzip container/heap container/list context crypto/md5 crypto/sha1 crypto/sha256 database/sql/driver embed
encoding encoding/base64 encoding/binary encoding/csv encoding/gob encoding/hex encoding/json encoding/xml errors expvar flag fmt go/ast go/format go/parser
go/token hash/crc32 hash/fnv html html/template io io/fs io/ioutil iter log log/slog maps math math/big math/bits math/rand math/rand/v2 mime mime/multipart net
net/http net/http/httptest net/mail net/url os os/exec os/signal path path/filepath reflect regexp runtime runtime/debug slices sort strconv strings sync
sync/atomic syscall testing testing/fstest testing/iotest testing/quick text/tabwriter text/template time unicode unicode/utf16 unicode/utf8 unique unsafe`

// warmGo compiles them with the fetched compiler. What the cache holds does not
// depend on where the toolchain stands.
func warmGo(ctx context.Context, tmp string) error {
	cache, mod := filepath.Join(tmp, "cache"), filepath.Join(tmp, ".warm")
	for _, d := range []string{cache, mod} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	defer os.RemoveAll(mod)
	var text strings.Builder
	text.WriteString("package warm\n\nimport (\n\t\"testing\"\n")
	for p := range strings.FieldsSeq(usual) {
		if p != "testing" {
			fmt.Fprintf(&text, "\t_ %q\n", p)
		}
	}
	text.WriteString(")\n\nfunc TestWarm(*testing.T) {}\n")
	for name, b := range map[string]string{"go.mod": "module warm\n\ngo 1.26\n", "warm_test.go": text.String()} {
		if err := os.WriteFile(filepath.Join(mod, name), []byte(b), 0o644); err != nil {
			return err
		}
	}
	tree := filepath.Join(tmp, "tree")
	cmd := exec.CommandContext(ctx, filepath.Join(tree, "bin", "go"), "test", "-c", "-vet=off", "-o", filepath.Join(mod, "warm.test"), ".")
	cmd.Dir = mod
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=" + mod, "GOROOT=" + tree, "GOCACHE=" + cache, "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=", "GOWORK=off",
		"GOPATH=" + filepath.Join(mod, "path"), "GOENV=off", "GOTELEMETRY=off",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile Go's standard library: %w: %.400s", err, out)
	}
	// Another user reads it in boxes.
	return filepath.WalkDir(cache, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(p, 0o777)
		}
		return os.Chmod(p, 0o666)
	})
}

func fetchNode(ctx context.Context, tmp string) error {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	pin := pins["node-"+runtime.GOARCH]
	if pin == "" {
		return fmt.Errorf("%w: no digest of node for %s is known", ErrFetch, runtime.GOARCH)
	}
	b, err := task.NpmPackage(ctx, tmp, "node-linux-"+arch, NodeVersion, maxFile)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFetch, err)
	}
	if sum := sha512.Sum512(b); base64.StdEncoding.EncodeToString(sum[:]) != pin {
		return fmt.Errorf("%w: node %s for %s has SHA-512 %s, which is not the pinned one", ErrFetch, NodeVersion, arch, base64.StdEncoding.EncodeToString(sum[:]))
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFetch, err)
	}
	r := tar.NewReader(io.LimitReader(z, maxTotal))
	for {
		h, err := r.Next()
		if err != nil {
			return fmt.Errorf("%w: no program in the archive: %w", ErrFetch, err)
		}
		if h.Typeflag == tar.TypeReg && path.Clean(h.Name) == "package/bin/node" {
			return write(filepath.Join(tmp, "tree"), "bin/node", 0o755, r)
		}
	}
}

func write(dir, rel string, mode os.FileMode, src io.Reader) error {
	if !filepath.IsLocal(rel) {
		return fmt.Errorf("%w: the archive names %q", ErrFetch, rel)
	}
	p := filepath.Join(dir, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(src, maxFile))
	return errors.Join(err, f.Close())
}
