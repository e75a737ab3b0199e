package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// modulePath is a subset of what Go allows, without anything that means
// something in go.mod or in Go.
var modulePath = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*$`)

var moduleLine = lazyregexp.New(`(?m)^module[ \t]+"?([^\s"]+)"?`)

// maxGoMod bounds a go.mod or go.sum that is read, in bytes.
const maxGoMod = 4 << 20

func readGoFile(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxGoMod {
		return nil, fmt.Errorf("read %s: larger than %d bytes", name, maxGoMod)
	}
	return os.ReadFile(name)
}

// moduleOf is the module whose root is dir; "" if it is the root of none.
func moduleOf(dir string) (string, error) {
	b, err := readGoFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	m := moduleLine().FindSubmatch(b)
	if m == nil {
		return "", fmt.Errorf("read %s: it names no module", filepath.Join(dir, "go.mod"))
	}
	return string(m[1]), nil
}

// moduleAbove is the module that dir, which need not exist, lies in; "" for none.
func moduleAbove(dir string) (root, mod string, err error) {
	for {
		if mod, err = moduleOf(dir); err != nil || mod != "" {
			return dir, mod, err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", "", nil
		}
		dir = up
	}
}

// Source is where agon's own code is: a checkout, or a published version.
type Source struct {
	Dir     string // absolute; "" for a version
	Version string
}

// String says what it is, for people.
func (s Source) String() string {
	if s.Dir != "" {
		return s.Dir
	}
	return module + "@" + s.Version
}

// FindSource finds agon's code: at dir, if it is named; else the checkout of the
// working directory, that of this binary, the one that it was built from, or the
// version that it was built as.
func FindSource(dir string) (Source, error) {
	if dir != "" {
		at, err := filepath.Abs(dir)
		if err != nil {
			return Source{}, fmt.Errorf("find agon: %w", err)
		}
		mod, err := moduleOf(at)
		if err != nil {
			return Source{}, err
		}
		if mod != module {
			return Source{}, mistake("agon", "name the root of a clone of agon", "%s is not the root of %s", dir, module)
		}
		return Source{Dir: at}, nil
	}
	var tries []string
	if wd, err := os.Getwd(); err == nil {
		tries = append(tries, wd)
	}
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		tries = append(tries, filepath.Dir(exe))
	}
	own := ownBuild()
	if own.Dir != "" {
		tries = append(tries, own.Dir)
	}
	for _, t := range tries {
		root, mod, err := moduleAbove(t)
		if err == nil && mod == module {
			return Source{Dir: root}, nil
		}
	}
	if own.Version != "" {
		return Source{Version: own.Version}, nil
	}
	return Source{}, &agon.Error{
		Code: "no_source", Status: 422, Field: "agon", Message: "agon's own code is needed to build with it, and this binary does not know where it is",
		Mend: "name a clone of agon with --agon DIR",
	}
}

// ownBuild is what the binary says of where agon came from.
func ownBuild() (s Source) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != module {
			continue
		}
		if r := m.Replace; r != nil && filepath.IsAbs(r.Path) {
			s.Dir = r.Path
		} else if strings.HasPrefix(m.Version, "v") && m.Version != "v0.0.0" && !strings.Contains(m.Version, "+") {
			s.Version = m.Version
		}
	}
	return s
}

// with is one module to build with.
type with struct {
	module, version string
	dir             string // absolute; "" for a published one
}

// goMod returns the go.mod and go.sum of a module mod that needs agon and others.
// What agon needs is written out, so that nothing must be looked up for it.
func (s Source) goMod(mod string, others []with) (file, sum []byte, err error) {
	var b, sums bytes.Buffer
	fmt.Fprintf(&b, "module %s\n", mod)
	if s.Dir == "" {
		fmt.Fprintf(&b, "\ngo %s\n\nrequire %s %s\n", goVersion(), module, s.Version)
	} else {
		own, err := readGoFile(filepath.Join(s.Dir, "go.mod"))
		if err != nil {
			return nil, nil, fmt.Errorf("read agon's module: %w", err)
		}
		for _, block := range []*regexp.Regexp{goLine(), requireBlock(), requireLine()} {
			for _, m := range block.FindAll(own, -1) {
				fmt.Fprintf(&b, "\n%s\n", bytes.TrimSpace(m))
			}
		}
		fmt.Fprintf(&b, "\nrequire %s v0.0.0\n\n// Agon is built from this clone. Remove the line when you require a published version.\nreplace %s => %s\n", module, module, quotePath(s.Dir))
		if err := addSum(&sums, s.Dir); err != nil {
			return nil, nil, err
		}
	}
	for _, w := range others {
		switch {
		case w.dir != "":
			fmt.Fprintf(&b, "\nrequire %s v0.0.0\n\nreplace %s => %s\n", w.module, w.module, quotePath(w.dir))
			if err := addSum(&sums, w.dir); err != nil {
				return nil, nil, err
			}
		case w.version != "":
			fmt.Fprintf(&b, "\nrequire %s %s\n", w.module, w.version)
		}
	}
	return b.Bytes(), sums.Bytes(), nil
}

var (
	goLine       = lazyregexp.New(`(?m)^go [0-9.]+$`)
	requireBlock = lazyregexp.New(`(?ms)^require \(\n.*?^\)$`)
	requireLine  = lazyregexp.New(`(?m)^require [^(\s].*$`)
)

// addSum adds the checksums of the module at dir; there need be none.
func addSum(b *bytes.Buffer, dir string) error {
	sum, err := readGoFile(filepath.Join(dir, "go.sum"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read checksums: %w", err)
	}
	b.Write(sum)
	return nil
}

// quotePath is a path as go.mod takes it.
func quotePath(p string) string {
	if strings.ContainsAny(p, " \t\"'`()[]{},;") || strings.Contains(p, "//") {
		return "`" + p + "`"
	}
	return p
}
