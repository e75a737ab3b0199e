package harbor

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// harmless are files and directories of /etc that no program runs anything by, or none that a box has.
var harmless = []string{
	"anacrontab", "apt/keyrings", "apt/preferences", "apt/sources.list", "cron.", "crontab", "exports", "fstab", "hosts.allow", "hosts.deny", "issue", "logrotate", "machine-id", "mime.types", "motd", "os-release", "protocols", "services", "shells", "sysctl.", "systemd",
}

// settings are files and directories of /etc that programs read before they do
// what they are asked: loaders, shells, interpreters, who is who. None of them counts, whoever names it.
var settings = []string{
	"ld", "profile", "bash", "zsh", "csh", "fish", "ksh", "mksh", "environment", "python", "perl", "git", "mercurial", "passwd", "group", "shadow", "gshadow", "nsswitch.conf", "hosts", "resolv.conf",
	"hostname", "host.conf", "gai.conf", "pip.conf", "npmrc", "inputrc", "ssl", "openssl", "pam", "security", "alternatives", "locale", "gconv", "ca-certificates", "java", "node", "ruby", "php", "curlrc", "wgetrc",
	"R", "lua", "julia", "octave", "emacs", "vim", "xdg", "texmf", "maven", "gradle", "dotnet", "ImageMagick", "psqlrc", "postgresql-common", "agon",
	"apt/apt.conf", "dpkg/dpkg.cfg", "tmux.conf", "screenrc", "gdb", "odbc", "OpenCL", "subversion", "gemrc", "syslesskey", "ssh/ssh_config",
}

// loaded are directories of a prefix's lib and share, by how their names begin,
// from which compilers and interpreters take code by themselves. One that a root
// does not have is as good as one that it has: the program may look there all the same.
var loaded = []string{
	"python", "pypy", "perl", "ruby", "site_ruby", "lua", "luajit", "node", "R", "tcl", "tk", "php", "ocaml", "ghc", "guile", "emacs", "vim", "nvim", "fish", "zsh", "bash", "awk", "gawk", "julia", "octave", "java", "jvm",
	"aclocal", "autoconf", "automake", "cmake", "pkgconfig", "gcc", "clang", "rustlib", "erlang", "elixir", "texmf", "gconv", "locale", "terminfo", "misc", "x86_64-", "aarch64-", "arm", "i386-", "riscv", "powerpc", "s390x", "glibc-hwcaps", "gio", "gtk", "qt", "engines", "ossl-modules", "sasl2", "krb5",
}

// dangerous tells whether a changed file would reach the verifier's own programs.
func (s *stage) dangerous(p string, kind byte, target string) bool {
	at := "/" + p
	in := false
	for _, o := range append(slices.Clone(s.open), logsDir+"/artifacts") {
		in = in || below(o, at)
		if at == o && kind != tar.TypeDir {
			return true
		}
	}
	if !in || below(layerDir, at) {
		return true
	}
	if rest, ok := strings.CutPrefix(p, "etc/"); ok && !s.isWork(rest) {
		return true
	}
	if below("/var/lib/gems", at) {
		return true // Debian's Ruby takes newer versions of its own libraries from there
	}
	return kind == tar.TypeSymlink && leadsAway(at, target) || s.inPrefix(at, kind) || s.inLibraries(at)
}

// isWork tells whether a file below /etc may be somebody's work: it is named by the task, or known to be harmless.
func (s *stage) isWork(rest string) bool {
	begins := func(name string) bool { return strings.HasPrefix(rest, name) }
	first, _, _ := strings.Cut(rest, "/")
	return !slices.ContainsFunc(settings, begins) && (slices.Contains(s.etc, first) || slices.ContainsFunc(harmless, begins))
}

var etcWord = lazyregexp.New(`/etc/([A-Za-z0-9][A-Za-z0-9_.+-]*)`)

// etcNamed are the files and directories of /etc that a task's own texts name: its instructions, its tests and
// task.toml. A file that nothing can be known of is as good as none of these.
func etcNamed(dir string) (out []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open task: %w", err)
	}
	defer root.Close()
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == "environment" || p == "solution" || strings.HasPrefix(p, "steps/") && path.Base(p) == "solution" {
			return fs.SkipDir
		}
		if seen++; seen > maxListed {
			return fs.SkipAll
		}
		fi, err := d.Info()
		if err != nil || !d.Type().IsRegular() || fi.Size() > task.MaxFile {
			return err
		}
		b, err := root.ReadFile(p)
		if err != nil {
			return err
		}
		for _, m := range etcWord().FindAllSubmatch(b, maxWords) {
			if name := strings.TrimRight(string(m[1]), "."); !slices.Contains(out, name) && len(out) < maxWords {
				out = append(out, name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the task: %w", err)
	}
	return out, nil
}

func below(dir, at string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }

// leadsAway tells whether a link leads where no work stands.
func leadsAway(at, to string) bool {
	if down := strings.TrimLeft(to, "./"); strings.Contains("/"+down+"/", "/../") {
		return true // where it leads depends on other links
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(at), to)
	}
	to = path.Clean(to)
	for _, no := range []string{"/proc", "/dev", "/verifier", agentDir, testsDir, solutionDir} {
		if below(no, to) {
			return true
		}
	}
	return to == "/" || below(logsDir, to) && !strings.HasPrefix(to, logsDir+"/artifacts")
}

// inPrefix tells whether a file stands where programs of PATH would take code from
// or take it for one of them: /usr/local, and what else has a bin in PATH. There
// only programs and directories of their own names are the contestant's.
func (s *stage) inPrefix(at string, kind byte) bool {
	bins := append(filepath.SplitList(s.root.Path), localDir+"/sbin")
	for _, bin := range bins {
		prefix := path.Dir(bin)
		switch {
		case prefix == "/usr" || prefix == "/":
		case below(at, bin):
			// What leads to the programs stays what it is.
			if kind != tar.TypeDir {
				return true
			}
		case below(bin, at):
			name := at[len(bin)+1:]
			return kind == tar.TypeDir || strings.Contains(name, "/") || strings.HasSuffix(name, ".cfg") || strings.HasSuffix(name, ".txt") || s.program(name)
		case !below(prefix, at) || slices.ContainsFunc(bins, func(b string) bool { return below(b, at) || below(at, b) }):
		case below(prefix, s.dir) || prefix == homeDir:
			// The work stands in it: only what is there already, and libraries.
			if kind != tar.TypeDir && s.there(at) || at == prefix+"/pyvenv.cfg" || strings.HasPrefix(at, prefix+"/lib") && strings.Contains(at[len(prefix)+1:]+"/", "/python") {
				return true
			}
		case !s.own(prefix, at[len(prefix)+1:], kind):
			return true
		}
	}
	return false
}

// own tells whether rest, below a prefix that is not the work's, is the
// contestant's own: of a directory that the root does not have and nothing looks for.
func (s *stage) own(prefix, rest string, kind byte) bool {
	first, rest, deeper := strings.Cut(rest, "/")
	dir := prefix + "/" + first
	if first == "lib" || first == "share" || first == "src" && prefix == localDir {
		if !deeper {
			return kind == tar.TypeDir
		}
		if first, rest, deeper = strings.Cut(rest, "/"); slices.ContainsFunc(loaded, func(n string) bool { return strings.HasPrefix(first, n) }) {
			return false
		}
		dir += "/" + first
	} else if slices.Contains([]string{"bin", "sbin", "lib32", "lib64", "libexec", "include", "etc", "ssl", "conf", "jre", "pkg", "src", "site", "cargo", "rustup", "go"}, first) {
		return false
	}
	if !deeper && kind != tar.TypeDir {
		return false // a file where a loader may look
	}
	_, err := os.Lstat(filepath.Join(s.root.Dir, dir))
	return err != nil || rest == "" && kind == tar.TypeDir
}

// libraries are variables of an image that say where loaders take code from.
var libraries = []string{"LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PERL5LIB", "PERLLIB", "RUBYLIB", "NODE_PATH", "LUA_PATH", "LUA_CPATH", "CLASSPATH", "GCONV_PATH", "BASH_ENV", "ENV"}

// inLibraries tells whether a file stands in a directory that one of these names,
// unless that is the work's.
func (s *stage) inLibraries(at string) bool {
	for _, dir := range s.libs {
		if below(dir, at) && !below(s.dir, dir) && !below(dir, s.dir) {
			return true
		}
	}
	return false
}

// named are the directories and files that the variables of the boxes name to loaders.
func (s *stage) named() (out []string) {
	said := slices.Concat(s.root.Env, s.env, environOf(s.conf.Verifier.Env))
	for _, u := range s.turns {
		said = append(said, environOf(u.verifier.Env)...)
	}
	for _, e := range said {
		k, v, _ := strings.Cut(e, "=")
		if !slices.Contains(libraries, k) {
			continue
		}
		for _, dir := range strings.FieldsFunc(v, func(c rune) bool { return c == ':' || c == ';' }) {
			if dir = path.Clean(dir); path.IsAbs(dir) && dir != "/" {
				out = append(out, dir)
			}
		}
	}
	return out
}

// there tells whether the root has a file or directory, as it was made.
func (s *stage) there(at string) bool {
	_, err := os.Lstat(filepath.Join(s.root.Dir, at))
	return err == nil
}

// program tells whether a name is one of the verifier's programs.
func (s *stage) program(name string) bool {
	if _, err := fs.Stat(tools, "tools/"+name); err == nil {
		return true
	}
	for _, list := range alike {
		if slices.Contains(list, name) {
			return true
		}
	}
	for _, bin := range append(filepath.SplitList(s.root.Path), "/usr/sbin", "/sbin") {
		if _, err := os.Lstat(filepath.Join(s.root.Dir, bin, name)); err == nil {
			return true
		}
	}
	return false
}
