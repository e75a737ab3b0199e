package corpus

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// PoisonNGram is how many words in a row of a public benchmark make a row
// contaminated.
const PoisonNGram = 13

// MaxPoisonLine bounds a line of a poison list, in bytes.
const MaxPoisonLine = 1 << 20

// Poison is what must not be trained on: questions and ids of public benchmarks.
type Poison struct {
	Names  []string
	hashes map[string]int // sha256 of a normalised text -> list
	grams  [][]uint64     // of each list: hashes of PoisonNGram words, sorted
	ids    map[string]int
}

// NewPoison returns an empty list.
func NewPoison() *Poison { return &Poison{hashes: map[string]int{}, ids: map[string]int{}} }

// Add reads one named list, a line each: "sha256:HEX" of a normalised text,
// "id:ID" of a ground truth, {"text"|"hash"|"id": …}, or the text itself. Empty
// lines and those that start with # are skipped.
func (p *Poison) Add(name string, r io.Reader) error {
	at := len(p.Names)
	p.Names = append(p.Names, name)
	p.grams = append(p.grams, nil)
	defer func() {
		p.grams[at] = telling(p.grams[at])
	}()
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), MaxPoisonLine)
	line := 0
	for s.Scan() {
		line++
		t := strings.TrimSpace(s.Text())
		if t == "" || t[0] == '#' {
			continue
		}
		if t[0] == '{' {
			var x struct {
				Text string `json:"text"`
				Hash string `json:"hash"`
				ID   string `json:"id"`
			}
			if err := json.Unmarshal([]byte(t), &x); err != nil || x.Text+x.Hash+x.ID == "" {
				return fmt.Errorf("read poison list %s: line %d: want {\"text\"}, {\"hash\"} or {\"id\"}", name, line)
			}
			switch {
			case x.Hash != "":
				t = agon.DigestPrefix + strings.TrimPrefix(x.Hash, agon.DigestPrefix)
			case x.ID != "":
				t = "id:" + x.ID
			default:
				p.text(x.Text, at)
				continue
			}
		}
		switch {
		case strings.HasPrefix(t, agon.DigestPrefix):
			h := strings.TrimPrefix(t, agon.DigestPrefix)
			if b, err := hex.DecodeString(h); err != nil || len(b) != 32 {
				return fmt.Errorf("read poison list %s: line %d: not a sha256", name, line)
			}
			p.hashes[strings.ToLower(h)] = at
		case strings.HasPrefix(t, "id:"):
			p.ids[t[3:]] = at
		default:
			p.text(t, at)
		}
	}
	if err := s.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("read poison list %s: line %d is longer than %d bytes", name, line+1, MaxPoisonLine)
		}
		return fmt.Errorf("read poison list %s: %w", name, err)
	}
	return nil
}

func (p *Poison) text(t string, at int) {
	n := Normalise(t)
	if n == "" {
		return
	}
	h := agon.Sum([]byte(n)).Hex()
	if _, twice := p.hashes[h]; twice {
		return
	}
	p.hashes[h] = at
	if strings.Count(n, " ")+1 >= PoisonNGram {
		p.grams[at] = append(p.grams[at], slices.Compact(slices.Sorted(slices.Values(shingles(n, PoisonNGram))))...)
	}
}

// listBoilerplate is in how many texts of one list words stand that belong to none of them.
const listBoilerplate = 3

// telling sorts what a list's texts are made of, and leaves out what stands in many of them.
func telling(grams []uint64) []uint64 {
	slices.Sort(grams)
	var out []uint64
	for i := 0; i < len(grams); {
		j := i
		for j < len(grams) && grams[j] == grams[i] {
			j++
		}
		if j-i < listBoilerplate {
			out = append(out, grams[i])
		}
		i = j
	}
	return slices.Clip(out)
}

// Hit says where a row stands in a public benchmark.
type Hit struct {
	List string `json:"list"`
	How  string `json:"how"` // hash, ngram, id
	Text string `json:"text"`
}

// gramHit is a run of words of a list in a row.
type gramHit struct {
	Hit
	gram uint64
}

// maxGramHits bounds what is kept of one row.
const maxGramHits = 64

// grammed returns the runs of words of the lists that stand in texts, at most maxGramHits.
func (p *Poison) grammed(texts []string) []gramHit {
	if p == nil || len(p.Names) == 0 {
		return nil
	}
	var out []gramHit
	for _, t := range texts {
		words := strings.Fields(Normalise(t))
		if len(words) < PoisonNGram {
			continue
		}
		for i, h := range shingles(strings.Join(words, " "), PoisonNGram) {
			for at, list := range p.grams {
				if _, ok := slices.BinarySearch(list, h); ok {
					if out = append(out, gramHit{Hit{p.Names[at], "ngram", plain.Short(strings.Join(words[i:i+PoisonNGram], " "), 200)}, h}); len(out) == maxGramHits {
						return out
					}
				}
			}
		}
	}
	return out
}

// whole is Find without runs of words.
func (p *Poison) whole(texts, ids []string) (Hit, bool) {
	if p == nil || len(p.Names) == 0 {
		return Hit{}, false
	}
	for _, id := range ids {
		if at, ok := p.ids[id]; ok {
			return Hit{p.Names[at], "id", id}, true
		}
	}
	for _, t := range texts {
		n := Normalise(t)
		if at, ok := p.hashes[agon.Sum([]byte(n)).Hex()]; ok && n != "" {
			return Hit{p.Names[at], "hash", plain.Short(n, 200)}, true
		}
		// Short questions stand whole in longer prompts, a line each.
		for l := range strings.Lines(t) {
			if x := Normalise(l); x != n && x != "" {
				if at, ok := p.hashes[agon.Sum([]byte(x)).Hex()]; ok {
					return Hit{p.Names[at], "hash", plain.Short(x, 200)}, true
				}
			}
		}
	}
	return Hit{}, false
}
