package calc

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// decodeStrict decodes one JSON object into in and refuses what encoding/json
// lets pass: unknown fields, names in another case, names given twice, missing
// fields, a null object, text after the object.
func decodeStrict(line []byte, in any) error {
	if err := checkObject(line, reflect.TypeOf(in).Elem()); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	d.UseNumber() // integers in fields of type any stay exact
	if err := d.Decode(in); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	return nil
}

// checkObject checks the names of the top object against the fields of t. A
// top-level In that is not a struct (a map) has no names to check.
func checkObject(line []byte, t reflect.Type) error {
	d := json.NewDecoder(bytes.NewReader(line))
	open, err := d.Token()
	if err != nil {
		return errors.New("input is not JSON")
	}
	if open != json.Delim('{') {
		return errors.New("input is not a JSON object")
	}
	known, required := fieldNames(t)
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return errors.New("input is not JSON")
		}
		key, _ := name.(string) // an object's names are strings
		if seen[key] {
			return fmt.Errorf("input field %q is given twice", key)
		}
		if t.Kind() == reflect.Struct && !slices.Contains(known, key) {
			return fmt.Errorf("input field %q is unknown: want %s", key, strings.Join(known, ", "))
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("input field %q is not JSON", key)
		}
		if slices.Contains(required, key) && string(value) == "null" {
			return fmt.Errorf("input field %q is null", key)
		}
		if ft := fieldType(t, key); ft != nil {
			if err := checkArrays(value, ft); err != nil {
				return fmt.Errorf("input field %q%w", key, err)
			}
		}
	}
	if _, err := d.Token(); err != nil {
		return errors.New("input is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("input has text after the object")
	}
	for _, key := range required {
		if !seen[key] {
			return fmt.Errorf("input field %q is missing", key)
		}
	}
	return nil
}

// fieldType is the type of the field whose JSON name is key; nil: t has none.
func fieldType(t reflect.Type, key string) reflect.Type {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if in := fieldType(f.Type, key); in != nil {
				return in
			}
		}
		if name == key || name == "" && f.Name == key {
			return f.Type
		}
	}
	return nil
}

// checkArrays checks lists whose Go type has a fixed length, lists of numbers, and lists of
// such: encoding/json fills what is missing or null with zeros and drops what is too
// much, and a result that is missing would count as one of 0. The error follows the
// name of the field.
func checkArrays(value json.RawMessage, t reflect.Type) error {
	fixed := t.Kind() == reflect.Array
	if !holdsArray(t) {
		return nil
	}
	if t.Kind() == reflect.Slice && isNull(value) {
		return nil // as an empty one
	}
	var list []json.RawMessage
	if err := json.Unmarshal(value, &list); err != nil || fixed && (len(list) != t.Len() || slices.ContainsFunc(list, isNull)) {
		if fixed {
			return fmt.Errorf(": want a list of %d values", t.Len())
		}
		return errors.New(": want a list")
	}
	for i, v := range list {
		if isNumber(t.Elem()) && isNull(v) {
			return fmt.Errorf(", item %d is null: want a number", i)
		}
		if err := checkArrays(v, t.Elem()); err != nil {
			return fmt.Errorf(", item %d%w", i, err)
		}
	}
	return nil
}

func isNull(v json.RawMessage) bool { return string(v) == "null" }

// isNumber leaves bytes out: JSON has a list of them as a string.
func isNumber(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 && t.Kind() != reflect.Uint8
}

// holdsArray: a value of t is a list of fixed length or of numbers, or a list of such. A type
// that reads itself, as digests do, checks itself.
func holdsArray(t reflect.Type) bool {
	if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return false
	}
	return t.Kind() == reflect.Array || t.Kind() == reflect.Slice && (holdsArray(t.Elem()) || isNumber(t.Elem()))
}

// fieldNames lists the JSON names of a struct, and those that must be there.
func fieldNames(t reflect.Type) (known, required []string) {
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			k, r := fieldNames(f.Type)
			known, required = append(known, k...), append(required, r...)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		known = append(known, name)
		nullable := f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Interface
		if !nullable && !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required = append(required, name)
		}
	}
	return known, required
}
