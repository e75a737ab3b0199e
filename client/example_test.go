package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
)

// Reads need no key. Errors of the server are documents: a code for programs,
// a sentence and a way out for people.
func ExampleClient_Board() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/arenas/golf/board" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","status":404,"detail":"there is no arena chess"}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"golf","kind":"golf","submissions":[{"id":"s1","name":"putter","score":0.75,"state":"scored"}]}`)
	}))
	defer server.Close()

	c, err := client.New(server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := c.Board(context.Background(), "golf")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range b.Submissions {
		fmt.Println(s.Name, *s.Score, s.State)
	}
	_, err = c.Board(context.Background(), "chess")
	fmt.Println(client.IsCode(err, "not_found"), err)
	// Output:
	// putter 0.75 scored
	// true there is no arena chess: GET /v1/arenas/chess/board
}

// What changes something is signed with the miner's hotkey.
func ExampleClient_Submit() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // the audience of signatures
			_, _ = io.WriteString(w, `{"audience":"example"}`)
			return
		}
		fmt.Println(r.Method, r.URL.Path, "signed:", auth.Signed(r.Header))
		_, _ = io.WriteString(w, `{"id":"s1","state":"queued"}`)
	}))
	defer server.Close()

	key, err := auth.KeyFromURI("//Alice")
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.New(server.URL, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := c.Submit(context.Background(), "golf", client.SubmitRequest{
		Name: "putter", Licence: "MIT", Files: []client.File{{Path: "agent.py", Content: []byte("print(1)\n")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.ID, s.State)
	// Output:
	// POST /v1/arenas/golf/submissions signed: true
	// s1 queued
}
