package env

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/environment"
)

// one is an environment with a task and a tool.
type one struct{}

func (one) Name() string              { return "one" }
func (one) Tasks() []environment.Task { return []environment.Task{{Key: "a", Prompt: "say a"}} }
func (one) Tools() []environment.Tool { return []environment.Tool{{Name: "say"}} }
func (one) Open(context.Context, string, int64) (environment.Episode, error) {
	return nil, nil
}

// The document has every route that is served, and no other.
func TestEveryRouteIsDescribed(t *testing.T) {
	s := &Server{Sessions: environment.NewSessions(one{}, environment.Limits{}, func() time.Time { return time.Unix(1, 0) }), Log: slog.New(slog.DiscardHandler)}
	m := &routes{mux: http.NewServeMux()}
	s.register(m)
	var served []string
	for _, p := range m.list {
		if strings.Contains(p, " /one/") {
			continue // the same with the environment's name
		}
		served = append(served, strings.Replace(p, "/say", "/{tool}", 1))
	}
	b, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	var told []string
	for path, ops := range doc.Paths {
		for method := range ops {
			told = append(told, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(told)
	if !slices.Equal(served, told) {
		t.Errorf("served %q\ndescribed %q", served, told)
	}
}

// What the document says of a run is what a run has.
func TestShapesOfRuns(t *testing.T) {
	for name, v := range map[string]any{
		"Run": environment.Run{}, "Trace": environment.Trace{}, "Turn": environment.Turn{}, "TurnMeta": environment.TurnMeta{},
		"Sample": environment.Sample{}, "Missing": environment.Missing{}, "Client": environment.Client{}, "Task": environment.Task{}, "Tool": environment.Tool{}, "Pick": pick{},
	} {
		var told []string
		for m := range strings.SplitSeq(shapes[name], ", ") {
			field, typ, _ := strings.Cut(m, " ")
			told = append(told, field)
			item := strings.TrimPrefix(typ, "[]")
			if shapes[item] == "" && !slices.Contains([]string{"any", "string", "integer", "number", "boolean", "object"}, item) {
				t.Errorf("%s.%s: there is no type %s", name, field, typ)
			}
		}
		has := reflect.TypeOf(v)
		for i := range has.NumField() {
			field, _, _ := strings.Cut(has.Field(i).Tag.Get("json"), ",")
			if !slices.Contains(told, field) {
				t.Errorf("%s: %s is not described", name, field)
			}
		}
	}
}
