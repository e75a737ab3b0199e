package task

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// change is one file before and after; nil bytes mean that it is absent.
type change struct {
	path   string
	before []byte
	after  []byte
}

// diffContext is how many equal lines surround a hunk.
const diffContext = 3

// maxEdits bounds the search for a shortest diff (time and memory grow with
// its square); files further apart are replaced as a whole.
const maxEdits = 2000

// unifiedDiff writes changes as one patch that git apply accepts. Equal files
// are left out. The same changes give the same bytes.
func unifiedDiff(changes []change) ([]byte, error) {
	var out bytes.Buffer
	for _, c := range changes {
		if c.before == nil && c.after == nil || c.before != nil && c.after != nil && bytes.Equal(c.before, c.after) {
			continue
		}
		if bytes.IndexByte(c.before, 0) >= 0 || bytes.IndexByte(c.after, 0) >= 0 {
			return nil, fmt.Errorf("diff %s: not a text file", c.path)
		}
		from, to := "a/"+c.path, "b/"+c.path
		fmt.Fprintf(&out, "diff --git %s %s\n", from, to)
		if c.before == nil {
			out.WriteString("new file mode 100644\n")
			from = "/dev/null"
		}
		if c.after == nil {
			fmt.Fprintf(&out, "deleted file mode %s\n", gitMode(c.before))
			to = "/dev/null"
		}
		before, after := splitLines(c.before), splitLines(c.after)
		if len(before)+len(after) == 0 {
			continue // an empty file came or went: the header says it all
		}
		fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
		writeHunks(&out, before, after)
	}
	if out.Len() == 0 {
		return nil, errors.New("diff: nothing changes")
	}
	return out.Bytes(), nil
}

func gitMode(b []byte) string {
	if fileMode(b) == "exec" {
		return "100755"
	}
	return "100644"
}

// splitLines keeps the line ends, so that a missing last one makes a difference.
func splitLines(b []byte) []string {
	var lines []string
	for line := range bytes.Lines(b) {
		lines = append(lines, string(line))
	}
	return lines
}

// edit is one line of a diff: ' ' in both, '-' only before, '+' only after.
type editLine struct {
	op   byte
	text string
}

func writeHunks(out *bytes.Buffer, before, after []string) {
	edits := lineEdits(before, after)
	a, b := 1, 1 // line numbers of edits[i]
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			a, b, i = a+1, b+1, i+1
			continue
		}
		start := max(0, i-diffContext)
		// The hunk ends at the last change that is followed by more than two contexts of equal lines.
		end, equal := i, 0
		for j := i; j < len(edits) && equal <= 2*diffContext; j++ {
			if edits[j].op == ' ' {
				equal++
				continue
			}
			end, equal = j+1, 0
		}
		stop := min(len(edits), end+diffContext)
		hunk := edits[start:stop]
		count := func(skip byte) (n int) {
			for _, e := range hunk {
				if e.op != skip {
					n++
				}
			}
			return n
		}
		na, nb := count('+'), count('-')
		a0, b0 := a-(i-start), b-(i-start)
		fmt.Fprintf(out, "@@ -%s +%s @@\n", hunkRange(a0, na), hunkRange(b0, nb))
		for _, e := range hunk {
			out.WriteByte(e.op)
			out.WriteString(e.text)
			if e.text[len(e.text)-1] != '\n' {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
		a, b, i = a0+na, b0+nb, stop
	}
}

// hunkRange is "first,count"; an empty range names the line before it.
func hunkRange(first, n int) string {
	if n == 0 {
		first--
	}
	return fmt.Sprintf("%d,%d", first, n)
}

// lineEdits finds a shortest edit (Myers, An O(ND) Difference Algorithm, 1986)
// between what is left after the common head and tail are cut off.
func lineEdits(before, after []string) []editLine {
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	var edits []editLine
	for _, l := range before[:head] {
		edits = append(edits, editLine{' ', l})
	}
	edits = append(edits, shortestEdit(before[head:len(before)-tail], after[head:len(after)-tail])...)
	for _, l := range before[len(before)-tail:] {
		edits = append(edits, editLine{' ', l})
	}
	return edits
}

func shortestEdit(a, b []string) []editLine {
	n, m := len(a), len(b)
	limit := min(n+m, maxEdits)
	// reach[k+limit+1] is the furthest x on diagonal k = x - y; trace keeps it per step.
	reach := make([]int, 2*limit+3)
	var trace [][]int
	found := n+m == 0
	for d := 0; d <= limit && !found; d++ {
		trace = append(trace, slices.Clone(reach[limit+1-d:limit+2+d]))
		for k := -d; k <= d; k += 2 {
			at := k + limit + 1
			var x int
			if k == -d || k != d && reach[at-1] < reach[at+1] {
				x = reach[at+1] // down: a line of b
			} else {
				x = reach[at-1] + 1 // right: a line of a goes
			}
			for x < n && x-k < m && a[x] == b[x-k] {
				x++
			}
			reach[at] = x
			if x >= n && x-k >= m {
				found = true
				break
			}
		}
	}
	var edits []editLine
	if !found {
		for _, l := range a {
			edits = append(edits, editLine{'-', l})
		}
		for _, l := range b {
			edits = append(edits, editLine{'+', l})
		}
		return edits
	}
	x, y := n, m
	for d := len(trace) - 1; d > 0; d-- {
		was := trace[d] // reach after step d-1, diagonals -d..d
		k := x - y
		prev := k - 1
		if k == -d || k != d && was[k-1+d] < was[k+1+d] {
			prev = k + 1
		}
		px := was[prev+d]
		py := px - prev
		for x > px && y > py {
			x, y = x-1, y-1
			edits = append(edits, editLine{' ', a[x]})
		}
		if x > px {
			x--
			edits = append(edits, editLine{'-', a[x]})
		} else {
			y--
			edits = append(edits, editLine{'+', b[y]})
		}
	}
	for x > 0 {
		x--
		edits = append(edits, editLine{' ', a[x]})
	}
	slices.Reverse(edits)
	return edits
}

// FileDiff is the unified diff of one text file, empty where nothing changed.
func FileDiff(path string, before, after []byte) ([]byte, error) {
	return unifiedDiff([]change{{path: path, before: before, after: after}})
}
