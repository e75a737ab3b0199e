package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
)

// load is a crowd of workers. They write requests by hand: what is to be
// measured is the server, and the crowd has to share a machine with it.
type load struct {
	addrs    []string // of the servers; workers take turns
	audience string
	keys     []*auth.Key
}

// sample is what a measurement saw.
type sample struct {
	rate            float64 // pairs per second
	claims, results []time.Duration
}

// run lets so many workers play for d: as fast as they can, or at so many pairs
// per second of all together. A paced claim is timed from when it was due: what
// waits for a slow server is its time too.
func (l *load) run(d time.Duration, workers, rate int) (sample, error) {
	var mu sync.Mutex
	var out sample
	var failed error
	began := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			w := worker{load: l, addr: l.addrs[i%len(l.addrs)], key: l.keys[i%len(l.keys)]}
			err := w.play(began, d, rate, i, workers)
			mu.Lock()
			defer mu.Unlock()
			out.claims = append(out.claims, w.claims...)
			out.results = append(out.results, w.results...)
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	out.rate = float64(len(out.results)) / time.Since(began).Seconds()
	return out, failed
}

type worker struct {
	*load
	addr            string
	key             *auth.Key
	conn            net.Conn
	br              *bufio.Reader
	buf, body       []byte // of the last request and reply, to be used again
	claims, results []time.Duration
}

func (w *worker) play(began time.Time, d time.Duration, rate, index, workers int) error {
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(began.Add(d + time.Minute)); err != nil {
		return err
	}
	w.conn, w.br = conn, bufio.NewReaderSize(conn, 16<<10)
	claim, err := json.Marshal(client.ClaimRequest{Kinds: []string{"coding"}, Driver: "runsc", WaitMS: 1000})
	if err != nil {
		return err
	}
	for n := 0; time.Since(began) < d; n++ {
		at := time.Now()
		if rate > 0 { // worker i is due at i, i+workers, i+2*workers, ... of all pairs
			at = began.Add(time.Duration(n*workers+index) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(at))
		}
		lease, err := w.post(claimPath, claim)
		if err != nil {
			return err
		}
		w.claims = append(w.claims, time.Since(at))
		id, token, task := text(lease, "id"), text(lease, "token"), text(lease, "key")
		if id == "" || token == "" || task == "" {
			return fmt.Errorf("no lease (is the queue empty? raise -queued): %.300s", lease)
		}
		at = time.Now()
		result := fmt.Appendf(nil, resultForm, token, task)
		reply, err := w.post(claimPath+"/"+id+"/result", result)
		if err != nil {
			return err
		}
		if !bytes.Contains(reply, []byte(`"counted":true`)) {
			return fmt.Errorf("a result was not counted: %.300s", reply)
		}
		w.results = append(w.results, time.Since(at))
	}
	return nil
}

const (
	claimPath  = "/v1/leases"
	resultForm = `{"token":%q,"fault":"","outcome":"ok","driver":{"name":"runsc","version":"1","limits":[]},"cost_micros":0,"box_ms":1200,` +
		`"scores":[{"task":%q,"value":0.5,"solved":false,"scorer":"bench","detail":"6 of 12 tests passed"}]}`
)

// text finds the first field of a name in a reply; ids and keys hold no escapes.
func text(b []byte, name string) string {
	_, rest, _ := bytes.Cut(b, []byte(`"`+name+`":"`))
	v, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(v)
}

// post sends a signed request and returns the body of the answer, valid until
// the next one.
func (w *worker) post(target string, body []byte) ([]byte, error) {
	nonce, stamp := uuid.NewString(), strconv.FormatInt(time.Now().UnixMilli(), 10)
	sig, err := w.key.Sign(auth.SigningBytes(http.MethodPost, target, body, nonce, stamp, w.audience))
	if err != nil {
		return nil, err
	}
	b := w.buf[:0]
	b = fmt.Appendf(b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		auth.HeaderHotkey+": %s\r\n"+auth.HeaderTimestamp+": %s\r\n"+auth.HeaderNonce+": %s\r\n"+auth.HeaderSignature+": %x\r\n\r\n",
		target, w.addr, len(body), w.key.SS58(), stamp, nonce, sig)
	b = append(b, body...)
	w.buf = b
	if _, err := w.conn.Write(b); err != nil {
		return nil, err
	}
	return w.read(target)
}

// read reads a reply that names its length, as all of these do.
func (w *worker) read(target string) ([]byte, error) {
	status, length := "", 0
	for n := 0; ; n++ {
		line, err := w.br.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSuffix(line, []byte("\r\n"))
		if n == 0 {
			status = string(line)
			continue
		}
		if len(line) == 0 {
			break
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(v)); err != nil {
				return nil, err
			}
		}
	}
	if cap(w.body) < length {
		w.body = make([]byte, length)
	}
	got := w.body[:length]
	if _, err := io.ReadFull(w.br, got); err != nil {
		return nil, err
	}
	if status != "HTTP/1.1 200 OK" {
		return nil, fmt.Errorf("POST %s: %s: %.300s", target, status, got)
	}
	return got, nil
}
