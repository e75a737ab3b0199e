package roles

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// A server that ends does not wait for streams, which have no end: it ends them as their
// handlers would, and other requests have their time.
func TestDrainEndsStreams(t *testing.T) {
	f, err := openFront(testOptions(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	asked, drained := make(chan struct{}), make(chan struct{})
	f.show(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "begin")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/stream" {
			<-r.Context().Done()
			fmt.Fprintln(w, "end") // to a client that still hears
			return
		}
		close(asked)
		<-drained // has begun
		if r.Context().Err() != nil {
			t.Error("a request was cut, and it is no stream")
		}
		fmt.Fprintln(w, "end")
	}))
	type answer struct {
		body string
		err  error
	}
	get := func(path, accept string) chan answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.scheme+"://"+f.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewReader(resp.Body)
		if line, err := body.ReadString('\n'); err != nil || line != "begin\n" {
			t.Fatalf("%q %v", line, err)
		}
		rest := make(chan answer, 1)
		go func() { // ends with the answer
			defer resp.Body.Close()
			b, err := io.ReadAll(body)
			rest <- answer{string(b), err}
		}()
		return rest
	}
	stream, other := get("/stream", "text/event-stream"), get("/other", "")
	<-asked
	ended := make(chan struct{})
	go func() { f.drain(); close(ended) }()
	if got := <-stream; got.err != nil || got.body != "end\n" {
		t.Errorf("the stream: %q, %v", got.body, got.err)
	}
	close(drained)
	if got := <-other; got.err != nil || got.body != "end\n" {
		t.Errorf("the other request: %q, %v", got.body, got.err)
	}
	<-ended
	f.drain() // again
}

// A connection that no request has come by is closed while a server ends; one that is used stays.
func TestDrainClosesUnusedConnections(t *testing.T) {
	f, err := openFront(testOptions(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.drain()
	f.show(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	unused, used := dial(), dial() // the server takes them in this order
	answers := bufio.NewReader(used)
	ask := func() {
		t.Helper()
		fmt.Fprintf(used, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		r, err := http.ReadResponse(answers, nil)
		if err != nil || r.StatusCode != http.StatusNoContent {
			t.Fatalf("%+v %v", r, err)
		}
	}
	ask()
	f.closeUnused()
	if n, err := unused.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("it is open: %d bytes, %v", n, err)
	}
	ask()
}
