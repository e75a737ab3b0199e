package judge

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/folder"
)

// Record is a calibration that is kept: what arenas ask before they seat anybody
// by the judge's scores.
type Record struct {
	At time.Time `json:"at"`
	// Set is "shipped" for the cases that come with agon, else the digest of the file.
	Set string `json:"set"`
	// Tries counts the calibrations of this judge with this one, the newest of which
	// counts. It is shown, as a bad judge that is measured often passes once by luck.
	Tries int `json:"tries"`
	Calibration
}

// SetShipped is Record.Set of the cases that come with agon.
const SetShipped = "shipped"

// Book keeps records in a folder, a document each. Safe for concurrent use, also
// by several processes.
type Book struct {
	dir string

	mu   sync.Mutex
	seen time.Time // guarded by mu: of the folder, when list was read
	list []Record  // guarded by mu
}

// OpenBook returns the book in a folder, which is made with the first record.
func OpenBook(dir string) *Book { return &Book{dir: dir} }

// Add keeps a record, which is durable when it returns.
func (b *Book) Add(r Record) error {
	r.Wrong = nil // texts of cases have no place in what is shown
	name := strings.TrimPrefix(string(agon.Sum([]byte(r.Scorer))), agon.DigestPrefix)[:16]
	return folder.Folder(b.dir).Put(fmt.Sprintf("%s-%d", name, r.At.UnixMicro()), r)
}

// Records returns the newest record of each judge, the newest first. The caller
// must not change it.
func (b *Book) Records() ([]Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fi, err := os.Stat(b.dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read calibrations: %w", err)
	}
	if fi.ModTime().Equal(b.seen) {
		return b.list, nil
	}
	f := folder.Folder(b.dir)
	names, err := f.Names("")
	if err != nil {
		return nil, fmt.Errorf("read calibrations: %w", err)
	}
	by := map[string]Record{}
	for _, n := range names {
		var r Record
		if ok, err := f.Get(n, &r); err != nil {
			return nil, fmt.Errorf("read calibrations: %w", err)
		} else if !ok {
			continue
		}
		have := by[r.Scorer]
		if r.At.Before(have.At) {
			have.Tries++
			by[r.Scorer] = have
			continue
		}
		r.Tries = have.Tries + 1
		by[r.Scorer] = r
	}
	b.list = make([]Record, 0, len(by))
	for _, r := range by {
		b.list = append(b.list, r)
	}
	slices.SortFunc(b.list, func(x, y Record) int {
		if c := y.At.Compare(x.At); c != 0 {
			return c
		}
		return strings.Compare(x.Scorer, y.Scorer)
	})
	b.seen = fi.ModTime()
	return b.list, nil
}

// Standing says whether an arena with gate g seats anybody by what judges with a
// prompt (Prompt.Name), and why (not), in a sentence. own is the arena's own judge as
// scorers name it, and the only one that counts; "" where the server has none: each
// that passes counts. open are the judges whose scores count.
func Standing(g agon.Gate, prompt, own string, list []Record) (open map[string]bool, sentence string) {
	if g.Demo {
		return nil, "A demo: its judge need not have been measured."
	}
	open = map[string]bool{}
	var passed, failed []string
	for _, r := range list {
		if !r.Of(prompt) || own != "" && r.Scorer != own {
			continue
		}
		ok, why := r.Against(g)
		switch {
		case r.Demo:
			failed = append(failed, "the comparison of words, "+why)
		case r.Model == "":
			failed = append(failed, "a judge without a name, which nothing is known of: set AGON_JUDGE_MODEL")
		case ok:
			open[r.Scorer] = true
			passed = append(passed, r.Model)
		default:
			failed = append(failed, r.Model+", "+why)
		}
	}
	switch {
	case len(passed) > 0:
		return open, fmt.Sprintf("Its judge was measured on labelled cases and passed the gate: %s.", strings.Join(passed, "; "))
	case len(failed) > 0 && own != "":
		return open, fmt.Sprintf("It decides no seat: no judge on record passes its gate (%s). Nothing is played until one does.", strings.Join(failed, "; "))
	case len(failed) > 0:
		return open, fmt.Sprintf("It decides no seat: no judge on record passes its gate (%s).", strings.Join(failed, "; "))
	}
	return open, "It decides no seat: its judge was never measured. The operator does that by: " + Measuring(prompt) + "."
}

// Measuring is the command that measures judges with a prompt (Prompt.Name).
func Measuring(prompt string) string {
	if prompt == SupportPrompt().Name {
		return "agon judge calibrate"
	}
	return "agon judge calibrate --prompt " + prompt
}

// Of says whether the record is of a prompt.
func (r Record) Of(prompt string) bool { return strings.HasPrefix(r.Prompt, prompt+".") }
