#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Serves the files of the working directory with ranges of bytes. Prints its port; each answer is a line on stderr.
import http.server, os, re, sys


class Ranges(http.server.BaseHTTPRequestHandler):
    """Serves files with ranges of bytes, except below /whole/, and below /endless/ bytes without an end. Below /moved/ it redirects,
    and while a file `cut` exists, it sends only half of each answer."""
    def do_GET(self):
        path = self.path.lstrip("/")
        if path.startswith("moved/"):
            self.send_response(302)
            self.send_header("Location", "/" + os.path.basename(path))
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if path.startswith("endless/"):
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                return
        if not os.path.exists(os.path.basename(path)):
            return self.send_error(404)
        data = open(os.path.basename(path), "rb").read()
        wanted = re.fullmatch(r"bytes=(\d*)-", self.headers.get("Range", "")) or re.fullmatch(r"bytes=-(\d+)", self.headers.get("Range", ""))
        if not wanted or path.startswith("whole/"):
            first, status = 0, 200
        elif self.headers["Range"].startswith("bytes=-"):
            first, status = max(0, len(data) - int(wanted[1])), 206
        else:
            first, status = int(wanted[1]), 206
        if status == 206 and first >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        self.wfile.write(data[first:first + (len(data) - first) // 2] if os.path.exists("cut") else data[first:])
        print(status, len(data) - first, flush=True, file=sys.stderr)
    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Ranges)
print(server.server_port, flush=True)
server.serve_forever()
