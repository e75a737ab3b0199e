package kit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// Reading the text of an arena file, and saying where in it a mistake stands.

// decodeArenaFile reads TOML. What cannot be read is left out of the file, so
// that all of it is named at once; bad is a line each, by place.
func decodeArenaFile(b []byte) (f ArenaFile, bad []string) {
	b = slices.Clone(b)
	for range maxMistakes {
		f = ArenaFile{}
		dec := toml.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		err := dec.Decode(&f)
		var strict *toml.StrictMissingError
		var wrong *toml.DecodeError
		switch {
		case err == nil:
			return f, bad
		case errors.As(err, &strict):
			for _, e := range strict.Errors {
				row, col := e.Position()
				key := strings.Join(e.Key(), ".")
				bad = append(bad, fmt.Sprintf("%d:%d  %s: unknown field%s", row, col, key, meant(key)))
			}
			return f, bad // the rest of it was read
		case !errors.As(err, &wrong):
			return f, append(bad, err.Error())
		}
		row, col := wrong.Position()
		bad = append(bad, fmt.Sprintf("%d:%d  %s", row, col, plainTOML(wrong)))
		if !blank(b, row) {
			return f, bad
		}
	}
	return f, bad
}

// maxMistakes bounds how many lines of a file are named.
const maxMistakes = 30

// blank empties a line (from 1), so that the next try reads beyond it; false if
// there was nothing to empty.
func blank(b []byte, row int) bool {
	at := 0
	for ; row > 1; row-- {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return false
		}
		at += i + 1
	}
	end := bytes.IndexByte(b[at:], '\n')
	if end < 0 {
		end = len(b) - at
	}
	line := b[at : at+end]
	was := len(bytes.TrimSpace(line)) > 0
	for i := range line {
		line[i] = ' '
	}
	return was
}

var decodeTOML = lazyregexp.New(`cannot decode TOML (\S+) into (?:a Go|struct field) .*?(?: of)? type (\S+)$`)

// plainTOML says what is wrong with a value, without the names of Go's types.
func plainTOML(e *toml.DecodeError) string {
	key := strings.Join(e.Key(), ".")
	text := strings.TrimPrefix(e.Error(), "toml: ")
	if m := decodeTOML().FindStringSubmatch(text); m != nil {
		text = "want " + kindOfValue(m[2]) + ", this is " + article(m[1])
	} else if strings.HasPrefix(text, "cannot store a") { // [name] or [[name]] where a value belongs
		text = "a table does not belong here: write " + cmp.Or(key, "NAME") + " = and a value"
	} else if strings.Contains(text, "struct field") || strings.Contains(text, "Go ") {
		text = "this kind of value does not belong here"
	}
	if key == "" {
		return text
	}
	return key + ": " + text
}

// kindOfValue names what a field takes.
func kindOfValue(typ string) string {
	switch typ = strings.TrimPrefix(typ, "*"); {
	case strings.HasPrefix(typ, "[]"):
		return "a list"
	case strings.HasPrefix(typ, "map"):
		return "a table"
	case strings.HasPrefix(typ, "uint"):
		return "a whole number from 0"
	case strings.HasPrefix(typ, "int"):
		return "a whole number"
	case strings.HasPrefix(typ, "float"):
		return "a number"
	case typ == "bool":
		return "true or false"
	case typ == "string":
		return "text in quotes"
	}
	return "a table"
}

func article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// fieldNames are the names that an arena file knows, by path.
var fieldNames = func() (names []string) {
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("toml"), ",")
			if name == "" || name == "-" {
				continue
			}
			names = append(names, prefix+name)
			x := t.Field(i).Type
			if x.Kind() == reflect.Pointer {
				x = x.Elem()
			}
			if x.Kind() == reflect.Struct {
				walk(x, prefix+name+".")
			}
		}
	}
	walk(reflect.TypeFor[ArenaFile](), "")
	return names
}()

// meant proposes the name that is nearest to an unknown one.
func meant(key string) string {
	if best := plain.Near(key, fieldNames); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// places finds where the fields of an arena file stand: line and column of each
// key, by its path. It reads no values: a key within text of several lines is
// taken for one.
func places(b []byte) map[string]string {
	out, table := map[string]string{}, ""
	row := 0
	for line := range strings.Lines(string(b)) {
		row++
		text := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(text, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			table = strings.TrimSpace(name) + "."
			out[strings.TrimSuffix(table, ".")] = fmt.Sprintf("%d:%d", row, strings.Index(line, "[")+1)
			continue
		}
		key, _, ok := strings.Cut(text, "=")
		if key = strings.TrimSpace(key); !ok || key == "" || key[0] == '#' {
			continue
		}
		out[table+strings.Trim(key, `"'`)] = fmt.Sprintf("%d:%d", row, strings.Index(line, key)+1)
	}
	return out
}

// placed puts the place of its field before each mistake.
func placed(bad []string, at map[string]string) []string {
	out := make([]string, len(bad))
	for i, l := range bad {
		field, _, _ := strings.Cut(l, ": ")
		out[i] = l
		for ; field != ""; field = parent(field) {
			if p, ok := at[field]; ok {
				out[i] = p + "  " + l
				break
			}
		}
	}
	return out
}

func parent(field string) string {
	i := strings.LastIndexByte(field, '.')
	return field[:max(i, 0)]
}
