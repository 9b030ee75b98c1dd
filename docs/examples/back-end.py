"""A back end that gives the browser of a signed-in user a token for one conversation. PAGE is a file to serve.

TWOSTEP_API_KEY=tsk_... python3 back-end.py
"""
import json, os, re, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SERVICE = os.environ.get("TWOSTEP_URL", "http://127.0.0.1:8080")


def twostep(path, body):
    headers = {"Authorization": f"Bearer {os.environ['TWOSTEP_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(SERVICE + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class BackEnd(BaseHTTPRequestHandler):
    def do_POST(self):
        user = re.search(r"(?:^|; )user=(\w+)(?:;|$)", self.headers.get("Cookie", ""))  # replace this by your login
        if not user:
            return self.send(401, {"error": "sign in first"})
        if self.path != "/chat":
            return self.send(404, {"error": "not found"})
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            new = {"external_id": body["id"], "user": user[1], "agent": "general"}
            status, session = twostep("/v1/sessions", new)
            if status >= 300:
                return self.send(status, session)
            scopes = ["read", "post", "decide", "cancel"]
            self.send(*twostep("/v1/browser_tokens", {"session_id": session["id"], "scopes": scopes}))
        except (ValueError, TypeError, KeyError) as error:
            self.send(400, {"error": str(error)})
        except OSError as error:
            self.send(502, {"error": str(error)})

    def do_GET(self):
        if "PAGE" not in os.environ:
            return self.send(404, {"error": "not found"})
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        with open(os.environ["PAGE"], "rb") as page:
            self.wfile.write(page.read())

    def send(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "3000"))), BackEnd)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
