package copycat

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

func sketchOf(t testing.TB, name, text string) Sketch {
	t.Helper()
	s, err := SketchOf(fstest.MapFS{name: &fstest.MapFile{Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const patch = `--- a/codec.py
+++ b/codec.py
@@ -1,3 +1,9 @@
+def encode(data, level):
+    table = build_table(data, level=9, window=WINDOW)
+    out = bytearray(struct.pack("<I", len(data)))
+    for token, count in table.most_common(MAX_TOKENS):
+        out += put_token(token, count, width=table.width)
+    return bytes(out) + zlib.compress(table.rest, 9)
`

// A patch that is shaved and renamed is like its parent, another is not.
func TestPatches(t *testing.T) {
	x := NewIndex()
	x.Add("leader", sketchOf(t, "p.diff", patch))
	shaved := strings.NewReplacer("table", "tb", "    ", " ", "level=9", "level=8").Replace(patch)
	if m, ok := x.Nearest(sketchOf(t, "p.diff", shaved)); !ok || m.ID != "leader" {
		t.Errorf("%+v", m)
	}
	other := strings.NewReplacer("build_table(data, level=9, window=WINDOW)", "sorted(set(data))", "struct.pack(\"<I\", len(data))", "b''", "most_common(MAX_TOKENS)", "items()",
		"put_token(token, count, width=table.width)", "token", "zlib.compress(table.rest, 9)", "lzma.compress(data)").Replace(patch)
	if m, ok := x.Nearest(sketchOf(t, "p.diff", other)); ok {
		t.Errorf("another patch is %+v", m)
	}
	if m, ok := x.Nearest(sketchOf(t, "p.diff", patch)); !ok || m.Measure != MeasureExact {
		t.Errorf("%+v", m)
	}
}

// What everybody is given makes nobody a copy.
func TestCommons(t *testing.T) {
	template := strings.Repeat("def step(x):\n    return call_model(x.question, temperature=0.1, limit=x.limit)\n", 1)
	for i := range 20 {
		template += "value_" + string(rune('a'+i)) + " = load(\"" + strings.Repeat(string(rune('a'+i)), 4) + "\").field_" + string(rune('a'+i)) + "\n"
	}
	own := func(c string) string {
		return template + "answer = think(" + strings.Repeat("x."+c+"(1) + ", 2) + "0)\nresult = post_" + c + "(answer, key=\"" + c + "\")\n"
	}
	free, bound := NewIndex(sketchOf(t, "agent.py", template)), NewIndex()
	for _, x := range []*Index{free, bound} {
		x.Add("a", sketchOf(t, "agent.py", own("plan")))
	}
	if m, ok := free.Nearest(sketchOf(t, "agent.py", own("vote"))); ok {
		t.Errorf("%+v", m)
	}
	if _, ok := bound.Nearest(sketchOf(t, "agent.py", own("vote"))); !ok {
		t.Error("without commons the template decides, as it should here")
	}
}

func TestMeasures(t *testing.T) {
	if Fold("Ｐаypal\u200b\u00ad É") != "paypal e" {
		t.Errorf("%q", Fold("Ｐаypal\u200b\u00ad É"))
	}
	text := strings.Repeat("answer the mail, then book the room and tell Petra about it. ", 12) + "Use the calendar before you promise anything to anybody."
	if c := Compressed(text, "Intro. "+text+" Thanks."); c < 0.8 {
		t.Errorf("a copy with a frame: %v", c)
	}
	if c := Compressed(text, "Quite another policy that sorts invoices by due date, flags duplicates and writes a summary for the controller."); c > 0.5 {
		t.Errorf("unrelated: %v", c)
	}
	a := map[string][]string{"1": {"x", "y"}, "2": {"z"}, "3": nil}
	if same, n := Behaviour(a, map[string][]string{"1": {"x", "y"}, "2": {"w"}, "3": nil, "4": {"q"}}); same != 0.5 || n != 2 {
		t.Errorf("%v of %d", same, n)
	}
}

func TestSketchBinary(t *testing.T) {
	s := sketchOf(t, "p.diff", patch)
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var back Sketch
	if err := back.UnmarshalBinary(b); err != nil || back.Exact != s.Exact || len(back.Prints) != len(s.Prints) || math.Abs(back.Weight-s.Weight) > 1e-6 || len(s.Prints) < 5 {
		t.Errorf("%v: %+v", err, back)
	}
	for _, bad := range [][]byte{nil, {200}, b[:len(b)-1], append(append([]byte{}, b...), b[len(b)-12:]...)} {
		if err := back.UnmarshalBinary(bad); err == nil {
			t.Errorf("%d bytes are a sketch", len(bad))
		}
	}
}

func FuzzSketch(f *testing.F) {
	f.Add("agent.py", "x = 1\nexec(\"y = f(2)\\nz = g(y)\\n\")\n", []byte{0})
	f.Add("p.diff", patch, []byte{1, 'x'})
	f.Add("a.json", `{"a": "b\nc"}`, []byte("\x00123456789012"))
	f.Fuzz(func(t *testing.T, name, text string, b []byte) {
		k := sketcher{prints: map[uint64]float32{}}
		k.file(name, text)
		s := k.sketch()
		out, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		var back Sketch
		if err := back.UnmarshalBinary(out); err != nil {
			t.Errorf("%v", err)
		}
		_ = back.UnmarshalBinary(b)
	})
}
