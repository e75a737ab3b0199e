package container

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// first is the box's end of a control socket, as the entry program speaks it.
type first struct {
	f *os.File
	r *bufio.Reader
}

func (f *first) next(t *testing.T) (r request) {
	var head [4]byte
	_, err := io.ReadFull(f.r, head[:])
	raw := make([]byte, binary.BigEndian.Uint32(head[:]))
	if err == nil {
		_, err = io.ReadFull(f.r, raw)
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		t.Error(err)
	}
	return r
}

func pair(t testing.TB) (*control, *first) {
	t.Helper()
	k, f, err := newControl()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.close(); _ = f.Close() })
	return k, &first{f, bufio.NewReader(f)}
}

func TestControl(t *testing.T) {
	k, f := pair(t)
	select {
	case <-k.ready:
		t.Fatal("ready before the first process said so")
	default:
	}
	fmt.Fprintln(f.f, `{"ID":0}`)
	<-k.ready
	// Answers come in any order; those that nobody waits for are dropped.
	a, aAnswer, err := k.ask(request{Op: "exec", Args: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan request, 2)
	go func() { // a long request is not sent before somebody reads
		got <- f.next(t)
		got <- f.next(t)
	}()
	b, bAnswer, err := k.ask(request{Op: "exec", Args: []string{strings.Repeat("b", 1<<20)}})
	if err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.ID != a || r.Args[0] != "a" {
		t.Errorf("got %+v", r)
	}
	if r := <-got; r.ID != b || len(r.Args[0]) != 1<<20 {
		t.Errorf("got request %d of %d bytes", r.ID, len(r.Args[0]))
	}
	fmt.Fprintf(f.f, "{\"ID\":999}\n{\"ID\":%d,\"Status\":256}\n{\"ID\":%d,\"Errno\":2}\n{\"ID\":%d}\n", b, a, a)
	if got := <-bAnswer; got.Status != 256 {
		t.Errorf("got %+v", got)
	}
	if got := <-aAnswer; got.Errno != 2 {
		t.Errorf("got %+v", got)
	}
	if _, _, err := k.ask(request{Op: "exec", Args: []string{strings.Repeat("x", maxRequest)}}); !errors.Is(err, errTooLong) {
		t.Errorf("got %v", err)
	}
	if _, err := k.call(t.Context(), time.Millisecond, request{Op: "kill"}); err == nil {
		t.Error("got an answer from nobody")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.call(ctx, time.Minute, request{Op: "kill"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(k.wait) != 0 {
		t.Errorf("%d requests are still waited for", len(k.wait))
	}
	_ = f.f.Close()
	<-k.done
	if _, err := k.call(t.Context(), time.Minute, request{Op: "kill"}); !errors.Is(err, errGone) {
		t.Errorf("got %v", err)
	}
}

// The first process is ours, but is believed nothing that could hang or fill us.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{"{}\n", "{\"ID\":1}\n{\"ID\":1,\"Status\":9}\n", "x\n", "\n", strings.Repeat("x", maxAnswer+1), "{\"ID\":1e99}\n", "{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, c := pair(t)
		go func() { _, _ = c.f.Write(b); _ = c.f.Close() }()
		<-k.done
		if _, _, err := k.ask(request{Op: "kill"}); !errors.Is(err, errGone) {
			t.Errorf("got %v", err)
		}
	})
}
