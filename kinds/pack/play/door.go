package play

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

// serveDoor serves HTTP on loopback, for one box only: inside it listens on listen.
func serveDoor(inside http.Handler, listen string) (door sandbox.Door, stop func(), err error) {
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return door, nil, fmt.Errorf("make a token: %w", err)
	}
	token := hex.EncodeToString(secret)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return door, nil, fmt.Errorf("listen for tools: %w", err)
	}
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if subtle.ConstantTimeCompare([]byte(r.Header.Get(mockToken)), []byte(token)) != 1 {
				http.Error(w, "not for you", http.StatusForbidden)
				return
			}
			inside.ServeHTTP(w, r)
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends with stop
	}()
	return sandbox.Door{Listen: listen, Target: "http://" + ln.Addr().String(), Header: map[string]string{mockToken: token}},
		func() { _ = srv.Close(); <-done }, nil
}
