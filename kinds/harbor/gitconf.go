package harbor

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// A repository's own settings may name programs that git runs for whoever asks it anything: filters, drivers of
// diffs and merges, a program that checks signatures, another file of settings. No variable turns all of them off,
// so settings of a repository count only where each line is known to run nothing.

// gitHarmless are the keys of a repository's settings that run nothing, by section; nil: all of the section.
var gitHarmless = map[string][]string{
	"core": {
		"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks", "autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "worktree",
		"sparsecheckout", "sparsecheckoutcone", "compression", "longpaths", "checkstat", "trustctime", "untrackedcache", "excludesfile", "commentchar",
	},
	"remote": {"url", "pushurl", "fetch", "push", "tagopt", "prune", "mirror"}, "submodule": {"url", "active", "branch", "ignore", "recurse"},
	"merge": {"conflictstyle", "ff", "renames", "log"}, "diff": {"algorithm", "renames", "noprefix", "mnemonicprefix", "context", "colormoved"}, "commit": {"gpgsign", "verbose", "cleanup"},
	"init": {"defaultbranch"}, "gc": {"auto", "autodetach"}, "extensions": {"objectformat", "worktreeconfig", "refstorage"},
	"user": nil, "author": nil, "committer": nil, "branch": nil, "color": nil, "advice": nil, "push": nil, "pull": nil, "rebase": nil, "status": nil, "index": nil, "pack": nil, "rerere": nil,
}

var (
	gitSection = lazyregexp.New(`^\[([A-Za-z0-9-]+)(?:\.[A-Za-z0-9.-]+|[ \t]+"(?:[^"\\]|\\.)*")?\]$`)
	gitKey     = lazyregexp.New(`^([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=.*)?$`)
)

// lfs are the lines of a filter that every repository with large files has; its program is not the contestant's.
var lfs = []string{"clean = git-lfs clean -- %f", "smudge = git-lfs smudge -- %f", "process = git-lfs filter-process", "required = true"}

// harmlessGit tells whether settings of a repository run nothing. What it cannot read does not count as such.
func harmlessGit(text []byte) bool {
	section, known := "", false
	var keys []string
	for line := range strings.Lines(string(text)) {
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		// A line that goes on, or parts a reader of lines sees otherwise than git.
		if strings.HasSuffix(line, `\`) || strings.ContainsAny(line, "\r\v\f\x00") {
			return false
		}
		if m := match(gitSection(), line); m != "" {
			section = strings.ToLower(m)
			keys, known = gitHarmless[section]
			large := line == `[filter "lfs"]`
			if !known && !large {
				return false
			}
			if large {
				section = line
			}
			continue
		}
		if section == `[filter "lfs"]` {
			if !slices.Contains(lfs, line) {
				return false
			}
			continue
		}
		key := strings.ToLower(match(gitKey(), line))
		if key == "" || !known || keys != nil && !slices.Contains(keys, key) {
			return false
		}
	}
	return true
}

func match(r *regexp.Regexp, line string) string {
	if m := r.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// tamed are the lines of a task's own settings of a repository that run nothing: what the others name may stand in
// the work, such as a file that is included or a filter's program.
func tamed(text []byte) []byte {
	var out bytes.Buffer
	section := ""
	for line := range strings.Lines(string(text)) {
		said := strings.Trim(line, " \t\r\n")
		if match(gitSection(), said) != "" {
			section = ""
			if harmlessGit([]byte(said)) {
				section = said + "\n"
				out.WriteString(section)
			}
		} else if section != "" && harmlessGit([]byte(section+said)) {
			out.WriteString("\t" + said + "\n")
		}
	}
	if !harmlessGit(out.Bytes()) {
		return nil
	}
	return out.Bytes()
}

// maxGitConfig bounds the settings of a repository, in bytes: those of a larger file are left out.
const maxGitConfig = 1 << 20

// tamedFile returns what is left of a file of settings; changed is false where that is all of it, or
// where the file cannot be read: then git cannot read it either.
func tamedFile(p string, d fs.DirEntry) (b []byte, changed bool) {
	fi, err := d.Info()
	if err != nil {
		return nil, false
	}
	if fi.Size() > maxGitConfig {
		return nil, true
	}
	text, err := os.ReadFile(p)
	if err != nil || harmlessGit(text) {
		return nil, false
	}
	return tamed(text), true
}

// maxBases is how many files and directories of a task's are looked through for repositories.
const maxBases = 200_000

// tame adds to entries settings of the task's own repositories, without what might run programs: where the contestant
// left none that count. gone are files that he removed.
func (s *stage) tame(entries map[string]kept, gone []string) {
	tops := map[string]string{}
	for _, top := range s.open {
		if !slices.Contains([]string{"/etc", "/opt", "/tmp", "/var", localDir}, top) { // no work
			tops[top] = filepath.Join(s.root.Dir, top)
		}
	}
	if s.base != "" {
		tops[s.dir] = s.base
	}
	n := 0
	for _, top := range sortedKeys(tops) {
		at := tops[top]
		_ = filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
			if n++; n > maxBases {
				return fs.SkipAll
			}
			if err != nil {
				return nil //nolint:nilerr // what cannot be read has no settings either
			}
			if d.IsDir() && (d.Name() == "objects" || d.Name() == "node_modules" || d.Name() == "site-packages") {
				return fs.SkipDir
			}
			if !d.Type().IsRegular() || d.Name() != "config.worktree" && (d.Name() != "config" || !exists(filepath.Join(filepath.Dir(p), "objects"))) {
				return nil
			}
			in := (top + strings.TrimPrefix(p, at))[1:]
			if _, left := entries[in]; left || slices.Contains(gone, "/"+in) {
				return nil
			}
			b, changed := tamedFile(p, d)
			if !changed {
				return nil
			}
			entries[in] = kept{&tar.Header{Name: in, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(b))}, b}
			return nil
		})
	}
}

// gitSettings tells whether p may be what git reads as settings of a repository, given what else was left: a
// repository is where objects lie beside, whatever its directory is called.
func (s *stage) gitSettings(p string, left func(string) bool) bool {
	switch path.Base(p) {
	case "config.worktree":
		return true
	case "config":
		beside := path.Join(path.Dir(p), "objects")
		return left(beside) || s.there("/"+beside) || s.base != "" && below(s.dir, "/"+beside) && exists(filepath.Join(s.base, strings.TrimPrefix("/"+beside, s.dir)))
	}
	return false
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// runsByGit tells whether git would run programs by an entry, as its settings.
func (s *stage) runsByGit(h *tar.Header, text []byte, left func(string) bool) bool {
	return h.Typeflag != tar.TypeDir && s.gitSettings(h.Name, left) && (h.Typeflag != tar.TypeReg || !harmlessGit(text))
}
