package served

import "net/http"

// Status is a ResponseWriter that remembers the code of its reply. http.ResponseController and
// http.Flusher reach what is below.
type Status struct {
	http.ResponseWriter
	code int // 0: none was written yet
}

// Code is the code of the reply; 200 where the handler named none.
func (s *Status) Code() int {
	if s.code == 0 {
		return http.StatusOK
	}
	return s.code
}

// WriteHeader implements http.ResponseWriter. Codes below 200 come before the reply.
func (s *Status) WriteHeader(code int) {
	if s.code == 0 && code >= 200 {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (s *Status) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach deadlines, flushing and hijacking.
func (s *Status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Flush implements http.Flusher.
func (s *Status) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }
