package openai

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCheckCredential(t *testing.T) {
	const key = "sk-planted-key-0123456789"
	for status, want := range map[int]Credential{
		200: CredentialValid, 401: CredentialInvalid, 403: CredentialInvalid, 402: CredentialNoCredit, 429: CredentialValid, 500: CredentialValid, 503: CredentialValid, 400: CredentialValid,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+key {
				t.Errorf("authorization %q", r.Header.Get("Authorization"))
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":"you sent %s"}}`, key)
		}))
		got, err := Check(context.Background(), Config{BaseURL: srv.URL, Key: key, Models: []string{"m"}})
		if err != nil || got != want {
			t.Errorf("%d: %s %v, want %s", status, got, err, want)
		}
		if bytes.Contains([]byte(fmt.Sprint(got, err)), []byte(key)) {
			t.Errorf("%d: the key is shown", status)
		}
		srv.Close()
		if status == 200 {
			got, err := Check(context.Background(), Config{BaseURL: srv.URL, Key: key, Models: []string{"m"}})
			if err != nil || got != CredentialUnreachable || strings.Contains(fmt.Sprint(err), key) {
				t.Errorf("nobody there: %s %v", got, err)
			}
		}
	}
}
