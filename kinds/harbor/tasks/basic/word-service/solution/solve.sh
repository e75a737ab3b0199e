#!/bin/bash
cat > serve.py <<'PY'
import http.server
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        word = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("word", [""])[0].lower()
        with open("words.txt") as f:
            body = b"%d\n" % f.read().lower().split().count(word)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
PY
