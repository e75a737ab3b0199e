package commands

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"

	"github.com/agon-arena/agon/kinds/pack/consensus"
)

//go:embed audit.html
var auditHTML string

// auditForm escapes all that it shows: hotkeys and reasons come from others.
var auditForm = template.Must(template.New("audit").Funcs(template.FuncMap{
	"share": func(w uint16) string { return fmt.Sprintf("%.2f %%", 100*float64(w)/65535) },
	"part":  func(f float64) string { return fmt.Sprintf("%.0f %%", 100*f) },
	"usd":   func(f float64) string { return fmt.Sprintf("$%.6f", f) },
}).Parse(auditHTML))

// auditPage is an audit as one page without scripts or anything from elsewhere.
// The same audit gives the same bytes.
func auditPage(r *consensus.Audited) ([]byte, error) {
	var b bytes.Buffer
	if err := auditForm.Execute(&b, r); err != nil {
		return nil, fmt.Errorf("write the page: %w", err)
	}
	return b.Bytes(), nil
}
