package query

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"
)

// panelSize is how many items of a benchmark are asked.
const panelSize = 20

// Panel picks the items of a benchmark: by hash, the same for every run.
func Panel(dataset, scoring string, items int) ([]int, error) {
	if items < 0 || items > 1_000_000 {
		return nil, errors.New("items: want 0 to 1000000")
	}
	list := make([]int, items)
	key := make([][32]byte, items)
	for i := range list {
		list[i] = i
		key[i] = sha256.Sum256(fmt.Appendf(nil, "%s:%s:%d", dataset, scoring, i))
	}
	slices.SortFunc(list, func(a, b int) int {
		return cmp.Or(slices.Compare(key[a][:], key[b][:]), cmp.Compare(a, b))
	})
	list = list[:min(len(list), panelSize)]
	slices.Sort(list)
	return list, nil
}

// Namespaces of the ids of benchmark runs, their backing batches and tasks.
var (
	spaceRun   = uuid.MustParse("50b0cf93-f838-4336-b8df-559d24daf1d0")
	spaceBatch = uuid.MustParse("2427dcaf-ef8c-477f-822d-d8dcf0ebec2a")
	spaceTask  = uuid.MustParse("65cec579-c4a4-4966-8d3d-d3d85bc047a8")
)

// IDs of a benchmark run.
type IDs struct {
	Run   string   `json:"run_id"`
	Batch string   `json:"backing_batch_id"`
	Tasks []string `json:"task_ids"`
}

// BenchmarkIDs derives them.
func BenchmarkIDs(suite, source, dataset, scoring string, items []int) IDs {
	run := uuid.NewSHA1(spaceRun, fmt.Appendf(nil, "%s:%s:%s:%s", suite, source, dataset, scoring)).String()
	out := IDs{Run: run, Batch: uuid.NewSHA1(spaceBatch, fmt.Appendf(nil, "%s:%s", suite, run)).String(), Tasks: []string{}}
	for _, i := range items {
		out.Tasks = append(out.Tasks, uuid.NewSHA1(spaceTask, fmt.Appendf(nil, "%s:%s:%d", suite, run, i)).String())
	}
	return out
}

// Criterion is one of a weighted rubric.
type Criterion struct {
	ID      string  `json:"id"`
	Section string  `json:"section,omitempty"`
	Weight  float64 `json:"weight"`
	Verdict string  `json:"verdict"` // MET or UNMET
}

// Rubric sums what was met over what could be: negative weights are penalties.
func Rubric(list []Criterion) (float64, error) {
	sum, most := 0.0, 0.0
	seen := map[string]bool{}
	for _, c := range list {
		switch {
		case c.ID == "" || seen[c.ID]:
			return 0, fmt.Errorf("criterion %.60q: want an id that no other has", c.ID)
		case c.Weight == 0 || math.IsNaN(c.Weight) || math.IsInf(c.Weight, 0):
			return 0, fmt.Errorf("criterion %.60q: weight: want a number other than 0", c.ID)
		case c.Verdict != "MET" && c.Verdict != "UNMET":
			return 0, fmt.Errorf("criterion %.60q: verdict: want MET or UNMET", c.ID)
		}
		seen[c.ID] = true
		most += max(c.Weight, 0)
		if c.Verdict == "MET" {
			sum += c.Weight
		}
	}
	if most <= 0 {
		return 0, errors.New("no criterion has a positive weight")
	}
	return min(1, max(0, sum/most)), nil
}

// Pairwise is the grade of two judgements with the order of answers swapped:
// the miner's was first, then second.
func Pairwise(first, second string) (float64, error) {
	wins := 0.0
	for i, s := range []string{first, second} {
		switch {
		case s != "first" && s != "second":
			return 0, errors.New("preferred position: want first or second")
		case (i == 0) == (s == "first"):
			wins++
		}
	}
	return wins / 2, nil
}

// Account is what a session's calls come to.
type Account struct {
	Status    string   `json:"status"` // active or exhausted
	Used      float64  `json:"used_usd"`
	Remaining float64  `json:"remaining_usd"`
	Receipts  int      `json:"receipts"`
	Calls     []string `json:"calls"` // ok, refused or budget_exceeded
}

// Eras of the contract.
const (
	EraSeed = "seed"
	EraHead = "head"
)

// Charge books costs after the calls, as an era does: the seed refuses what does
// not fit and records nothing; later the call is recorded, and the one that
// reaches the limit raises.
func Charge(era string, budget, limit float64, costs []float64) (Account, error) {
	a := Account{Status: "active", Calls: []string{}}
	if era != EraSeed && era != EraHead {
		return a, errors.New("era: want seed or head")
	}
	if !(budget >= 0) || !(limit >= 0) || budget > 1e6 || limit > 1e6 {
		return a, errors.New("budget: want 0 to 1000000 dollars")
	}
	nano := func(v float64) int64 { return int64(math.Round(v * 1e9)) }
	used, top := int64(0), nano(limit)
	if limit == 0 {
		top = nano(budget)
	}
	for _, c := range costs {
		if !(c >= 0) || c > 1e6 {
			return a, errors.New("costs: want numbers from 0 to 1000000")
		}
		if era == EraSeed {
			if used+nano(c) > nano(budget) {
				a.Calls = append(a.Calls, "refused")
				continue
			}
			used += nano(c)
			a.Receipts++
			a.Calls = append(a.Calls, "ok")
			continue
		}
		before := used
		used += nano(c)
		a.Receipts++
		if before < top && used >= top {
			a.Status = "exhausted"
			a.Calls = append(a.Calls, "budget_exceeded")
			continue
		}
		a.Calls = append(a.Calls, "ok")
	}
	a.Used, a.Remaining = float64(used)/1e9, max(0, float64(nano(budget)-used)/1e9)
	return a, nil
}

// ProxyError names what went wrong between a validator and the platform's tool
// proxy. transport is "" where an answer came, else connect, read_timeout or reset.
func ProxyError(transport string, status int, code string) (string, error) {
	switch transport {
	case "connect":
		return "platform_tool_proxy_execution_failed", nil
	case "read_timeout":
		return "tool_timeout", nil
	case "reset":
		return "platform_interrupted", nil
	case "":
	default:
		return "", errors.New("transport: want connect, read_timeout or reset, or none")
	}
	if status >= 200 && status < 300 {
		return "", errors.New("status: that is not a failure")
	}
	if slices.Contains([]string{
		"tool_timeout", "provider_failed", "budget_exhausted", "platform_interrupted", "miner_credential_missing", "duplicate_call", "concurrency_exhausted", "unsupported_provider",
		"unsupported_model", "invalid_request", "platform_tool_proxy_denied", "platform_error", "platform_tool_proxy_grant_failed", "platform_tool_proxy_execution_failed",
	}, code) {
		return code, nil
	}
	return "platform_error", nil
}

// Blame is who a failure belongs to and what follows.
type Blame struct {
	Owner  string  `json:"owner"`                 // miner or validator
	Effect *string `json:"terminal_effect"`       // null: it is tried again
	Score  *int    `json:"score"`                 // 0 where it counts; null: nothing does
	Retry  string  `json:"retry_decision"`        // will_retry or will_not_retry
	Disq   bool    `json:"disqualifies_delivery"` // of this validator
	Reason string  `json:"error_code,omitempty"`  // as it is reported
}

// Failure says whose a failure is. attempt is of max, from 1; session says
// whether one was opened.
func Failure(code string, attempt, most int, session bool) (Blame, error) {
	if attempt < 1 || most < attempt {
		return Blame{}, errors.New("attempt: want 1 to max_attempts")
	}
	zero := 0
	text := func(s string) *string { return &s }
	last := attempt == most
	b := Blame{Retry: "will_not_retry", Reason: code}
	switch code {
	case "miner_response_invalid", "miner_unhandled_exception", "script_validation_failed", "session_budget_exhausted", "artifact_size_invalid":
		b.Owner, b.Effect, b.Score = "miner", text("task_result"), &zero
	case "timeout_miner_owned":
		b.Owner = "miner"
		if !last {
			b.Retry = "will_retry"
			break
		}
		b.Effect, b.Score = text("task_result"), &zero
	case "artifact_fetch_failed", "artifact_hash_mismatch", "artifact_staging_failed", "artifact_setup_failed", "sandbox_start_failed":
		b.Owner, b.Effect, b.Disq = "validator", text("delivery_failure"), true
	case "scoring_llm_retry_exhausted":
		b.Owner, b.Effect, b.Score, b.Disq = "validator", text("task_result"), &zero, true
	case "sandbox_invocation_failed":
		b.Owner = "validator"
		if !last {
			b.Retry = "will_retry"
			break
		}
		b.Effect, b.Score, b.Disq = text("task_result"), &zero, true
	case "unexpected_validator_failure", "validator_internal_timeout":
		b.Owner = "validator"
		switch {
		case !session:
			b.Effect, b.Disq = text("delivery_failure"), true
		case !last:
			b.Retry = "will_retry"
		default:
			b.Effect = text("attempt_failure")
		}
	default:
		return Blame{}, fmt.Errorf("code %.60q is unknown", code)
	}
	return b, nil
}
