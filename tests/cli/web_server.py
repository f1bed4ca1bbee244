#!/usr/bin/env python3
"""A web server for scenarios: serves a folder by ranges, asks for a token below /private/, and redirects.

  web_server.py FOLDER PORTFILE [CERTIFICATE_AND_KEY]    until standard input ends

/away/X redirects to /X; /down/X to the same on http://127.0.0.1:1. Appends "TARGET RANGE BYTES" of each request to
PORTFILE.log.
"""
import http.server
import os
import ssl
import sys
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers, body=b""):
        with open(sys.argv[2] + ".log", "a") as log:
            log.write(f"{self.path} {self.headers.get('Range', '-')} {len(body)}\n")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path.partition("?")[0]
        for prefix, to in (("/away/", "/"), ("/down/", "http://127.0.0.1:1/")):
            if path.startswith(prefix):
                return self.answer(302, {"Location": to + path[len(prefix):]})
        if path.startswith("/private/") and self.headers.get("Authorization") != "Bearer open sesame":
            return self.answer(401, {})
        file = sys.argv[1] + path.removeprefix("/private")
        if not os.path.isfile(file):
            return self.answer(404, {})
        size = os.stat(file).st_size
        headers = {"ETag": f'"{os.stat(file).st_mtime_ns}"'}
        if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            return self.answer(412, {})
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        with open(file, "rb") as source:
            source.seek(begin)
            content = source.read(end - begin)
        if "Range" not in self.headers or begin >= end:
            return self.answer(200, headers, content)
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        return self.answer(206, headers, content)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if len(sys.argv) > 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    with open(sys.argv[2] + ".tmp", "w") as out:
        out.write(str(server.server_address[1]))
    os.rename(sys.argv[2] + ".tmp", sys.argv[2])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


main()
