// What only the tests of this package need.

package platform

import "fmt"

// ResultID names the result of an attempt in the log.
func ResultID(run string, attempt int) string { return fmt.Sprintf("%s/%d", run, attempt) }
