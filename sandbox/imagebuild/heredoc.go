package imagebuild

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// heredoc is text that stands below an instruction, up to a line with its name.
type heredoc struct {
	name   string
	text   string // with the end of its last line
	quoted bool   // its variables are not put in
}

// marker begins one: <<NAME, <<-NAME, <<"NAME". What a shell counts with (1<<2) and
// what it reads as a word (<<<) is none.
var marker = lazyregexp.New(`(?:^|[\s;&|])\d*<<(-?)("\w+"|'\w+'|\w+)(?:[\s;&|)>]|$)`)

// only is an instruction that is nothing but a heredoc.
var only = lazyregexp.New(`^<<-?["']?\w+["']?$`)

// heredocs reads the texts that an instruction names from the lines below it. after
// is how many lines they take. A name that no line below
// ends stands in a word of the shell's.
func heredocs(i instruction, below []string) (docs []heredoc, after int) {
	if i.word != "RUN" && i.word != "COPY" && i.word != "ADD" {
		return nil, 0
	}
	for rest := i.rest; ; {
		m := marker().FindStringSubmatchIndex(rest)
		if m == nil {
			return docs, after
		}
		tabs, word := m[2] < m[3], rest[m[4]:m[5]]
		rest = rest[m[5]:]
		d := heredoc{name: strings.Trim(word, `"'`), quoted: word[0] == '"' || word[0] == '\''}
		var text strings.Builder
		ended := false
		n := after
		for ; n < len(below) && !ended; n++ {
			line := below[n]
			if tabs {
				line = strings.TrimLeft(line, "\t")
			}
			if ended = line == d.name; !ended {
				text.WriteString(line + "\n")
			}
		}
		if !ended {
			return docs, after
		}
		d.text = text.String()
		docs, after = append(docs, d), n
	}
}

// script is what RUN gives to the shell: the heredoc where it is all there is, else
// the command with its heredocs below it.
func (i instruction) script() (string, error) {
	if len(i.docs) == 0 {
		return i.rest, nil
	}
	if only().MatchString(i.rest) {
		if strings.HasPrefix(i.docs[0].text, "#!") {
			return "", i.bad("a script that names its interpreter is not started here: put it in a file and COPY it")
		}
		return i.docs[0].text, nil
	}
	out := i.rest + "\n"
	for _, d := range i.docs {
		out += d.text + d.name + "\n"
	}
	return out, nil
}

// named takes COPY's words that begin a heredoc; from is what is left. text is what a
// file of that name holds.
func (i instruction) named(from []string) (left []string, texts []heredoc) {
	for _, w := range from {
		at := len(texts)
		if rest, ok := strings.CutPrefix(w, "<<"); ok && at < len(i.docs) && strings.Trim(strings.TrimPrefix(rest, "-"), `"'`) == i.docs[at].name {
			texts = append(texts, i.docs[at])
			continue
		}
		left = append(left, w)
	}
	return left, texts
}

// texts lays heredocs out as files.
func (s step) laid() (files, func(), error) {
	dir, err := tempdir.Make("heredoc")
	if err != nil {
		return files{}, nil, err
	}
	done := func() { _ = os.RemoveAll(dir) }
	for _, d := range s.texts {
		if err := os.WriteFile(filepath.Join(dir, d.name), []byte(d.text), 0o644); err != nil {
			done()
			return files{}, nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		done()
		return files{}, nil, err
	}
	return files{root, func(string) bool { return false }, "the Dockerfile"}, func() { _ = root.Close(); done() }, nil
}
