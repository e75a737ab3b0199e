package play

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// In the agent's box providers are called by their names over HTTPS, by libraries as
// they are, and it is the gateway that answers. Who does not trust the box's own
// authority sees through it.
func TestProvidersHosts(t *testing.T) {
	t.Parallel()
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	}))
	defer gate.Close()
	k, d := newKind(t)
	e := newEnv(t, d, calcTask(t), `
import os, ssl, urllib.request

def agent_main(input):
    ask = lambda url, **more: urllib.request.urlopen(url, **more).read().decode()
    assert ask("https://openrouter.ai/api/v1/chat/completions", data=b"{}") == "POST /api/v1/chat/completions"
    assert ask("https://llm.chutes.ai/v1/models") == "GET /v1/models"
    import requests
    assert requests.get("https://api.openai.com/v1/models").text == "GET /v1/models"
    assert ask("http://127.0.0.1:8000/v1/models") == "GET /v1/models"
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody
    for url, more in (("https://openrouter.ai/", {"context": bare}), ("https://127.0.0.1/", {}), ("https://pypi.org/", {})):
        try:
            ask(url, **more)
        except OSError as err:
            print(err)
        else:
            raise AssertionError(url)
    assert not [f for f in os.listdir("/agon-ca") if f != "ca.pem"], os.listdir("/agon-ca")
    assert "PRIVATE" not in open(os.environ["SSL_CERT_FILE"]).read()
    print("all there")
    return ""
`)
	e.door = gate.URL
	rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, runSpec())
	if err != nil {
		t.Fatal(err)
	}
	if rec.Outcome != agon.OutcomeEmpty || !strings.Contains(string(rec.Files[FileStdout]), "all there") || strings.Count(string(rec.Files[FileStdout]), "CERTIFICATE_VERIFY_FAILED") != 2 {
		t.Errorf("%q %q\n%s\n%s", rec.Outcome, rec.Detail, rec.Files[FileStdout], rec.Files[FileStderr])
	}
}

// An arena whose policy leaves the names out gives its agents neither names nor an authority.
func TestProvidersHostsOff(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	e := newEnv(t, d, calcTask(t), `
import os, socket

def agent_main(input):
    for host in ("openrouter.ai", "api.openai.com", "llm.chutes.ai"):
        try:
            socket.getaddrinfo(host, 443)
        except OSError:
            continue
        raise AssertionError(host)
    socket.create_connection(("sandbox-proxy", 80)).close()
    assert "SSL_CERT_FILE" not in os.environ and not os.path.exists("/agon-ca")
    print("not there")
    return ""
`)
	r := runSpec()
	r.Policy.Hosts = agon.HostsNone
	rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, r)
	if err != nil || rec.Outcome != agon.OutcomeEmpty || !strings.Contains(string(rec.Files[FileStdout]), "not there") {
		t.Errorf("%q %q %v\n%s", rec.Outcome, rec.Detail, err, rec.Files[FileStderr])
	}
}
