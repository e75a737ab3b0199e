package served

import (
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A body is read up to its limit, to the byte; what comes after it may take its time.
func TestBody(t *testing.T) {
	for _, c := range []struct {
		text string
		err  error
	}{{"", nil}, {"12345", nil}, {"123456", ErrLarge}} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.text))
		b, err := Body(httptest.NewRecorder(), r, 5)
		if !errors.Is(err, c.err) || err == nil && string(b) != c.text || err != nil && b != nil {
			t.Errorf("%q: %q, %v", c.text, b, err)
		}
	}
}

// A client that says nothing is left at the deadline, and one whose body was read has none.
func TestWithin(t *testing.T) {
	ended := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer Within(w, 1)()
		_, err := r.Body.Read(make([]byte, 1))
		ended <- err
	}))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	var late net.Error
	if err := <-ended; !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("read: %v", err)
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		v      any
		status int
		want   string
	}{{map[string]string{"a": "<&\n"}, 201, `{"a":"<&\n"}`}, {math.Inf(1), 500, `{"no":1}`}} {
		w := httptest.NewRecorder()
		JSON(w, 201, c.v, `{"no":1}`)
		if w.Code != c.status || w.Body.String() != c.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}
