package trajectory

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// call is the data of a model call whose request is body.
func call(t testing.TB, body, reply string) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(gateway.ModelCall{
		Receipt: agon.Receipt{ID: "r", Model: "m", Payer: "run"}, Request: gateway.Body{Text: body, Bytes: int64(len(body))}, Message: &gateway.Message{Content: reply},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sameTurns fails where the reader and encoding/json read calls differently.
func sameTurns(t *testing.T, calls ...json.RawMessage) {
	t.Helper()
	var r reader
	for i, c := range calls {
		got, chat, ok := r.turn(c)
		want, wantChat, wantOK := slowTurn(c)
		if chat != wantChat || ok != wantOK || len(got.messages) != len(want.messages) {
			t.Fatalf("call %d: chat %v ok %v with %d messages, want %v %v %d\n%s", i, chat, ok, len(got.messages), wantChat, wantOK, len(want.messages), c)
		}
		for j := range got.messages {
			x, y := got.messages[j], want.messages[j]
			x.Content, y.Content = nil, nil // another spelling of the same
			if !reflect.DeepEqual(x, y) {
				t.Fatalf("call %d, message %d: %+v, want %+v", i, j, x, y)
			}
		}
		var a, b any
		if json.Unmarshal(got.tools, &a) == nil != (json.Unmarshal(want.tools, &b) == nil) || !reflect.DeepEqual(a, b) {
			t.Fatalf("call %d: tools %s, want %s", i, got.tools, want.tools)
		}
		w := want.receipt
		w = agon.Receipt{ID: w.ID, Model: w.Model, Provider: w.Provider, Payer: w.Payer, Cost: w.Cost}
		if !reflect.DeepEqual(got.receipt, w) || (chat && got.reply.text() != want.reply.text()) || got.finish != want.finish || got.cut != want.cut {
			t.Fatalf("call %d: %+v, want %+v", i, got, want)
		}
	}
}

func TestReaderReadsAsJSONDoes(t *testing.T) {
	msg := func(n int) string {
		return fmt.Sprintf(`{"role":"user","content":"%d \"x\" \\ \u00e9 \ud83d\ude42 A\ud83d\ude42 \n é %s"}`, n, strings.Repeat("word ", n*37))
	}
	list := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, msg(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	var grows, late, early []json.RawMessage
	for n := 1; n < 12; n++ {
		grows = append(grows, call(t, `{"model":"m","messages":`+list(n)+`,"tools":[{"a":1}]}`, "ok"))
		late = append(late, call(t, fmt.Sprintf(`{"n":%d,"tools":[%d],"messages":%s}`, n, n, list(n)), "ok"))
		early = append(early, call(t, `{"tools":[{"b":[1]}],"messages":`+list(13-n)+`}`, "ok"))
	}
	sameTurns(t, grows...)
	sameTurns(t, late...)
	sameTurns(t, early...)
	sameTurns(t, append(append(early, late...), grows...)...)
	for _, odd := range []string{
		`{"messages":[],"tools":[]}`, `{"messages":null}`, `{"Messages":[{"role":"user"}]}`, `{"messages":[{"role":"user"}],"messages":[{"role":"x"},{"role":"y"}]}`,
		`{"messages":[{"role":"user"}]} x`, `{"messages":[{"role":"user"}],}`, `{"messages":[{"role":"user"},]}`, `{"messages":[{"role":"user"}],"t":tru}`, `[1]`, ``, `{`, `{"messages":[1]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"text":"b"}]}]}`, `{"tools":1,"messages":[{"role":"u"}],"tools":2}`, "{\"messages\":[{\"role\":\"\x01\"}]}",
	} {
		sameTurns(t, call(t, odd, "x"), grows[3], call(t, odd, "y"), grows[4])
	}
}

func FuzzReader(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"\ud83d\ude42"}],"tools":[1]}`)
	f.Add(`{"messages":[{"role":"user","content":"`+strings.Repeat("a ", 600)+`"}]}`, `{"messages":[{"role":"user","content":"`+strings.Repeat("a ", 600)+`"},{}]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		sameTurns(t, call(t, a, "x"), call(t, b, "y"), call(t, a, "z"), call(t, a+b, "z"))
		// Data that is not a model call at all.
		var r reader
		for _, s := range []string{a, b} {
			if json.Valid([]byte(s)) {
				r.turn(json.RawMessage(s))
			}
		}
	})
}
