// Package miner is the miner's side of the research coordinator: the signed
// client, the byte-exact patch of a workspace, the sidecar, and the loop around
// an external agent. It works against any coordinator of that wire.
package miner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Field is one member of an ordered JSON object.
type Field struct {
	Name  string
	Value any
}

// Dumps writes fields as the stock client's requests travel: in order, with
// ", " and ": " between, everything outside ASCII escaped. The signature covers
// the canonical form, not this one; the shape is kept for servers that log it.
func Dumps(fields []Field) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteString(", ")
		}
		quote(&b, f.Name)
		b.WriteString(": ")
		raw, err := json.Marshal(f.Value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.Name, err)
		}
		if err := respace(&b, raw); err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.Name, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Respace rewrites one JSON text in the same form, numbers as they are spelled.
func Respace(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := respace(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func respace(b *bytes.Buffer, raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := value(b, d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the value")
	}
	return nil
}

func value(b *bytes.Buffer, d *json.Decoder, depth int) error {
	if depth > 200 {
		return errors.New("nested too deep")
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		b.WriteString(t.String())
		for i := 0; d.More(); i++ {
			if i > 0 {
				b.WriteString(", ")
			}
			if t == '{' {
				name, err := d.Token()
				if err != nil {
					return err
				}
				quote(b, name.(string)) // an object's names are strings
				b.WriteString(": ")
			}
			if err := value(b, d, depth+1); err != nil {
				return err
			}
		}
		end, err := d.Token()
		if err != nil {
			return err
		}
		b.WriteString(end.(json.Delim).String())
	case string:
		quote(b, t)
	case json.Number:
		b.WriteString(t.String())
	case bool:
		fmt.Fprintf(b, "%t", t)
	case nil:
		b.WriteString("null")
	}
	return nil
}

// quote writes a string as Python's json does with ensure_ascii.
func quote(b *bytes.Buffer, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < 0x20 || r > 0x7e && r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		case r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// Indent prints a reply as the stock client does: two spaces, keys in their order.
func Indent(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSpace(raw), "", "  ") != nil {
		return strings.TrimRight(string(raw), "\n")
	}
	return b.String()
}
