package roles

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/starting"
)

// roomy lets the heap of a long-lived server grow, unless GOGC says otherwise. The result
// puts back what was.
func roomy(getenv func(string) string) (back func()) {
	if getenv != nil && getenv("GOGC") != "" {
		return func() {}
	}
	return starting.Roomy()
}

// uploadPerDay reads AGON_UPLOAD_PER_DAY, in bytes; 0 is the default of the platform.
func uploadPerDay(getenv func(string) string) (int64, error) {
	if getenv == nil || getenv("AGON_UPLOAD_PER_DAY") == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(getenv("AGON_UPLOAD_PER_DAY"), 10, 64)
	if err != nil || n < 1 {
		return 0, &agon.Error{Code: "bad_setting", Status: 422, Field: "AGON_UPLOAD_PER_DAY", Message: "want a number of bytes above 0", Mend: "for example 34359738368 (32 GiB), or unset it"}
	}
	return n, nil
}

// Bounds of AGON_PROVIDER_WAITS: a run that waits longer than it may stand in the queue is
// never played.
const (
	longestProviderWait = 12 * time.Hour
	maxProviderWaits    = 16
)

// providerWaits reads AGON_PROVIDER_WAITS: durations with blanks or commas between; "0" means no waits.
func providerWaits(getenv func(string) string) ([]time.Duration, error) {
	text := ""
	if getenv != nil {
		text = getenv("AGON_PROVIDER_WAITS")
	}
	switch strings.TrimSpace(text) {
	case "":
		return []time.Duration{20 * time.Second, time.Minute, 3 * time.Minute}, nil
	case "0":
		return nil, nil
	}
	var list []time.Duration
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		d, err := time.ParseDuration(w)
		if err != nil || d <= 0 || d > longestProviderWait || len(list) == maxProviderWaits {
			return nil, &agon.Error{Code: "bad_setting", Status: 422, Field: "AGON_PROVIDER_WAITS", Message: fmt.Sprintf("want up to %d durations above 0 and up to %s, or 0", maxProviderWaits, longestProviderWait), Mend: `for example "20s 60s 180s", or unset it`}
		}
		list = append(list, d)
	}
	return list, nil
}
