package wire

import "testing"

func FuzzForm(f *testing.F) {
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n"))
	f.Add("multipart/form-data", []byte("x"))
	f.Fuzz(func(t *testing.T, ct string, body []byte) {
		name, source, why := readForm(ct, body)
		if why == "" && (len(name) > maxName || len(source) > maxAgent+1) {
			t.Fatal("a form beyond its limits")
		}
	})
}
