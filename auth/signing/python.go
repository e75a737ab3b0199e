package signing

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PythonText prints one JSON value as Python's str() prints what it becomes
// there: strings bare, True, False and None, lists and dicts as their repr.
func PythonText(text []byte) (string, error) {
	p := printer{w: writer{in: text}}
	if p.w.peek() == '"' {
		s, err := p.w.str()
		if err != nil {
			return "", fmt.Errorf("json at byte %d: %w", p.w.at, err)
		}
		p.out.Write(s)
	} else if err := p.repr(0); err != nil {
		return "", fmt.Errorf("json at byte %d: %w", p.w.at, err)
	}
	p.w.blanks()
	if p.w.at != len(text) {
		return "", fmt.Errorf("json at byte %d: text after the value", p.w.at)
	}
	return p.out.String(), nil
}

type printer struct {
	w   writer // reads; its out holds one number at a time
	out strings.Builder
}

func (p *printer) repr(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch c := p.w.peek(); {
	case c == '[':
		return p.sequence(depth, '[', ']')
	case c == '{':
		return p.sequence(depth, '{', '}')
	case c == '"':
		s, err := p.w.str()
		if err != nil {
			return err
		}
		p.quote(s)
	case c == '-' || c >= '0' && c <= '9':
		p.w.python, p.w.out = true, p.w.out[:0]
		if err := p.w.number(); err != nil {
			return err
		}
		p.out.WriteString(strings.ReplaceAll(string(p.w.out), "Infinity", "inf"))
	default:
		for _, word := range []struct{ json, python string }{{"true", "True"}, {"false", "False"}, {"null", "None"}} {
			if strings.HasPrefix(string(p.w.in[p.w.at:min(len(p.w.in), p.w.at+5)]), word.json) {
				p.w.at += len(word.json)
				p.out.WriteString(word.python)
				return nil
			}
		}
		return errors.New("not a value")
	}
	return nil
}

// sequence prints a list or a dict, members in their order. A dict with one name
// twice would print once in Python: nobody signs such a thing, so it is refused.
func (p *printer) sequence(depth int, open, closing byte) error {
	p.w.at++
	p.out.WriteByte(open)
	seen := map[string]bool{}
	for first := true; ; first = false {
		if c := p.w.peek(); c == closing && first {
			break
		}
		if open == '{' {
			if p.w.peek() != '"' {
				return errors.New("want a member's name in quotes")
			}
			name, err := p.w.str()
			if err != nil {
				return err
			}
			if seen[string(name)] {
				return errors.New("a member is given twice")
			}
			seen[string(name)] = true
			p.quote(name)
			if p.w.peek() != ':' {
				return errors.New("want : after a member's name")
			}
			p.w.at++
			p.out.WriteString(": ")
		}
		if err := p.repr(depth + 1); err != nil {
			return err
		}
		c := p.w.peek()
		if c == closing {
			break
		}
		if c != ',' {
			return fmt.Errorf("want , or %c", closing)
		}
		p.w.at++
		p.out.WriteString(", ")
	}
	p.w.at++
	p.out.WriteByte(closing)
	return nil
}

// quote is Python's repr of a string: single quotes unless only they occur.
func (p *printer) quote(s []byte) {
	q := byte('\'')
	if strings.IndexByte(string(s), '\'') >= 0 && strings.IndexByte(string(s), '"') < 0 {
		q = '"'
	}
	p.out.WriteByte(q)
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch j := strings.IndexByte("\n\r\t\\"+string(q), c); {
			case j >= 0:
				p.out.WriteString([]string{`\n`, `\r`, `\t`, `\\`, `\` + string(q)}[j])
			case c < 0x20 || c == 0x7f:
				fmt.Fprintf(&p.out, `\x%02x`, c)
			default:
				p.out.WriteByte(c)
			}
			i++
			continue
		}
		r, n := decodeWide(s[i:])
		switch {
		case unicode.IsPrint(rune(r)):
			p.out.Write(s[i : i+n])
		case r < 0x100:
			fmt.Fprintf(&p.out, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&p.out, `\u%04x`, r)
		default:
			fmt.Fprintf(&p.out, `\U%08x`, r)
		}
		i += n
	}
	p.out.WriteByte(q)
}
