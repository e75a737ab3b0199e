package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
)

func newServer(t testing.TB) (*local.Ledger, *Server) {
	t.Helper()
	l, err := local.Open(context.Background(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := l.EnsureSubnet(context.Background(), 1, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold")}); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Ledger: l, Genesis: "test", Replay: l, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return l, s
}

func ask(t testing.TB, s *Server, body string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(body)))
	return w.Body.String()
}

// TestMetadata makes the metadata again and reads both versions.
func TestMetadata(t *testing.T) {
	to := filepath.Join(t.TempDir(), "m")
	if out, err := exec.Command("go", "run", "./gen", "../scale/testdata/spec-424.scale", to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := os.ReadFile(to)
	if err != nil || !bytes.Equal(made, runtime) {
		t.Errorf("runtime.scale is not what gen makes: run go generate (%v)", err)
	}
	_, s := newServer(t)
	for _, b := range [][]byte{s.v14, s.v15} {
		m, err := scale.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, c, err := m.Call("SubtensorModule", "set_weights"); err != nil || c.Index != 0 {
			t.Errorf("set_weights: %v %v", c, err)
		}
	}
}

// TestStorage reads every item under every key that is listed.
func TestStorage(t *testing.T) {
	_, s := newServer(t)
	items := 0
	for _, p := range s.meta.Pallets {
		for _, item := range p.Storage {
			prefix, err := s.meta.StorageKey(p.Name, item.Name)
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.reading(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			all, err := r.list(prefix)
			if err != nil {
				t.Errorf("%s.%s: %v", p.Name, item.Name, err)
			}
			for _, k := range all {
				b, err := r.stored(k)
				if err != nil || b == nil {
					t.Errorf("%s.%s: %x %v", p.Name, item.Name, b, err)
				} else if _, err := s.meta.DecodeStorage(p.Name, item.Name, b); err != nil {
					t.Error(err)
				}
				items++
			}
		}
	}
	if items < 40 {
		t.Errorf("only %d values", items)
	}
}

func TestRequests(t *testing.T) {
	_, s := newServer(t)
	for _, x := range []struct{ body, want string }{
		{`{"id":1,"method":"system_chain","params":[]}`, `"result":"agon"`},
		{`[{"id":1,"method":"system_name"},{"id":2,"method":"nothing"}]`, `-32601`},
		{`{`, `-32700`},
		{`[]`, `-32600`},
		{`{"id":1,"method":"state_getStorage","params":["0xzz"]}`, `-32602`},
		{`{"id":1,"method":"chain_getBlock","params":["0x` + strings.Repeat("11", 32) + `"]}`, `Header was not found`},
		{`{"id":1,"method":"chain_getBlockHash","params":[99]}`, `"result":null`},
		{`{"id":1,"method":"author_submitExtrinsic","params":["0x0484"]}`, `1002`},
		{`{"id":1,"method":"state_getKeysPaged","params":["0x",100000]}`, `4002`},
		{`{"id":1,"method":"state_call","params":["Core_version","0x"]}`, `"result":"0x`},
		{`{"id":1,"method":"state_call","params":["Nothing_at_all","0x"]}`, `is not found`},
		{`{"id":1,"method":"state_call","params":["SubnetInfoRuntimeApi_get_selective_metagraph","0x0100083400ff00"]}`, `"result":"0x01`},
		{`{"id":1,"method":"state_call","params":["SubnetInfoRuntimeApi_get_metagraph","0x0900"]}`, `"result":"0x00"`},
		{`{"id":1,"method":"state_call","params":["NeuronInfoRuntimeApi_get_neurons_lite","0x0100"]}`, `"result":"0x04`},
		{`{"id":1,"method":"state_call","params":["SubnetInfoRuntimeApi_get_subnet_state","0x0100"]}`, `"result":"0x01`},
	} {
		if got := ask(t, s, x.body); !strings.Contains(got, x.want) {
			t.Errorf("%s: %s, want %s", x.body, got, x.want)
		}
	}
}

// TestReplay sends an extrinsic twice, to the same server and to one that
// starts anew on the same ledger.
func TestReplay(t *testing.T) {
	l, s := newServer(t)
	key, err := auth.KeyFromURI("//owner")
	if err != nil {
		t.Fatal(err)
	}
	call, err := s.meta.EncodeCall("System", "remark", []any{scale.Bytes("x")})
	if err != nil {
		t.Fatal(err)
	}
	extra, err := s.meta.Extra([]byte{0}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	additional, err := s.meta.Additional(s.chain(), s.hashOf(0))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := key.Sign(scale.Payload(call, extra, additional))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := auth.ParseSS58(key.SS58())
	if err != nil {
		t.Fatal(err)
	}
	x := scale.Extrinsic{Signer: pub, Signature: sig, Extra: extra, Call: call}
	send := func(s *Server) string {
		b, err := json.Marshal(hexed(x.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		return ask(t, s, `{"id":1,"method":"author_submitExtrinsic","params":[`+string(b)+`]}`)
	}
	if got := send(s); !strings.Contains(got, `"result":"0x`) {
		t.Fatal(got)
	}
	if got := send(s); !strings.Contains(got, "outdated") {
		t.Errorf("twice: %s", got)
	}
	again, err := New(Config{Ledger: l, Genesis: "test", Replay: l})
	if err != nil {
		t.Fatal(err)
	}
	if got := send(again); !strings.Contains(got, "outdated") {
		t.Errorf("after a restart: %s", got)
	}
	fresh, _ := newServer(t)
	other, err := New(Config{Ledger: fresh, Genesis: "another", Replay: fresh})
	if err != nil {
		t.Fatal(err)
	}
	if got := send(other); !strings.Contains(got, "bad signature") {
		t.Errorf("on another ledger: %s", got)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"state_getKeysPaged","params":["0x658faa385070e074c85bf6b568cf05557641384bb339f3758acddfd7053d3317",5]}`))
	f.Add([]byte(`{"id":1,"method":"author_submitExtrinsic","params":["0x0484"]}`))
	f.Add([]byte(`[{"method":"state_call","params":["SubnetInfoRuntimeApi_get_metagraph","0x0100"]}]`))
	_, s := newServer(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := json.Marshal(s.read(t.Context(), b, nil)); err != nil {
			t.Error(err)
		}
	})
}
