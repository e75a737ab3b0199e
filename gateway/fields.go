package gateway

import (
	"fmt"
	"slices"
)

// Groups of fields that a policy names, and what may become of them.
const (
	fieldsSampling      = "sampling"       // temperature, top_p, penalties, seed
	fieldsRouting       = "routing"        // which server answers, at which price
	fieldsProviderTools = "provider_tools" // tools that the provider runs
	fieldsMedia         = "media"          // images, audio, files
	fieldsState         = "state"          // what the provider would keep
	fieldsN             = "n"              // more than one answer a call

	fieldAllow  = "allow"
	fieldStrip  = "strip"
	fieldRefuse = "refuse"
)

// FieldGroups lists the groups that Policy.Fields may name.
var FieldGroups = []string{fieldsSampling, fieldsRouting, fieldsProviderTools, fieldsMedia, fieldsState, fieldsN}

// FieldRules are a session's rules for groups of fields (Policy.Fields).
type FieldRules map[string]string

func (r FieldRules) strips(group string) bool { return r[group] == fieldStrip }

// checkFields refuses rules that the gateway cannot keep. Only sampling can be
// allowed: the rest would spend what no budget has reserved, or go where no
// receipt follows.
func checkFields(rules map[string]string) error {
	for group, rule := range rules {
		switch {
		case !slices.Contains(FieldGroups, group):
			return fmt.Errorf("field policy: unknown group %q", group)
		case rule == fieldStrip, rule == fieldRefuse:
		case rule == fieldAllow && group == fieldsSampling:
		case rule == fieldAllow:
			return fmt.Errorf("field policy: %s cannot be allowed", group)
		default:
			return fmt.Errorf("field policy: %s: want refuse or strip, not %q", group, rule)
		}
	}
	return nil
}

var samplingField = map[string]bool{
	"temperature": true, "top_p": true, "frequency_penalty": true, "presence_penalty": true, "seed": true,
}

// groupOf is the group of a dangerous field by the reason for which it is one.
func groupOf(why string) string {
	switch why {
	case whyOne:
		return fieldsN
	case whyTools:
		return fieldsProviderTools
	case whyText:
		return fieldsMedia
	case whyState, whyOldTools, whyOldChoice:
		return fieldsState
	}
	return fieldsRouting
}

// Why a field is dangerous.
const (
	whyOne       = "only one answer per call"
	whyTools     = "no tools of the provider"
	whyState     = "no state at the provider"
	whyText      = "text only"
	whyOldTools  = "use tools"
	whyOldChoice = "use tool_choice"
)

// dangerous fields buy something other than tokens, keep state at the
// provider, choose where the call goes, or change its price. They are refused
// by name, so that nobody believes that they work. All other unknown fields are dropped.
var dangerous = map[string]string{
	"best_of":              whyOne,
	"functions":            whyOldTools,
	"function_call":        whyOldChoice,
	"web_search_options":   whyTools,
	"search_parameters":    whyTools,
	"plugins":              whyTools,
	"mcp_servers":          whyTools,
	"store":                whyState,
	"metadata":             whyState,
	"previous_response_id": whyState,
	"conversation":         whyState,
	"background":           whyState,
	"file_ids":             whyState,
	"attachments":          whyState,
	"modalities":           whyText,
	"audio":                whyText,
	"prediction":           "it is billed beyond the output limit",
	"service_tier":         "it changes the price",
	"models":               "no routing",
	"route":                "no routing",
	"provider":             "no routing",
	"transforms":           "no routing",
	"preset":               "no routing",
	"base_url":             "no routing",
	"api_base":             "no routing",
	"api_key":              "no routing",
	"extra_body":           "no routing",
	"extra_headers":        "no routing",
	"fallbacks":            "no routing",
}
