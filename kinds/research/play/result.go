package play

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// maxMetrics bounds the numbers that are kept of a result besides the task's own.
const maxMetrics = 64

// rejectionMark is what a benchmark prints to reject a submission.
var rejectionMark = lazyregexp.New(`validator_rejection=([A-Za-z0-9_.-]{1,80})`)

// parseResultFile reads the JSON that a benchmark left: in this order
// {"metric_name": M, "metric_value": x}, {"metrics": {M: x}}, {M: x}. Numbers
// must be finite; the other numbers of "metrics" come along.
func parseResultFile(raw []byte, metric string) (map[string]float64, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("the result file is not UTF-8")
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(raw, &doc); err != nil || doc == nil {
		// Python writes NaN and Infinity, which JSON does not have.
		return nil, errors.New("the result file is not a JSON object of finite numbers")
	}
	out := map[string]float64{}
	var metrics map[string]json.RawMessage
	if m, ok := doc["metrics"]; ok {
		if err := json.Unmarshal(m, &metrics); err != nil {
			return nil, errors.New(`"metrics" of the result file is not an object`)
		}
	}
	for _, name := range sortedKeys(metrics) {
		if x, err := finite(metrics[name]); err == nil && name != metric && len(out) < maxMetrics && metricForm().MatchString(name) && len(name) <= maxName {
			out[name] = x
		}
	}
	var value json.RawMessage
	var named string
	switch {
	case json.Unmarshal(doc["metric_name"], &named) == nil && named == metric && doc["metric_value"] != nil:
		value = doc["metric_value"]
	case metrics[metric] != nil:
		value = metrics[metric]
	case doc[metric] != nil:
		value = doc[metric]
	default:
		return nil, fmt.Errorf("the result file does not have the metric %s", metric)
	}
	x, err := finite(value)
	if err != nil {
		return nil, fmt.Errorf("the metric %s of the result file is %w", metric, err)
	}
	out[metric] = x
	return out, nil
}

// finite reads a JSON number; nothing else passes, not even null.
func finite(raw json.RawMessage) (float64, error) {
	s := string(bytes.TrimSpace(raw))
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return 0, errors.New("not a number")
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, errors.New("not a finite number")
	}
	return x, nil
}

// parseResultText takes the last "metric: x" or "metric=x" of a benchmark's
// output, of any case. If what stands there last is not a number it is an error:
// an earlier number is not what the benchmark came to.
func parseResultText(out []byte, metric string) (map[string]float64, error) {
	re := regexp.MustCompile(`(?i)(?:^|[^\w])` + regexp.QuoteMeta(metric) + `\b["']?\s*[:=]\s*([^\s,;]*)`)
	all := re.FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return nil, fmt.Errorf("the output does not have the metric %s", metric)
	}
	s := string(all[len(all)-1][1])
	if m := plainNumber().FindString(s); m == "" || len(m) != len(strings.TrimRight(s, ".)]}\"'")) {
		return nil, fmt.Errorf("the metric %s of the output is %.40q, not a finite number", metric, plain.Short(s, 40))
	}
	x, err := strconv.ParseFloat(plainNumber().FindString(s), 64)
	if err != nil || math.IsInf(x, 0) {
		return nil, fmt.Errorf("the metric %s of the output is not a finite number", metric)
	}
	return map[string]float64{metric: x}, nil
}

var plainNumber = lazyregexp.New(`^[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?`)

// redact hides secrets in a log. It runs after the metric was read, so that a
// secret like "1234" cannot change a number.
func redact(log []byte, secrets []string) []byte {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the longest first: one may hold another
	for _, s := range secrets {
		for line := range strings.SplitSeq(s, "\n") {
			if line = strings.TrimSpace(line); len(line) >= minSecret {
				log = bytes.ReplaceAll(log, []byte(line), []byte("[REDACTED]"))
			}
		}
	}
	return log
}

// minSecret is the shortest value that is hidden: shorter ones are words of any log.
const minSecret = 4

// tail keeps the last limit bytes written to it.
type tail struct {
	limit   int
	buf     []byte
	dropped int64
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.limit {
		n := len(t.buf) - t.limit
		t.dropped += int64(n)
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte {
	if n := len(t.buf) - t.limit; n > 0 {
		return t.buf[n:]
	}
	return t.buf
}
