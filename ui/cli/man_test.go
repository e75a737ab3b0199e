package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command that people see has a page of known requests only.
func TestManPages(t *testing.T) {
	a, _, errOut := newApp(t)
	dir := t.TempDir()
	if code := a.Main(t.Context(), []string{"man", dir}); code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	known := regexp.MustCompile(`^\.(TH|SH|B|BR|TP|PP|nf|fi)[ \n]`)
	n := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		n++
		b, err := os.ReadFile(filepath.Join(dir, manName(c)+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		for _, part := range []string{".SH NAME\n" + troff(manName(c)+" - "), ".SH SYNOPSIS\n", ".SH EXAMPLES\n"} {
			if !strings.Contains(string(b), part) {
				t.Errorf("%s: no %q", c.CommandPath(), part)
			}
		}
		for l := range strings.Lines(string(b)) {
			if strings.HasPrefix(l, "'") || (strings.HasPrefix(l, ".") && !known.MatchString(l)) {
				t.Errorf("%s: a request that is none: %q", c.CommandPath(), l)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.root())
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != n || n < 80 {
		t.Errorf("%d pages of %d commands, %v", len(files), n, err)
	}
}

func TestTroff(t *testing.T) {
	for in, want := range map[string]string{
		"a.b\n.so /etc/passwd\n'x": "a.b\n\\&.so /etc/passwd\n\\&'x",
		`\fB -x`:                   `\efB \-x`,
	} {
		if got := troff(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
