package traceparent

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestValid(t *testing.T) {
	if !Valid(good) || Of(With(t.Context(), good)) != good {
		t.Error(good)
	}
	for _, bad := range []string{
		"", good[1:], good + "0", strings.ToUpper(good), "01" + good[2:], "00-" + strings.Repeat("0", 32) + good[35:], good[:36] + strings.Repeat("0", 16) + "-01",
		strings.Replace(good, "-01", "-0x", 1), strings.Replace(good, "-01", "\n01", 1), strings.Replace(good, "0af7", "0ag7", 1),
	} {
		if Valid(bad) || Of(With(t.Context(), bad)) != "" {
			t.Errorf("%q is a place", bad)
		}
	}
}

// What is a place here is one to OpenTelemetry.
func FuzzValid(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, s string) {
		if !Valid(s) {
			return
		}
		ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": s})
		if c := trace.SpanContextFromContext(ctx); !c.IsValid() || !c.IsRemote() {
			t.Fatalf("%q: %v", s, c)
		}
	})
}
