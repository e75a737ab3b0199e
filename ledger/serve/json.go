package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// strictJSON decodes one JSON object without unknown fields or text behind it.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the object")
	}
	return nil
}
