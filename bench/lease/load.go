package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
)

// load is a crowd of workers. They write requests by hand: what is to be
// measured is the server, and the crowd has to share a machine with it.
type load struct {
	addr, audience string
	keys           []*auth.Key
}

// sample is what a measurement saw.
type sample struct {
	rate            float64 // pairs per second
	claims, results []time.Duration
}

// run lets every worker play for d: as fast as it can, or at so many pairs per
// second of all together.
func (l *load) run(d time.Duration, rate int) (sample, error) {
	var mu sync.Mutex
	var out sample
	var failed error
	began := time.Now()
	var wg sync.WaitGroup
	workers := len(l.keys) * perOne
	for i := range workers {
		wg.Go(func() {
			w := worker{load: l, key: l.keys[i%len(l.keys)]}
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
	key             *auth.Key
	conn            net.Conn
	br              *bufio.Reader
	claims, results []time.Duration
}

func (w *worker) play(began time.Time, d time.Duration, rate, index, workers int) error {
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	w.conn, w.br = conn, bufio.NewReaderSize(conn, 16<<10)
	claim, err := json.Marshal(client.ClaimRequest{Kinds: []string{"coding"}, Driver: "runsc", WaitMS: 1000})
	if err != nil {
		return err
	}
	for n := 0; time.Since(began) < d; n++ {
		if rate > 0 { // worker i is due at i, i+workers, i+2*workers, ... of all pairs
			at := began.Add(time.Duration(n*workers+index) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(at))
		}
		at := time.Now()
		var lease client.Lease
		if err := w.post("/v1/leases", claim, &lease); err != nil {
			return err
		}
		if lease.ID == "" {
			return fmt.Errorf("the queue is empty: raise -queued")
		}
		w.claims = append(w.claims, time.Since(at))
		result, err := json.Marshal(client.Result{
			Token: lease.Token, Outcome: "ok", Driver: agon.Driver{Name: "runsc", Version: "1"}, BoxMS: 1200,
			Scores: []agon.Score{{Task: lease.Run.Tasks[0].Key, Value: 0.5, Scorer: "bench", Detail: "6 of 12 tests passed"}},
		})
		if err != nil {
			return err
		}
		at = time.Now()
		var reply client.ResultReply
		if err := w.post("/v1/leases/"+lease.ID+"/result", result, &reply); err != nil {
			return err
		}
		if !reply.Counted {
			return fmt.Errorf("a result was not counted: %+v", reply)
		}
		w.results = append(w.results, time.Since(at))
	}
	return nil
}

// post sends a signed request and decodes the answer.
func (w *worker) post(target string, body []byte, into any) error {
	nonce, stamp := uuid.NewString(), strconv.FormatInt(time.Now().UnixMilli(), 10)
	sig, err := w.key.Sign(auth.SigningBytes(http.MethodPost, target, body, nonce, stamp, w.audience))
	if err != nil {
		return err
	}
	b := make([]byte, 0, 1024+len(body))
	b = fmt.Appendf(b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", target, w.addr, len(body))
	for _, h := range [][2]string{
		{auth.HeaderHotkey, w.key.SS58()},
		{auth.HeaderTimestamp, stamp},
		{auth.HeaderNonce, nonce},
		{auth.HeaderSignature, hex.EncodeToString(sig)},
	} {
		b = append(b, h[0]+": "+h[1]+"\r\n"...)
	}
	b = append(append(b, "\r\n"...), body...)
	if err := w.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := w.conn.Write(b); err != nil {
		return err
	}
	resp, err := http.ReadResponse(w.br, nil)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: status %d: %.300s", target, resp.StatusCode, got)
	}
	return json.Unmarshal(got, into)
}
