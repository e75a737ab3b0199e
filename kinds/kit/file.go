package kit

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/agon-arena/agon"
)

// readBounded reads a regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "file", Message: "there is no file " + path, Mend: "check the path; `agon agent new KIND DIR` writes a file to start from"}
		}
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Mode()&fs.ModeType != 0 {
		return nil, &agon.Error{Code: "not_a_file", Status: 422, Field: "file", Message: path + " is not a regular file"}
	}
	if st.Size() > limit {
		return nil, &agon.Error{Code: "too_large", Status: 413, Field: "file", Limit: fmt.Sprintf("%d bytes", limit), Message: path + " is too large"}
	}
	return os.ReadFile(path)
}
