package copycat

import (
	"cmp"
	"encoding/base64"
	bin "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/agon-arena/agon"
)

// A Sketch is what is compared of a submission: the shapes of its statements and
// the runs of words of its texts, as hashes with weights. Neither names, layout
// and annotations move it, nor the order of statements, nor what is inserted
// between them; characters that look alike are alike, and code in a string that
// is run, also in base64, counts as code.
type Sketch struct {
	Exact  agon.Digest // of all files
	Prints []Print     // by hash, without repeats
	Weight float64     // of all prints together
}

// Print is one thing that is compared.
type Print struct {
	Hash   uint64
	Weight float32
}

// Bounds of a sketch.
const (
	maxSketchFile  = 1 << 20 // bytes that are read of a file
	maxSketchBytes = 4 << 20 // of all
	maxPrints      = 20_000
	maxNested      = 3  // code in strings in code
	minNested      = 24 // bytes of a string that may be code
	textRun        = 5  // words of one print of a text
	minStatement   = 4  // nodes of a statement that says something
	sizeOfPrint    = 12 // bytes in AppendBinary
)

// SketchOf reads files. It never fails: what is not Python is text.
func SketchOf(files fs.FS) (Sketch, error) {
	k := sketcher{prints: map[uint64]float32{}}
	var all strings.Builder
	total := 0
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := files.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, int64(min(maxSketchFile, maxSketchBytes-total))))
		if err != nil {
			return fmt.Errorf("read %s: %w", p, err)
		}
		total += len(b)
		fmt.Fprintf(&all, "%d %s %s\n", len(p), p, agon.Sum(b))
		k.file(p, string(b))
		return nil
	})
	if err != nil {
		return Sketch{}, err
	}
	s := k.sketch()
	s.Exact = agon.Sum([]byte(all.String()))
	return s, nil
}

type sketcher struct{ prints map[uint64]float32 }

func (k *sketcher) add(weight float32, parts ...string) {
	if len(k.prints) >= maxPrints {
		return
	}
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	k.prints[h.Sum64()] = weight
}

func (k *sketcher) sketch() Sketch {
	s := Sketch{Prints: make([]Print, 0, len(k.prints))}
	for h, w := range k.prints {
		s.Prints = append(s.Prints, Print{h, w})
	}
	slices.SortFunc(s.Prints, func(a, b Print) int { return cmp.Compare(a.Hash, b.Hash) })
	for _, p := range s.Prints {
		s.Weight += float64(p.Weight)
	}
	return s
}

func (k *sketcher) file(name, text string) {
	if path.Ext(name) == ".py" && k.python(text, 0) {
		return
	}
	switch path.Ext(name) {
	case ".json":
		if k.json(text) {
			return
		}
		fallthrough
	case ".toml", ".yaml", ".yml": // texts in their strings
		text = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`).Replace(text)
	case ".diff", ".patch": // what is added, as code where it is some
		var added []string
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, "+") && !strings.HasPrefix(l, "+++") {
				added = append(added, strings.TrimSpace(l[1:]))
			}
		}
		for _, l := range added {
			k.line(l)
		}
		return
	}
	k.text(text, 0)
}

// json takes the strings of a document as what they say, however they are escaped;
// false: it is none.
func (k *sketcher) json(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var list []string
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false
		}
		if s, ok := t.(string); ok {
			list = append(list, s)
		}
	}
	for _, s := range list {
		k.text(s, 0)
	}
	return true
}

// line takes one line of code out of its place: its tokens without names.
func (k *sketcher) line(l string) {
	tokens, err := Tokens(l)
	if err != nil || len(tokens) < minStatement {
		if f := Fold(l); len(f) > 8 {
			k.add(2, "line", f)
		}
		return
	}
	parts := []string{"tokens"}
	for i, t := range tokens {
		switch {
		case t.Kind == TokenNumber:
			parts = append(parts, "0")
		case t.Kind == TokenName && !isKeyword(t.Text) && (i == 0 || tokens[i-1].Text != "."):
			parts = append(parts, "n")
		default:
			parts = append(parts, Fold(t.Text))
		}
	}
	k.add(float32(len(tokens)-minStatement+1), parts...)
}

// python takes a module's statements; false: it is not Python.
func (k *sketcher) python(src string, depth int) bool {
	mod, err := parsePython(clean(src))
	if err != nil {
		return false
	}
	k.block(mod.kids, depth)
	return true
}

func (k *sketcher) block(list []*node, depth int) {
	for _, n := range list {
		if n.op == "block" {
			k.block(n.kids, depth)
			continue
		}
		if doc := docstring(n); doc != "" {
			k.text(doc, depth)
			continue
		}
		if padding(n) || n.is("import", "from") {
			continue // the same in all agents
		}
		x := shaper{k: k, depth: depth}
		x.node(n)
		if x.n >= minStatement {
			k.add(float32(x.n-minStatement+1), "statement", x.b.String())
		}
		for _, b := range x.blocks {
			k.block(b.kids, depth)
		}
	}
}

func docstring(n *node) string {
	if n.op == "expr" && n.kids[0].op == "str" {
		return n.kids[0].str
	}
	return ""
}

// shaper writes the shape of one statement, without the blocks that it has.
type shaper struct {
	k      *sketcher
	b      strings.Builder
	n      int // nodes
	depth  int
	blocks []*node
}

func (x *shaper) word(s string) {
	x.b.WriteString(s)
	x.b.WriteByte(' ')
}

func (x *shaper) node(n *node) {
	if n == nil || n == none {
		return
	}
	switch n.op {
	case "block":
		x.blocks = append(x.blocks, n)
		return
	case "param", "posonly", "kwonly", "vararg", "kwarg": // without its annotation
		x.n++
		x.word(n.op)
		if len(n.kids) > 1 {
			x.node(n.kids[1])
		}
		return
	case "def", "asyncdef": // without decorators and the annotation of what it returns
		x.n++
		x.word(n.op)
		x.node(n.kids[1])
		x.node(n.kids[3])
		return
	case "ann": // an assignment, if it has a value
		if n.kids[2] == none {
			return
		}
		x.n++
		x.word("assign")
		x.node(n.kids[2])
		x.node(n.kids[0])
		x.b.WriteByte(')')
		return
	case "str", "bytes":
		x.n++
		x.word("str")
		if x.k.nested(n.str, x.depth) {
			return
		}
		if words := Words(n.str); len(words) >= textRun {
			x.k.text(n.str, x.depth)
		} else {
			x.word(strings.Join(words, "_"))
		}
		return
	case "num":
		x.n++
		x.word("num")
		return
	case "name", "ident", "walrus", "pcapture", "pas", "global", "nonlocal":
		x.n++
		x.word("n")
	case "attr", "kw", "const", "op", "bin", "unary", "aug", "bool":
		x.n++
		x.word(n.op + ":" + n.str)
	default:
		x.n++
		x.word(n.op)
	}
	for _, c := range n.kids {
		x.node(c)
	}
	x.b.WriteByte(')')
}

// nested takes a string that is code, perhaps in base64.
func (k *sketcher) nested(s string, depth int) bool {
	if depth >= maxNested || len(s) < minNested {
		return false
	}
	if code := strings.ContainsAny(s, "\n;=("); code && strings.ContainsAny(s, "=(") && k.python(s, depth+1) {
		return true
	}
	compact := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding} {
		if b, err := enc.DecodeString(compact); err == nil && printable(b) {
			if !k.python(string(b), depth+1) {
				k.text(string(b), depth+1)
			}
			return true
		}
	}
	return false
}

func printable(b []byte) bool {
	odd := 0
	for _, r := range string(b) {
		if r == unicode.ReplacementChar || unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			odd++
		}
	}
	return odd*20 < len(b)
}

// text takes runs of words; words in base64 as what they say.
func (k *sketcher) text(s string, depth int) {
	words := Words(s)
	if len(words) <= 3 && depth < maxNested && k.nested(strings.TrimSpace(s), depth) {
		return
	}
	if len(words) < textRun {
		if len(words) > 1 {
			k.add(1, append([]string{"words"}, words...)...)
		}
		return
	}
	for i := 0; i+textRun <= len(words); i++ {
		k.add(1, append([]string{"run"}, words[i:i+textRun]...)...)
	}
}

// Words are the words of a text as Fold spells them, without what stands between them.
func Words(s string) []string {
	return strings.FieldsFunc(Fold(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// Fold spells alike what looks alike: compatible forms, letters of other scripts
// that look Latin, upper case; characters that are not seen are dropped.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		if l, ok := lookalikes[r]; ok {
			return l
		}
		return unicode.ToLower(r)
	}, clean(norm.NFKD.String(s)))
}

// clean drops what is not seen: format characters, variation selectors, marks.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r > 127 && (unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Co, r)) {
			return -1
		}
		return r
	}, s)
}

// lookalikes are the letters of Cyrillic, Greek and others that are mistaken for
// Latin ones, by Unicode's table of confusables.
var lookalikes = func() map[rune]rune {
	m := map[rune]rune{}
	from := []rune("асԁеһіјӏопрԛгѕтԝхуɑαβϲεηικνορτυωχγАВСЕНІЈКМОРԚЅТԜХУΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɡʟոսցօ")
	to := []rune("acdehijlonpqrstwxyaabcenikvoptuwxyABCEHIJKMOPQSTWXYABEZHIKMNOPTYXiglnugo")
	for i, r := range from {
		m[r] = unicode.ToLower(to[i])
	}
	return m
}()

// Overlap is how much two sketches share: by the smaller one (what is contained
// in the other, so that additions do not hide it), and by both together. common
// prints are left out; nil: there are none.
func Overlap(a, b Sketch, common map[uint64]bool) (contained, jaccard float64) {
	var both, wa, wb float64
	i, j := 0, 0
	for i < len(a.Prints) || j < len(b.Prints) {
		switch {
		case j == len(b.Prints) || i < len(a.Prints) && a.Prints[i].Hash < b.Prints[j].Hash:
			if !common[a.Prints[i].Hash] {
				wa += float64(a.Prints[i].Weight)
			}
			i++
		case i == len(a.Prints) || a.Prints[i].Hash > b.Prints[j].Hash:
			if !common[b.Prints[j].Hash] {
				wb += float64(b.Prints[j].Weight)
			}
			j++
		default:
			if !common[a.Prints[i].Hash] {
				w := float64(a.Prints[i].Weight)
				wa, wb, both = wa+w, wb+float64(b.Prints[j].Weight), both+w
			}
			i, j = i+1, j+1
		}
	}
	if least := min(wa, wb); least > 0 {
		contained = both / least
	}
	if any := wa + wb - both; any > 0 {
		jaccard = both / any
	}
	return min(1, contained), min(1, jaccard)
}

// AppendBinary writes a sketch.
func (s Sketch) AppendBinary(b []byte) ([]byte, error) {
	b = bin.AppendUvarint(b, uint64(len(s.Exact)))
	b = append(b, s.Exact...)
	for _, p := range s.Prints {
		b = bin.LittleEndian.AppendUint64(b, p.Hash)
		b = bin.LittleEndian.AppendUint32(b, math.Float32bits(p.Weight))
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary wrote.
func (s *Sketch) UnmarshalBinary(b []byte) error {
	n, w := bin.Uvarint(b)
	if w <= 0 || n > 100 || int(n) > len(b)-w {
		return errors.New("sketch: its digest is cut off")
	}
	*s = Sketch{Exact: agon.Digest(b[w : w+int(n)])}
	b = b[w+int(n):]
	if len(b)%sizeOfPrint != 0 || len(b)/sizeOfPrint > maxPrints {
		return fmt.Errorf("sketch: %d bytes of prints", len(b))
	}
	for ; len(b) > 0; b = b[sizeOfPrint:] {
		p := Print{bin.LittleEndian.Uint64(b), math.Float32frombits(bin.LittleEndian.Uint32(b[8:]))}
		if !(p.Weight > 0 && p.Weight <= 1e6) || len(s.Prints) > 0 && s.Prints[len(s.Prints)-1].Hash >= p.Hash {
			return errors.New("sketch: prints are not in order, or weigh nothing")
		}
		s.Prints = append(s.Prints, p)
		s.Weight += float64(p.Weight)
	}
	return nil
}

// Behaviour is the share of the tasks that both have played on which two
// submissions did the same: the same requests to models and tools, in the same
// order, as the gateway wrote them down. Tasks without a request say nothing.
func Behaviour(a, b map[string][]string) (same float64, tasks int) {
	n := 0
	for task, x := range a {
		y, ok := b[task]
		if !ok || len(x) == 0 && len(y) == 0 {
			continue
		}
		tasks++
		if slices.Equal(x, y) {
			n++
		}
	}
	if tasks == 0 {
		return 0, 0
	}
	return float64(n) / float64(tasks), tasks
}
