package calc

import (
	"bytes"
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
