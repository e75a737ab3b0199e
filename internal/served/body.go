package served

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// BodyTime is how long a client may take to send a body.
const BodyTime = time.Minute

// ErrLarge says that a body has more bytes than it may have.
var ErrLarge = errors.New("the body is too large")

// Body reads a request's body of at most limit bytes within BodyTime. Its error is
// ErrLarge, or that of a body that broke off.
func Body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	defer Within(w, BodyTime)()
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, ErrLarge
	}
	return b, err
}

// Within bounds the time for reading a request's body until done is called: what comes
// after, as a model's thinking, may take longer.
func Within(w http.ResponseWriter, d time.Duration) (done func()) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(d)) // a socket's deadline is real time
	return func() { _ = c.SetReadDeadline(time.Time{}) }
}

// JSON answers with v, without the escapes that HTML asks for: the services of others
// send none. failed is the body of a 500 where v cannot be encoded.
func JSON(w http.ResponseWriter, status int, v any, failed string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		b.WriteString(failed)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.TrimRight(b.Bytes(), "\n")) // a client that is gone reads no error
}
