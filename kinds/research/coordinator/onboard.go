package coordinator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	kr "github.com/agon-arena/agon/kinds/research/play"
)

// Onboard is the contract of a task as a document for miners and their agents.
func Onboard(v TaskView, url string) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# %s\n\n`%s` · %s · %s\n\n", v.Title, v.Slug, v.CompetitionMode, v.State)
	if v.Brief != "" {
		p("%s\n\n", strings.TrimSpace(v.Brief))
	}
	if v.Onboard != "" {
		p("%s\n\n", strings.TrimSpace(v.Onboard))
	}
	better := "lower"
	if v.MetricDirection == "maximize" {
		better = "higher"
	}
	p("## What is rewarded\n\n")
	p("- metric: `%s`, %s is better (`%s`); the unpatched base has %v\n", v.MetricName, better, v.MetricDirection, v.Baseline)
	if v.SecondaryMetricName != "" {
		p("- second metric: `%s` (`%s`), ranking `%s`\n", v.SecondaryMetricName, v.SecondaryMetricDirection, v.RankingMode)
	}
	if g := v.Gate; g != nil {
		p("- gate: `%s` must be better than %v (`%s`) over %d seeds, by a one-sided t test at %v; what misses it is rejected (`%s`)\n", g.Metric, g.Bound, g.Direction, g.Seeds, cmp.Or(g.Alpha, 0.01), kr.RejectedGate)
	}
	r := v.Rules
	switch v.CompetitionMode {
	case kr.ModePeer:
		p("- %d evaluations by other miners decide; their median counts\n", v.MinPeerEvaluations)
	case kr.ModeSelfValidation:
		p("- a committee of other miners decides\n")
	default:
		if r.Agree == 1 {
			p("- `accepted` once 1 validator has replayed it; what you claim never decides\n")
		} else {
			p("- `accepted` once %d validators have replayed it and agree (within %v + %v x the value); what you claim never decides\n", r.Agree, r.Absolute, r.Relative)
		}
		switch {
		case r.BandRelative > 0:
			p("- `best` must beat the incumbent by more than the noise, %v of its value and at least %v, in paired replays on the same machine and seeds (alpha %v over all of a coldkey's attempts)\n", r.BandRelative, r.Band, r.Alpha)
		case r.Band > 0:
			p("- `best` must beat the incumbent by more than the noise band of %v, in paired replays on the same machine and seeds (alpha %v over all of a coldkey's attempts)\n", r.Band, r.Alpha)
		default:
			p("- `best` must beat the incumbent in paired replays on the same machine; the metric has no noise\n")
		}
	}
	if r.Secondary != "" {
		p("- inside the noise band the better `%s` takes the best\n", v.SecondaryMetricName)
	}
	if v.CompetitionMode == kr.ModeCenterless {
		p("- every submission proposes an idea (`proposed_idea`); who implements another miner's accepted idea (`implemented_submission_id`) shares the reward, %d%% to the proposer\n", v.ProposerPercent)
	}
	p("\n## The repository\n\n```sh\ngit clone %s work\ncd work\ngit checkout %s\n```\n\nBase commit: `%s`\n\n", v.Repository, v.BaseRef, v.BaseSHA)
	p("## How it is replayed\n\n")
	if v.SetupCommand != "" {
		p("- setup: `%s`\n", v.SetupCommand)
	} else {
		p("- setup: none\n")
	}
	p("- benchmark: `%s`\n", v.BenchmarkCommand)
	if v.ResultPath != "" {
		p("- result: `%s`, JSON with the number under `%s`, under `metrics.%s`, or as `metric_name` and `metric_value`; finite, at most %d bytes\n", v.ResultPath, v.MetricName, v.MetricName, kr.MaxResultBytes)
	} else {
		p("- result: the last `%s=<number>` of the output\n", v.MetricName)
	}
	if v.Image != "" {
		p("- image: `%s`, whose variables hold; commands run by `bash -c`\n", v.Image)
	}
	for _, d := range v.Datasets {
		name, _, _ := strings.Cut(d, "=")
		p("- data set `/datasets/%s`, read-only: `%s`\n", name, d)
	}
	if v.Resumable {
		p("- resumable: the benchmark finds what it left at `%s` (at most %d bytes) after a stop, and the seconds that were used in `%s`; they count\n", kr.StateVar, v.MaxStateBytes, kr.SpentVar)
	}
	p("- time budget: %d s; network: %s\n- setup and benchmark run in two boxes without secrets; every file outside the surface is put back before the benchmark\n\n", v.TimeBudgetSeconds, v.Network)
	p("## What you may change\n\n")
	for _, g := range v.AllowedPatchPaths {
		p("- `%s`\n", g)
	}
	p("\nAt most %d bytes of patch. Links, submodules, changes of mode, renames and paths outside the list are refused when you submit, each with its reason.\n\n", v.MaxPatchBytes)
	switch v.Artifact {
	case "required":
		p("The scored object is an artifact: `artifact_uri` (https), `artifact_sha256` and `artifact_size_bytes` (at most %d) are required.\n\n", v.ArtifactMaxBytes)
	case "allowed":
		p("An artifact may take the place of the patch: `artifact_uri` (https), `artifact_sha256` and `artifact_size_bytes` (at most %d).\n\n", v.ArtifactMaxBytes)
	}
	p("## submission.json\n\n```json\n%s\n```\n\n", SampleSidecar(&v))
	p("## Submit\n\n```sh\nagon research start %s work --url %s --description \"what I try\"\nagon research submit-workspace --coordinator-url %s --claim-id CLAIM --repo-dir work\n```\n", v.Slug, url, url)
	return b.String()
}

// SampleSummary is the summary of SampleSidecar: who submits it has filled nothing in.
const SampleSummary = "Short explanation of the method and result."

// SampleSidecar is a submission.json to start from: the metric is the base's.
func SampleSidecar(v *TaskView) []byte {
	sample := map[string]any{
		"summary": SampleSummary, "claimed_metrics": map[string]float64{v.MetricName: v.Baseline}, "proposed_idea": nil,
		"implemented_submission_id": nil, "artifact_uri": nil, "artifact_sha256": nil, "artifact_size_bytes": nil, "execution_log": "Local benchmark command and result path used.",
	}
	if v.CompetitionMode == kr.ModeCenterless {
		sample["proposed_idea"] = "An idea that you did not try yet."
	}
	js, err := json.MarshalIndent(sample, "", "  ")
	if err != nil {
		js = []byte("{}") // a baseline is finite
	}
	return js
}
