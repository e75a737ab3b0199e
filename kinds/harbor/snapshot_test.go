package harbor

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/sandbox"
)

// What differs in one box, names and links of any kind, lies in another afterwards, and nothing else.
func TestSnapshotBringsAllThatDiffers(t *testing.T) {
	base := t.TempDir()
	for name, text := range map[string]string{"same": "1", "changed": "1", "gone": "1", "was-dir/x": "1", "was-file": "1"} {
		p := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, start := snapshotBoxes(t, base)
	agent, verifier := start(), start()
	before, why, err := s.look(t.Context(), agent, nil, 0)
	if err != nil || why != "" {
		t.Fatal(why, err)
	}
	long := strings.Repeat("n", 120)
	if err := prepare(t.Context(), agent, "cd "+s.dir+`
printf 22 > changed; rm gone; rm -r was-dir; printf 3 > was-dir; rm was-file; mkdir was-file; printf 4 > was-file/in
mkdir -p `+long+`/deep; printf 5 > `+long+`/deep/`+long+`; printf 6 > 'ä
b'; ln -s `+long+`/`+long+` far; ln -s same near; mkfifo pipe
head -c 3000000 /dev/zero > large; : > empty; chmod 751 changed; touch -d @1234567890 changed; touch -d @-5 empty
printf 7 > "$(printf 'not\377text')"`); err != nil {
		t.Fatal(err)
	}
	work, why, err := s.look(t.Context(), agent, before, maxWork)
	if err != nil || why != "" {
		t.Fatal(why, err)
	}
	names := map[string]bool{}
	for r := tar.NewReader(bytes.NewReader(work)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		names[h.Name] = true
	}
	if names["app/same"] || names["app/pipe"] || !names["app/far"] || len(names) != 13 {
		t.Errorf("%d files: %v", len(names), names)
	}
	clean, dropped, err := s.cleaned(work, false)
	if err != nil || len(dropped) != 0 {
		t.Fatal(dropped, err)
	}
	if err := s.replay(t.Context(), verifier, clean); err != nil {
		t.Fatal(err)
	}
	list := func(box sandbox.Box) string {
		var out bytes.Buffer
		x, err := box.Exec(t.Context(), sandbox.Cmd{Dir: s.dir, Stdout: &out, Args: []string{
			"bash", "-c",
			`find . ! -type p ! -name 'not*' | LC_ALL=C sort | while read -r p; do echo "$p $(readlink "$p")"; done; stat -c '%a %Y' changed; cat changed was-dir was-file/in ` + long + "/deep/" + long + " ä*; md5sum large empty",
		}})
		if err != nil || x.Code != 0 {
			t.Fatal(x, err, out.String())
		}
		return out.String()
	}
	if a, b := list(agent), list(verifier); a != b || !strings.Contains(b, "751 1234567890\n223456") {
		t.Errorf("the verifier's box has\n%s\nwhere the agent left\n%s", b, a)
	}
	if again, _, _ := s.look(t.Context(), agent, before, len(work)/2); again != nil {
		t.Error("more than its room was read")
	}
}
