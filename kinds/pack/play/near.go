package play

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/pack/ncd"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// maxTexts bounds how many prepared texts are remembered.
const maxTexts = 20_000

// Codes of exclusions.
const (
	CodeIntegrity = "integrity_failed"
	CodeNearCopy  = "near_copy"
)

// Refused begins the reason of a pack that is refused by its text.
const Refused = "refused before play: "

// broken says which rules a pack breaks.
func broken(flags []Flag) string {
	var names []string
	for _, f := range flags {
		if !slices.Contains(names, f.Type) {
			names = append(names, f.Type)
		}
	}
	s := strings.ReplaceAll(strings.Join(names, ", "), "_", " ")
	if len(names) == 1 {
		return Refused + "it breaks a rule: " + s
	}
	return fmt.Sprintf("%sit breaks %d rules: %s", Refused, len(names), s)
}

// Gate refuses packs with plain signs of gaming, and finds the earliest
// submission whose policy a pack copies. A model's integrity verdict comes with
// the first run; this needs none.
func (k *Kind) Gate(a *agon.Arena, files fs.FS, earlier []agon.Submission, read func(agon.Digest) (fs.FS, error)) (*kind.Exclusion, error) {
	p, _, err := readPack(files)
	if err != nil || p == nil {
		return nil, err
	}
	if flags := Signs(p); Refuses(flags) {
		return &kind.Exclusion{Code: CodeIntegrity, Refused: true, Message: broken(flags)}, nil
	}
	text, ok := p.Policy()
	if !ok {
		return nil, nil
	}
	k.mu.Lock() // a comparer serves one at a time
	defer k.mu.Unlock()
	if k.comp == nil {
		k.comp = ncd.NewComparer()
	}
	late := k.comp.Prepare(text)
	for _, s := range earlier {
		old, err := k.text(s.Digest, read)
		if err != nil {
			return nil, fmt.Errorf("compare with submission %s: %w", s.ID, err)
		}
		if old == nil {
			continue
		}
		similarity, _, reached := k.comp.Similar(old, late, ncd.NCDThreshold)
		message := fmt.Sprintf("its policy is a copy of that of submission %s: similarity %.3f, the bound is %.2f", s.ID, similarity, ncd.NCDThreshold)
		if !reached && a != nil && a.Options[OptionCopies] == CopiesStrict {
			why, how, err := k.strict(s.Digest, p, read)
			if err != nil {
				return nil, err
			}
			if why != "" {
				reached, similarity = true, how
				message = fmt.Sprintf("it is a copy of submission %s by the stricter measures: %s", s.ID, why)
			}
		}
		if reached {
			return &kind.Exclusion{Code: CodeNearCopy, Of: s.ID, Similarity: similarity, Message: message}, nil
		}
	}
	return nil, nil
}

// text returns the prepared policy of an earlier submission; nil where it has none.
func (k *Kind) text(d agon.Digest, read func(agon.Digest) (fs.FS, error)) (*ncd.Text, error) {
	if t, ok := k.texts[d]; ok {
		return t, nil
	}
	files, err := read(d)
	if err != nil {
		return nil, err
	}
	p, _, err := readPack(files)
	if err != nil {
		return nil, err
	}
	var t *ncd.Text
	if p != nil {
		if text, ok := p.Policy(); ok {
			t = k.comp.Prepare(text)
		}
	}
	if len(k.texts) >= maxTexts {
		clear(k.texts) // they are prepared again
	}
	k.texts[d] = t
	return t, nil
}

// strict is StrictCopy of an earlier submission.
func (k *Kind) strict(d agon.Digest, late *packfile.Pack, read func(agon.Digest) (fs.FS, error)) (why string, similarity float64, err error) {
	files, err := read(d)
	if err != nil {
		return "", 0, err
	}
	old, _, err := readPack(files)
	if err != nil || old == nil {
		return "", 0, err
	}
	why, similarity = StrictCopy(k.comp, old, late)
	return why, similarity, nil
}

// StrictCopy says by which measures beyond the compression distance a later pack is a
// copy of an earlier one, and how similar it is; "": it is none.
func StrictCopy(k *ncd.Comparer, earlier, later *packfile.Pack) (why string, similarity float64) {
	before, _ := earlier.Policy()
	after, _ := later.Policy()
	m := k.Measure(before, after, Texts(earlier), Texts(later))
	if m.Strict() {
		return fmt.Sprintf("shingles %.2f, words %.2f, files %.2f", m.Shingles, m.Words, m.Files), max(m.NCD, m.Reverse, m.Shingles, m.Words, m.Files)
	}
	x := copycat.NewIndex()
	for i, p := range []*packfile.Pack{earlier, later} {
		s, err := copycat.SketchOf(blob.FS([]blob.File{{Path: File, Content: p.Canonical}}))
		if err != nil {
			return "", 0 // a file in memory is read
		}
		if i == 0 {
			x.Add(earlier.Hash, s)
		} else if near, ok := x.Nearest(s); ok {
			return fmt.Sprintf("%s %.2f", near.Measure, near.Similarity), near.Similarity
		}
	}
	return "", 0
}

// Texts are all files of a pack, in order.
func Texts(p *packfile.Pack) []string {
	var out []string
	for _, name := range p.Files() {
		if t, ok := p.File(name); ok {
			out = append(out, t)
		}
	}
	return out
}
