package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/agon-arena/agon/auth"
)

func ExampleKeyFromURI() {
	key, err := auth.KeyFromURI("//Alice") // everybody's key: for tests only
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key.SS58())
	sig, err := key.Sign([]byte("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(auth.Verify(key.SS58(), []byte("hello"), sig))
	fmt.Println(auth.Verify(key.SS58(), []byte("hallo"), sig))
	// Output:
	// 5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY
	// <nil>
	// signature does not hold
}

// A server learns who signed a request. The same request is not taken twice.
func ExampleVerifier_Verify() {
	key, err := auth.KeyFromURI("//Bob")
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	body := []byte(`{"name":"putter"}`)
	r, err := http.NewRequest(http.MethodPost, "https://arena.example/v1/arenas/golf/submissions", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := auth.SignRequest(r, body, key, "arena.example", now); err != nil {
		fmt.Println(err)
		return
	}
	clock := func() time.Time { return now }
	v := &auth.Verifier{Audience: "arena.example", Now: clock, Replay: auth.NewMemoryReplay(clock)}
	for range 2 {
		hotkey, refused := v.Verify(context.Background(), r.Method, auth.RequestTarget(r), r.Header, body)
		if refused != nil {
			fmt.Println(refused.Status, refused.Code)
			continue
		}
		fmt.Println(hotkey == key.SS58())
	}
	// Output:
	// true
	// 401 replayed
}
