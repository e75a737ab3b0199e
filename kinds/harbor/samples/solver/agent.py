"""A classic solver: it knows four forms of instruction and asks no model."""
import collections
import csv
import json
import re

SERVICE = """
import http.server
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        word = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)["word"][0]
        with open(%r) as f:
            body = str(f.read().lower().split().count(word.lower())).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""


def agent_main(input):
    text = input["instruction"]
    named = re.findall(r"`([^`]+)`", text)
    if m := re.search(r"Write exactly `([^`]+)` to `([^`]+)`", text):
        with open(m[2], "w") as f:
            f.write(m[1] + "\n")
    elif "distinct words" in text:
        with open(named[0]) as f:
            count = len(set(f.read().lower().split()))
        with open(named[1], "w") as f:
            f.write("%d\n" % count)
    elif "serves HTTP" in text:
        with open(named[0], "w") as f:
            f.write(SERVICE % named[-1])
    elif named and named[0].endswith(".csv"):
        totals = collections.Counter()
        with open(named[0]) as f:
            for row in csv.DictReader(f):
                totals[row["region"]] += int(row["amount"])
        with open("totals.json", "w") as f:
            json.dump(totals, f)
    else:
        print("no form of instruction that this agent knows")
