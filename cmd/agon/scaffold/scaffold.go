// Package scaffold writes a new kind of arena (`agon kind new`), and builds
// binaries with kinds of other modules in them (`agon build`).
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// module is agon's own.
const module = "github.com/agon-arena/agon"

// sprout is a kind that is built and tested here like any other. What New
// writes is sprout under another name.
//
//go:embed all:sprout
var sprout embed.FS

const (
	placeholder  = "sprout"
	placeholderT = "Sprout"
	netuid       = "netuid = 4099 " // in sprout.toml
)

// kindName is a kind's name that is a Go package's, too.
var kindName = lazyregexp.New(`^[a-z][a-z0-9]{1,29}$`)

func mistake(field, mend, format string, args ...any) error {
	return &agon.Error{Code: "bad_" + field, Status: 422, Field: field, Message: fmt.Sprintf(format, args...), Mend: mend}
}

func checkName(kits kit.List, name string) error {
	const mend = "choose another name"
	if _, taken := kits.Of(name); taken {
		return &agon.Error{Code: "kind_taken", Status: 409, Field: "name", Message: "this agon has a kind " + name + " already", Mend: mend}
	}
	switch {
	case !kindName().MatchString(name):
		return mistake("name", "for example: golf", "%.40q cannot be the name of a kind and of a Go package: want 2 to 30 of a-z and 0-9, starting with a letter", name)
	case token.IsKeyword(name), types.Universe.Lookup(name) != nil:
		return mistake("name", mend, "%q is a word of Go", name)
	case slices.Contains([]string{"main", "init", "kit", "kinds", "kind", "agon", placeholder}, name):
		return mistake("name", mend, "%q has a meaning of its own here", name)
	}
	return nil
}

// New writes a new kind into a directory. On error nothing is written.
func New(kits kit.List, o cli.KindNewOptions) (*cli.KindNew, error) {
	if err := checkName(kits, o.Name); err != nil {
		return nil, err
	}
	if o.Module != "" && !modulePath().MatchString(o.Module) {
		return nil, mistake("module", "for example: example.org/"+o.Name, "%.80q is not the path of a Go module", o.Module)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find directory: %w", err)
	}
	if err := vacant(dir, o.Dir); err != nil {
		return nil, err
	}
	out := &cli.KindNew{Kind: o.Name, Dir: o.Dir, Arena: o.Name + ".toml"}
	root, mod, err := moduleAbove(dir)
	if err != nil {
		return nil, err
	}
	own := o.Module != "" || root == ""
	switch rel, err := filepath.Rel(root, dir); {
	case own:
		out.Module, out.Package = o.Module, o.Module
		if o.Module == "" {
			out.Module, out.Package = "example.org/"+o.Name, "example.org/"+o.Name
		}
	case err != nil:
		return nil, fmt.Errorf("find module: %w", err)
	case mod == module && (path.Dir(filepath.ToSlash(rel)) != "kinds" || path.Base(rel) == "kit"):
		return nil, mistake("dir", "name kinds/"+o.Name+", or make a module of its own with --module", "in the repository of agon a kind stands below kinds/, and nowhere else")
	default:
		out.Package = path.Join(mod, filepath.ToSlash(rel))
	}
	files, err := render(o.Name, nextNetuid(kits))
	if err != nil {
		return nil, err
	}
	if own {
		src, err := FindSource(o.Agon)
		if err != nil {
			return nil, err
		}
		if files["go.mod"], files["go.sum"], err = src.goMod(out.Module, nil); err != nil {
			return nil, err
		}
		if len(files["go.sum"]) == 0 {
			delete(files, "go.sum")
		}
	}
	if err := write(dir, files); err != nil {
		return nil, err
	}
	for name := range files {
		out.Files = append(out.Files, filepath.Join(o.Dir, filepath.FromSlash(name)))
	}
	slices.Sort(out.Files)
	out.Next = next(out, mod == module && !own)
	return out, nil
}

// next says what to do with what was written.
func next(k *cli.KindNew, inTree bool) []string {
	name := path.Base(k.Package)
	imp := strconv.Quote(k.Package)
	if name != k.Kind {
		imp = k.Kind + " " + imp
	}
	if inTree {
		return []string{
			"kinds/kits.go: list " + k.Kind + ".Kit(), and import " + imp,
			"make build",
			"bin/agon up --once --arena " + k.Arena,
			"go test ./kinds/" + name,
		}
	}
	if k.Module == "" { // a package of a module that was there
		return []string{
			"call app.Main(\"\", append(kinds.All(), " + k.Kind + ".Kit())) from a main package of your module: import " + imp + ", " + strconv.Quote(module+"/cmd/agon/app") + " and " + strconv.Quote(module+"/kinds"),
			"go test " + k.Package,
		}
	}
	return []string{
		"agon build --with " + k.Module + "=" + k.Dir + " -o ./agon-" + k.Kind,
		"./agon-" + k.Kind + " up --once --arena " + k.Arena,
		"cd " + k.Dir + " && go test .",
	}
}

// vacant demands that nothing stands at dir but perhaps an empty directory.
func vacant(dir, shown string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at directory: %w", err)
	case !st.IsDir():
		return &agon.Error{Code: "not_a_directory", Status: 409, Field: "dir", Message: shown + " is a file", Mend: "name a new directory"}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	if len(list) > 0 {
		return &agon.Error{Code: "dir_not_empty", Status: 409, Field: "dir", Message: shown + " is not empty", Mend: "name a new directory"}
	}
	return nil
}

// nextNetuid is a subnet that no arena of the demo is on.
func nextNetuid(kits kit.List) int {
	n := 0
	for _, f := range kits.Demos() {
		n = max(n, int(f.Netuid))
	}
	return n + 1
}

// render returns sprout's files under another name.
func render(name string, net int) (map[string][]byte, error) {
	title := strings.ToUpper(name[:1]) + name[1:]
	named := strings.NewReplacer(placeholder, name, placeholderT, title, netuid, fmt.Sprintf("%-*s", len(netuid), fmt.Sprintf("netuid = %d", net)))
	out := map[string][]byte{}
	err := fs.WalkDir(sprout, placeholder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := sprout.ReadFile(p)
		if err != nil {
			return err
		}
		b = []byte(named.Replace(string(b)))
		if strings.HasSuffix(p, ".go") { // names have other lengths: columns of comments move
			if b, err = format.Source(b); err != nil {
				return err
			}
		}
		out[named.Replace(strings.TrimPrefix(p, placeholder+"/"))] = b
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("write kind: %w", err)
	}
	return out, nil
}

// write makes dir with files: beside it first, so that it is whole or not there.
func write(dir string, files map[string][]byte) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	tmp, err := os.MkdirTemp(parent, ".agon-kind-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	for name, b := range files {
		at := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		if err := os.WriteFile(at, b, 0o644); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if _, err := os.Lstat(dir); err == nil { // empty, and perhaps somebody's working directory
		return fill(dir, tmp)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}

// fill moves what stands in from to the empty directory dir.
func fill(dir, from string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	for _, e := range list {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}
