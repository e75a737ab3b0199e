package roles

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

func TestProviderWaits(t *testing.T) {
	for _, c := range []struct {
		text string
		want []time.Duration
		bad  bool
	}{
		{"", []time.Duration{20 * time.Second, time.Minute, 3 * time.Minute}, false},
		{"0", nil, false},
		{"5s, 1m", []time.Duration{5 * time.Second, time.Minute}, false},
		{"soon", nil, true},
		{"-1s", nil, true},
		{"13h", nil, true},
		{"1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s", nil, true},
	} {
		got, err := providerWaits(func(string) string { return c.text })
		var e *agon.Error
		if bad := errors.As(err, &e); bad != c.bad || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v", c.text, got, err)
		} else if bad && e.Field != "AGON_PROVIDER_WAITS" {
			t.Errorf("%q: the error names %q", c.text, e.Field)
		}
	}
}
