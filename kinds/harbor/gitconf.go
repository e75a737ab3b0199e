package harbor

import (
	"archive/tar"
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
			if keys, known = gitHarmless[section]; !known {
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
