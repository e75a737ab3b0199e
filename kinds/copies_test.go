package kinds

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/kinds/kit"
)

func sketch(t testing.TB, files map[string]string) copycat.Sketch {
	t.Helper()
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	s, err := copycat.SketchOf(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// evasions are what was seen to slip through measures of copies, each on a
// Python script and, where it is one, on a text.
var evasions = map[string]func(src string, code bool) string{
	"zero width": func(s string, code bool) string {
		if code {
			return inStrings(s, func(x string) string { return strings.ReplaceAll(x, "e", "e\u200b") })
		}
		return strings.ReplaceAll(s, "e", "e\u200b")
	},
	"homoglyphs": func(s string, code bool) string {
		swap := strings.NewReplacer("a", "а", "e", "е", "o", "о", "p", "р", "c", "с")
		if code {
			return inStrings(s, swap.Replace)
		}
		return swap.Replace(s)
	},
	"upper case": func(s string, code bool) string {
		if code {
			return inStrings(s, strings.ToUpper)
		}
		return strings.ToUpper(s)
	},
	"blanks as underscores": func(s string, code bool) string {
		if code {
			return s + "\n"
		}
		return strings.ReplaceAll(s, " ", "_")
	},
	"base64": func(s string, code bool) string {
		b := base64.StdEncoding.EncodeToString([]byte(s))
		if code {
			return "import base64\nexec(base64.b64decode(\"" + b + "\").decode())\n"
		}
		return b
	},
	"exec": func(s string, code bool) string {
		if !code {
			return s + "."
		}
		return "exec(" + fmt.Sprintf("%q", s) + ")\n"
	},
	"dead branches": func(s string, code bool) string {
		return between(s, code, func(i int, indent string) string {
			return fmt.Sprintf("%sif False:\n%s    unused_%d = %d\n", indent, indent, i, i)
		})
	},
	"dead assignments": func(s string, code bool) string {
		return between(s, code, func(i int, indent string) string { return fmt.Sprintf("%sz%d = %d\n", indent, i%7, i) })
	},
	"annotations": func(s string, code bool) string {
		if !code {
			return s + " "
		}
		s = regexp.MustCompile(`(?m)^(\s*)(\w+) = ([^=\n]*)$`).ReplaceAllString(s, "$1$2: object = $3")
		return regexp.MustCompile(`(?m)^(\s*def \w+\([^()]*\)):`).ReplaceAllString(s, "$1 -> object:")
	},
	"swapped statements": func(s string, code bool) string {
		lines := strings.Split(s, "\n")
		plain := regexp.MustCompile(`^\s*\w+ = [^\\([{]*$|^\s+\w+ = \w+\(.*\)$`)
		for i := 0; i+1 < len(lines); i++ {
			if plain.MatchString(lines[i]) && plain.MatchString(lines[i+1]) && indentOf(lines[i]) == indentOf(lines[i+1]) {
				lines[i], lines[i+1] = lines[i+1], lines[i]
				i++
			}
		}
		if !code { // sentences: halves swapped
			h := len(lines) / 2
			lines = append(append([]string{}, lines[h:]...), lines[:h]...)
		}
		return strings.Join(lines, "\n") + "\n"
	},
	"copy and shave": func(s string, code bool) string {
		if !code {
			return s[:len(s)-len(s)/12]
		}
		return regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(strings.ReplaceAll(s, "    ", " "), "") + "\n"
	},
	"one word of a text": func(s string, _ bool) string { return strings.Replace(s, "the", "this", 1) + "\n" },
	"renamed": func(s string, code bool) string {
		if !code {
			return s + "\n"
		}
		names := regexp.MustCompile(`(?m)^\s*(\w+) = `).FindAllStringSubmatch(s, -1)
		for i, n := range names {
			if len(n[1]) > 3 && n[1] != "agent_main" {
				s = regexp.MustCompile(`([^.\w"'])`+n[1]+`\b`).ReplaceAllString(s, fmt.Sprintf("${1}v%d", i))
			}
		}
		return s
	},
}

func indentOf(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " "))] }

// inStrings changes what stands between double quotes of a line.
func inStrings(s string, f func(string) string) string {
	re := regexp.MustCompile(`"[^"\\{}%]{6,}"`)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.Count(l, `"`) == 2 && !strings.ContainsAny(l, "'#/") {
			lines[i] = re.ReplaceAllStringFunc(l, func(q string) string { return `"` + f(q[1:len(q)-1]) + `"` })
		}
	}
	return strings.Join(lines, "\n")
}

// between puts something after every line that ends a simple statement.
func between(s string, code bool, what func(i int, indent string) string) string {
	if !code {
		return s + "\nNothing more is meant.\n"
	}
	whole := regexp.MustCompile(`^\s*[\w.]+ = [^\\([{"']*$|^\s+[\w.]+ = [\w.]+\([^()]*\)$`)
	var b strings.Builder
	for i, l := range strings.Split(s, "\n") {
		b.WriteString(l + "\n")
		if whole.MatchString(l) {
			b.WriteString(what(i, indentOf(l)))
		}
	}
	return b.String()
}

// originals are the samples of all kinds whose files are long enough to copy.
func originals(t testing.TB) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, k := range All() {
		if k.Data == nil {
			continue
		}
		for _, s := range k.Samples {
			files, err := kit.SampleFiles(k.Data, s.Name)
			if err != nil {
				continue
			}
			m, total := map[string]string{}, 0
			for name, b := range files {
				m[name] = string(b)
				total += len(b)
			}
			if total > 1500 {
				out[k.Kind+"/"+s.Name] = m
			}
		}
	}
	if len(out) < 5 {
		t.Fatalf("only %d samples", len(out))
	}
	return out
}

// What the findings say evades copies is clustered with what it was made of.
func TestEvasionsAreClustered(t *testing.T) {
	for name, files := range originals(t) {
		x := copycat.NewIndex()
		x.Add(name, sketch(t, files))
		for how, change := range evasions {
			changed, differs := map[string]string{}, false
			for p, text := range files {
				ext := path.Ext(p)
				changed[p] = text
				if ext == ".py" || ext == ".md" || ext == ".txt" {
					changed[p] = change(text, ext == ".py")
				}
				if ext == ".py" && copycat.CheckPython(changed[p]) != nil {
					t.Fatalf("%s, %s: the change is not Python: %v", name, how, copycat.CheckPython(changed[p]))
				}
				differs = differs || changed[p] != text
			}
			if !differs {
				continue
			}
			if m, ok := x.Nearest(sketch(t, changed)); !ok {
				c, j := copycat.Overlap(sketch(t, files), sketch(t, changed), nil)
				t.Errorf("%s, %s: not clustered (contained %.2f, jaccard %.2f)", name, how, c, j)
			} else if m.ID != name {
				t.Errorf("%s, %s: %+v", name, how, m)
			}
		}
	}
}

// Different samples of the same kind, which share its way of asking, are not
// taken for copies.
func TestSamplesAreNoCopies(t *testing.T) {
	all := originals(t)
	pairs := 0
	for a, x := range all {
		i := copycat.NewIndex()
		i.Add(a, sketch(t, x))
		for b, y := range all {
			if a == b || strings.Contains(a+b, "near-copy") {
				continue
			}
			pairs++
			if m, ok := i.Nearest(sketch(t, y)); ok {
				t.Errorf("%s is taken for a copy of %s: %+v", b, a, m)
			}
		}
	}
	t.Logf("%d pairs of unrelated samples", pairs)
}

// Unrelated Python of this machine, where there is some, is not clustered.
func TestUnrelatedPythonIsNoCopy(t *testing.T) {
	list, _ := filepath.Glob("/usr/lib/python3*/[a-z]*.py")
	if len(list) < 50 {
		t.Skip("no Python library here")
	}
	x := copycat.NewIndex()
	wrong := 0
	for _, p := range list {
		b, err := os.ReadFile(p)
		if err != nil || len(b) < 1500 || len(b) > 200_000 {
			continue
		}
		s := sketch(t, map[string]string{"agent.py": string(b)})
		if m, ok := x.Nearest(s); ok {
			wrong++
			t.Logf("%s is like %+v", p, m)
		}
		x.Add(p, s)
	}
	t.Logf("%d of %d modules were clustered", wrong, x.Len())
	if wrong*100 > x.Len() {
		t.Errorf("%d of %d", wrong, x.Len())
	}
}

// Real submissions of others, where AGON_SUBMISSIONS names a folder of files
// AUTHOR__NAME: works of different authors are not clustered.
func TestRealSubmissions(t *testing.T) {
	dir := os.Getenv("AGON_SUBMISSIONS")
	if dir == "" {
		t.Skip("AGON_SUBMISSIONS names no folder")
	}
	list, err := filepath.Glob(filepath.Join(dir, "*__*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no files AUTHOR__NAME in %s: %v", dir, err)
	}
	type work struct {
		author string
		index  *copycat.Index
		sketch copycat.Sketch
	}
	var works []work
	for _, p := range list {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		author, _, _ := strings.Cut(filepath.Base(p), "__")
		w := work{author, copycat.NewIndex(), sketch(t, map[string]string{"agent" + path.Ext(p): string(b)})}
		w.index.Add(filepath.Base(p), w.sketch)
		works = append(works, w)
	}
	var pairs, like, own, ownLike int
	for i, x := range works {
		for _, y := range works[:i] {
			m, ok := y.index.Nearest(x.sketch)
			switch {
			case x.author == y.author:
				own++
				if ok {
					ownLike++
				}
				continue
			case ok:
				like++
				t.Logf("%s is like %+v", filepath.Base(list[i]), m)
			}
			pairs++
		}
	}
	t.Logf("%d of %d pairs of different authors are clustered, %d of %d of one", like, pairs, ownLike, own)
}

// BenchmarkCluster compares one entry with ten thousand.
func BenchmarkCluster(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	x := copycat.NewIndex()
	words := strings.Fields("score price find query result item best order list shop rank title text claim source verdict note page model reply call tool step plan state cost")
	agent := func() copycat.Sketch {
		var s strings.Builder
		for i := range 200 {
			w := func() string { return words[r.IntN(len(words))] }
			fmt.Fprintf(&s, "%s_%d = %s(%s.%s, %s=%d) + %s[%q]\n", w(), i, w(), w(), w(), w(), r.IntN(50), w(), w()+" "+w())
		}
		return sketch(b, map[string]string{"agent.py": s.String()})
	}
	for i := range 10_000 {
		x.Add(fmt.Sprint(i), agent())
	}
	one := agent()
	start := time.Now()
	for b.Loop() {
		x.Nearest(one)
	}
	b.ReportMetric(time.Since(start).Seconds()/float64(b.N), "s/entry")
}
