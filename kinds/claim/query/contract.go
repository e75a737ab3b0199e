package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a query and a response, in characters.
const (
	MaxChars     = 80_000
	maxCitations = 200
	maxSegments  = 400
	maxDepth     = 200
)

// Draft is the only dialect of output schemas.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// ErrQuery and ErrResponse are wrapped by what is wrong with either.
var (
	ErrQuery    = errors.New("query is not valid")
	ErrResponse = errors.New("miner_response_invalid")
)

// Query is a checked task.
type Query struct {
	Text   string          `json:"text"`
	Schema json.RawMessage `json:"output_schema"` // null: plain text
}

// Mode is "structured" or "text".
func (q Query) Mode() string {
	if q.Schema == nil {
		return "text"
	}
	return "structured"
}

// ParseQuery reads {text, output_schema?} and nothing else.
func ParseQuery(b []byte) (Query, error) {
	bad := func(format string, a ...any) (Query, error) {
		return Query{}, fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, a...))
	}
	f, err := fields(b)
	if err != nil {
		return bad("%v", err)
	}
	for k := range f {
		if k != "text" && k != "output_schema" {
			return bad("%.60q is unknown", k)
		}
	}
	var q Query
	if q.Text, err = str(f["text"]); err != nil || strings.TrimSpace(q.Text) == "" {
		return bad("text: want a text that is not blank")
	}
	q.Text = strings.TrimSpace(q.Text)
	raw := f["output_schema"]
	if len(raw) == 0 || string(raw) == "null" {
		return q, nil
	}
	if raw[0] != '{' {
		return bad("output_schema: want an object")
	}
	c, err := compact(raw)
	if err != nil {
		return bad("output_schema: %v", err)
	}
	if n := utf8.RuneCount(c); n > MaxChars {
		return bad("output_schema: it has %d characters, the limit is %d", n, MaxChars)
	}
	if err := checkSchema(c); err != nil {
		return bad("output_schema: %v", err)
	}
	q.Schema = c
	return q, nil
}

// Response is a checked answer of a script, before its citations are looked up.
type Response struct {
	Text      *string         `json:"text,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Note      *string         `json:"note,omitempty"`
	Citations int             `json:"citations"` // how many
	Segments  int             `json:"segments"`
}

// ParseResponse reads exactly one of text and output, and note and citations.
func ParseResponse(b []byte) (Response, error) {
	bad := func(format string, a ...any) (Response, error) {
		return Response{}, fmt.Errorf("%w: %s", ErrResponse, fmt.Sprintf(format, a...))
	}
	f, err := fields(b)
	if err != nil {
		return bad("%v", err)
	}
	var r Response
	for k, raw := range f {
		null := string(raw) == "null"
		switch k {
		case "text", "note":
			if null {
				continue
			}
			s, err := str(raw)
			if n := utf8.RuneCountInString(s); err != nil || strings.TrimSpace(s) == "" || n > MaxChars {
				return bad("%s: want 1 to %d characters, not blank", k, MaxChars)
			}
			if k == "note" {
				r.Note = &s
				continue
			}
			s = strings.TrimSpace(s)
			r.Text = &s
		case "output":
			if null {
				continue
			}
			if r.Output, err = compact(raw); err != nil || utf8.RuneCount(r.Output) > MaxChars {
				return bad("output: want JSON of at most %d characters", MaxChars)
			}
		case "citations":
			if null {
				continue
			}
			if r.Citations, r.Segments, err = citations(raw); err != nil {
				return bad("citations: %v", err)
			}
		default:
			return bad("%.60q is unknown", k)
		}
	}
	if (r.Text == nil) == (r.Output == nil) {
		return bad("want exactly one of text and output")
	}
	return r, nil
}

func citations(raw json.RawMessage) (n, segments int, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return 0, 0, errors.New("want a list")
	}
	if len(list) > maxCitations {
		return 0, 0, fmt.Errorf("it has %d entries, the limit is %d", len(list), maxCitations)
	}
	for i, raw := range list {
		f, err := fields(raw)
		if err != nil {
			return 0, 0, fmt.Errorf("[%d]: %w", i, err)
		}
		for k, v := range f {
			switch k {
			case "receipt_id", "result_id":
				if s, err := str(v); err != nil || s == "" {
					return 0, 0, fmt.Errorf("[%d]: %s: want a text", i, k)
				}
			case "slices":
			default:
				return 0, 0, fmt.Errorf("[%d]: %.60q is unknown", i, k)
			}
		}
		if f["receipt_id"] == nil || f["result_id"] == nil {
			return 0, 0, fmt.Errorf("[%d]: want receipt_id and result_id", i)
		}
		k, err := sliceCount(f["slices"])
		if err != nil {
			return 0, 0, fmt.Errorf("[%d]: slices: %w", i, err)
		}
		if segments += max(k, 1); segments > maxSegments {
			return 0, 0, fmt.Errorf("more than %d segments", maxSegments)
		}
	}
	return len(list), segments, nil
}

func sliceCount(raw json.RawMessage) (int, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return 0, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return 0, errors.New("want a list")
	}
	for _, raw := range list {
		f, err := fields(raw)
		if err != nil || len(f) != 2 {
			return 0, errors.New("want start and end")
		}
		start, e1 := strconv.ParseInt(string(f["start"]), 10, 32)
		end, e2 := strconv.ParseInt(string(f["end"]), 10, 32)
		if e1 != nil || e2 != nil || start < 0 || end <= start {
			return 0, errors.New("want 0 <= start < end")
		}
	}
	return len(list), nil
}

// fields are those of one object; a key given twice is an error.
func fields(b []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("want an object")
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, errors.New("bad JSON")
		}
		k, _ := t.(string)
		if _, twice := out[k]; twice {
			return nil, fmt.Errorf("%.60q is given twice", k)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, errors.New("bad JSON")
		}
		out[k] = raw
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("bad JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the object")
	}
	return out, nil
}

func str(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", errors.New("want a text")
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// compact writes JSON with sorted keys and without escaping, as it is counted.
func compact(raw json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("bad JSON")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// checkSchema wants JSON Schema of the one draft whose references stay inside of it.
func checkSchema(raw json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return errors.New("bad JSON")
	}
	return walkSchema(root, root, 0)
}

// holders are keywords whose value is a schema, lists of them, or a map of them.
var (
	holdOne  = []string{"additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
	holdList = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	holdMap  = []string{"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)

func walkSchema(v, resource any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	m, ok := v.(map[string]any)
	if !ok {
		if _, boolean := v.(bool); boolean {
			return nil
		}
		return errors.New("a schema is neither an object nor true or false")
	}
	if id, ok := m["$id"].(string); ok && id != "" {
		resource = m
	}
	if s, ok := m["$schema"]; ok {
		if name, _ := s.(string); strings.TrimSuffix(name, "#") != Draft {
			return fmt.Errorf("$schema: want %s", Draft)
		}
	}
	if t, ok := m["type"]; ok {
		switch t.(type) {
		case string, []any:
		default:
			return errors.New("type: want a text or a list")
		}
	}
	for _, k := range []string{"$ref", "$dynamicRef"} {
		r, ok := m[k]
		if !ok {
			continue
		}
		s, isText := r.(string)
		if !isText || !strings.HasPrefix(s, "#") {
			return fmt.Errorf("%s: only references to this schema are allowed", k)
		}
		if !resolves(resource, s[1:]) {
			return fmt.Errorf("%s: %.100q leads nowhere", k, s)
		}
	}
	for _, k := range holdOne {
		if sub, ok := m[k]; ok {
			if err := walkSchema(sub, resource, depth+1); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
	}
	for _, k := range holdList {
		if list, ok := m[k]; ok {
			items, isList := list.([]any)
			if !isList {
				return fmt.Errorf("%s: want a list", k)
			}
			for _, sub := range items {
				if err := walkSchema(sub, resource, depth+1); err != nil {
					return fmt.Errorf("%s: %w", k, err)
				}
			}
		}
	}
	for _, k := range holdMap {
		if of, ok := m[k]; ok {
			subs, isMap := of.(map[string]any)
			if !isMap {
				return fmt.Errorf("%s: want an object", k)
			}
			for name, sub := range subs {
				if err := walkSchema(sub, resource, depth+1); err != nil {
					return fmt.Errorf("%s: %.60s: %w", k, name, err)
				}
			}
		}
	}
	return nil
}

// resolves follows a fragment: a JSON pointer, or the name of an anchor.
func resolves(at any, fragment string) bool {
	if fragment == "" {
		return true
	}
	if !strings.HasPrefix(fragment, "/") {
		return anchored(at, fragment, 0)
	}
	for part := range strings.SplitSeq(fragment[1:], "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch x := at.(type) {
		case map[string]any:
			next, ok := x[part]
			if !ok {
				return false
			}
			at = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) || strconv.Itoa(i) != part {
				return false
			}
			at = x[i]
		default:
			return false
		}
	}
	return true
}

func anchored(v any, name string, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch x := v.(type) {
	case map[string]any:
		if x["$anchor"] == name || x["$dynamicAnchor"] == name {
			return true
		}
		for k, sub := range x {
			if k != "const" && k != "enum" && k != "default" && k != "examples" && anchored(sub, name, depth+1) {
				return true
			}
		}
	case []any:
		for _, sub := range x {
			if anchored(sub, name, depth+1) {
				return true
			}
		}
	}
	return false
}
