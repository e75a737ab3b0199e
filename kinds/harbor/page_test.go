package harbor

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/ui/web"
)

// archiveOf is what snapshot.py writes of files that differ; content "->x" is a link.
func archiveOf(t *testing.T, gone string, files ...[2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range append([][2]string{{".agon/deleted", gone}}, files...) {
		h := &tar.Header{Name: f[0], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f[1]))}
		if to, ok := strings.CutPrefix(f[1], "->"); ok {
			h.Typeflag, h.Linkname, h.Size, f[1] = tar.TypeSymlink, to, 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A run's page names the files that an agent added, changed, deleted and linked,
// with the begin of texts; what it wrote stays text.
func TestRunPage(t *testing.T) {
	evil := "<script>\x1b[31m\u202e"
	n := workOf(turn{name: "first", instruction: "Write <b>one</b> file.\x1b[2J"}, listed("/app/old\x00644 1 1\x00/app/gone\x00644 1 1\x00"), archiveOf(t, `["/app/gone"]`,
		[2]string{"app/old", "new words"}, [2]string{"app/" + evil, strings.Repeat("é", maxLeftHead)}, [2]string{"app/bin", "a\x00b"}, [2]string{"app/ln", "->/etc/passwd"}))
	want := []leftFile{
		{Path: "/app/gone", How: "deleted"},
		{Path: "/app/old", How: "changed", Size: 9, Head: "new words"},
		{Path: "/app/" + evil, How: "added", Size: 2 * maxLeftHead, Cut: true},
		{Path: "/app/bin", How: "added", Size: 3},
		{Path: "/app/ln", How: "link", To: "/etc/passwd"},
	}
	for i := range want {
		got := n.Files[i]
		if i == 2 {
			if got.Head != strings.Repeat("é", maxLeftHead/2) {
				t.Errorf("head of %d bytes", len(got.Head))
			}
			got.Head, got.Path = "", want[i].Path
		}
		if got != want[i] {
			t.Errorf("%+v, want %+v", got, want[i])
		}
	}
	b, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	data := page().RunData(t.Context(), web.RunView{Events: []agon.Event{{Type: agon.EventNote, Data: json.RawMessage(`{"withheld":true}`)}, {Type: agon.EventNote, Data: b}}})
	got, err := page().RenderRun(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"What was asked", "Write &lt;b&gt;one&lt;/b&gt; file.", "After step first", "deleted", "new words", "8.0 KB", "/etc/passwd"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	for _, no := range []string{"<script", "\x1b", "\u202e"} {
		if strings.Contains(got, no) {
			t.Errorf("%q is in the page", no)
		}
	}
	if v := page().RunData(t.Context(), web.RunView{Events: []agon.Event{{Type: agon.EventNote, Data: json.RawMessage(`{"withheld":true}`)}}}); v != nil {
		t.Errorf("of a hidden task there is %v", v)
	}
}

// What an agent leaves is bounded, and what cannot be read is said.
func TestWorkBounds(t *testing.T) {
	var files [][2]string
	for i := range 3 * maxLeftFiles {
		files = append(files, [2]string{fmt.Sprintf("app/%03d", i), strings.Repeat("x", maxLeftHead)})
	}
	whole := archiveOf(t, "[]", files...)
	n := workOf(turn{}, nil, whole)
	heads := 0
	for _, f := range n.Files {
		heads += len(f.Head)
	}
	if len(n.Files) != maxLeftFiles || n.More != 2*maxLeftFiles || heads > maxLeftHeads+maxLeftHead || n.Broken {
		t.Errorf("%d files and %d more with %d bytes, broken %v", len(n.Files), n.More, heads, n.Broken)
	}
	if n = workOf(turn{}, nil, whole[:len(whole)/2+700]); !n.Broken || len(n.Files) == 0 {
		t.Errorf("of half an archive: %d files, broken %v", len(n.Files), n.Broken)
	}
}

// An agent in a real box: the note names what it wrote, and its output has times.
func TestNoteOfARealRun(t *testing.T) {
	looked := false
	for _, a := range kittest.Play(t, Kit(), kittest.Files{agentFile: "import os\ndef agent_main(input):\n    open('made-by-agent', 'w').write('hello from the box')\n    print('printed')\n"}) {
		if looked {
			continue // one task is enough
		}
		looked = true
		var note workNote
		marks := 0
		for _, e := range a.Events() {
			switch e.Type {
			case agon.EventNote:
				var n workNote
				if json.Unmarshal(e.Data, &n) == nil && n.Text == noteWork {
					note = n
				}
			case agon.EventOutput:
				var o struct{ Marks [][2]int64 }
				if json.Unmarshal(e.Data, &o) == nil {
					marks += len(o.Marks)
				}
			}
		}
		found := false
		for _, f := range note.Files {
			found = found || strings.HasSuffix(f.Path, "/made-by-agent") && f.How == "added" && f.Head == "hello from the box"
		}
		if !found || marks == 0 || note.Asked == "" {
			t.Errorf("note %+v, %d marks", note, marks)
		}
	}
}
