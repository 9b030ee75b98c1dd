"""Keeps the output of the service, which scripts/search-secrets searches.

    kept_output.py collect        a trace collector: prints its address and keeps what it receives
    kept_output.py metrics URL    keeps the metrics at this address (key: TWOSTEP_METRICS_KEY)
"""

import os
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def keep(body):
    with open(Path(os.environ["TWOSTEP_TEST_SEEN"]) / "contract.answers", "ab") as file:
        file.write(body + b"\n")


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        keep(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def collect():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["collect"]:
            collect()
        case ["metrics", url]:
            headers = {"Authorization": f"Bearer {os.environ['TWOSTEP_METRICS_KEY']}"}
            request = urllib.request.Request(url, headers=headers)
            keep(urllib.request.urlopen(request, timeout=20).read())
        case _:
            sys.exit(__doc__)
