package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// deadWire is a network whose pooled connections answer nothing until they are dropped.
type deadWire struct {
	dead    bool
	dropped int
}

func (d *deadWire) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.dead {
		return nil, context.DeadlineExceeded
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("{}")), Header: http.Header{}, Request: r}, nil
}

func (d *deadWire) CloseIdleConnections() { d.dropped++ }

// After three failures of the network in a row pooled connections are dropped, at most
// once a minute; an answer starts the count anew, and who hangs up itself counts nothing.
func TestDeadConnections(t *testing.T) {
	c, err := New("http://127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	wire, now := &deadWire{}, time.Unix(1_000_000, 0)
	c.HTTP, c.Tries, c.Now = &http.Client{Transport: wire}, 1, func() time.Time { return now }
	ask := func(dead bool, times int) {
		t.Helper()
		wire.dead = dead
		for range times {
			if _, err := c.Arena(t.Context(), "a"); (err != nil) != dead {
				t.Fatal(err)
			}
		}
	}
	ask(true, 2)
	ask(false, 1)
	ask(true, 2)
	if wire.dropped != 0 {
		t.Errorf("dropped %d times before three failures in a row", wire.dropped)
	}
	ask(true, 1)
	ask(true, 9)
	if wire.dropped != 1 {
		t.Errorf("dropped %d times in the first minute, want once", wire.dropped)
	}
	now = now.Add(time.Minute)
	ask(true, 1)
	if wire.dropped != 2 {
		t.Errorf("dropped %d times after a minute, want twice", wire.dropped)
	}
	now = now.Add(time.Minute)
	for range 5 {
		c.heard(errors.Join(context.Canceled))
	}
	if wire.dropped != 2 {
		t.Error("requests that were given up here count as failures")
	}
}
